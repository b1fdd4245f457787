"""What starts anew in the child of a fork: locks that a thread of the parent may hold, and connections.

A client that is made before a fork (Celery's prefork pool, ``gunicorn --preload``, multiprocessing) must not
read from the parent's sockets, or each would get the other's decisions.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Protocol


class Forked(Protocol):
    """Something that has locks or connections."""

    def after_fork(self) -> None:
        """Starts anew. It runs in the child, before anything else does."""


_objects: weakref.WeakSet[Forked] = weakref.WeakSet()
_modules: list[Callable[[], None]] = []


def renew_after_fork(one: Forked) -> None:
    """Has an object start anew in every child, for as long as it lives."""
    _objects.add(one)


def renew_module_after_fork(renew: Callable[[], None]) -> None:
    """Calls a function of a module in every child."""
    _modules.append(renew)


def _after_fork() -> None:
    for renew in _modules:
        renew()
    for one in list(_objects):
        one.after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
    os.register_at_fork(after_in_child=_after_fork)
