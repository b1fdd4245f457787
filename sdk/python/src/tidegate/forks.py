"""Replaces locks and connections in the child of a fork.

A client that is created before a fork (Celery's prefork pool, ``gunicorn --preload``, multiprocessing) must
not read from the sockets of its parent, or each process would get decisions of the other. A lock may be held
by a thread that exists only in the parent.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Protocol


class ForkAware(Protocol):
    """An object with locks or connections."""

    def _after_fork(self) -> None:
        """Replaces them. It runs in the child, before anything else does."""


_objects: weakref.WeakSet[ForkAware] = weakref.WeakSet()
_modules: list[Callable[[], None]] = []


def renew_after_fork(one: ForkAware) -> None:
    """Registers an object whose ``_after_fork`` is called in every child, for as long as it exists."""
    _objects.add(one)


def renew_module_after_fork(renew: Callable[[], None]) -> None:
    """Registers a function that is called in every child."""
    _modules.append(renew)


def _after_fork() -> None:
    for renew in _modules:
        renew()
    for one in list(_objects):
        one._after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
    os.register_at_fork(after_in_child=_after_fork)
