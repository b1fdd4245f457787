"""What a limiter counts together: its name, else the route, else the limiter itself.

``vectors/identity.json`` holds every language to it.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from .forks import renew_module_after_fork
from .routing import route_of
from .warnings import warn_once

if TYPE_CHECKING:
    from .limits import Limit
    from .request import Scope

_numbers: Counter[object] = Counter()
_lock = threading.Lock()


class LimiterScope:
    """The scope of one limiter's counters.

    ``limits`` is ``None`` if they are a function of the request. A limiter that may be asked without a
    route (``eager``) takes its number when it is created, so that every process that runs the same code
    numbers them alike.
    """

    def __init__(
        self, name: str | None, limits: tuple[Limit, ...] | None, *, app: Any = None, eager: bool = False
    ) -> None:
        if name is not None and not name:
            raise ValueError("name of a limiter must not be empty; leave it out instead")
        self._name = name
        self._limits = limits
        self._app = app
        self._number = _next_number(limits) if eager and name is None else None

    def of(self, scope: Scope) -> str:
        """Returns what goes to the service as ``route``."""
        return self._name or route_of(scope, self._app) or self._own()

    def _own(self) -> str:
        if self._number is None:
            self._number = _next_number(self._limits)
        own = "limiter" if self._limits is not None else "limiter:dynamic"
        if self._number == 1:
            return own
        warn_once("TIDEGATE_UNNAMED_TWIN")
        return f"{own}#{self._number}"


def _next_number(limits: tuple[Limit, ...] | None) -> int:
    """Returns the number of a new limiter: one limit in common is enough to be told apart."""
    shared: list[object] = [None] if limits is None else [limit.identity for limit in limits]
    with _lock:
        number = 1 + max(_numbers[limit] for limit in shared)
        for limit in shared:
            _numbers[limit] = number
        return number


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


renew_module_after_fork(_after_fork)


def forget() -> None:
    """Numbers limiters anew, for tests."""
    with _lock:
        _numbers.clear()
