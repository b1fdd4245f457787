"""The scope of a limiter's counters: its name, else the route, else the limiter itself.

``vectors/identity.json`` states this rule for every language.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any

from .forks import renew_module_after_fork
from .routing import route_of
from .warnings import is_within_request, warn_once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .limits import Limit
    from .request import Scope

MAX_NUMBER = 100
"""The highest number of a limiter.

An app that creates more with the same limits creates one per request, and each would begin with a full limit.
"""

_numbers: Counter[object] = Counter()
# A limiter may be collected, and give its number back, while this thread takes another.
_lock = threading.RLock()


class LimiterScope:
    """The scope of one limiter's counters.

    ``limits`` is ``None`` if they are a function of the request. A limiter that may decide requests without a
    route (``eager``) takes its number when it is created, so that every process that runs the same code
    gives it the same number. Limiters that are created while a request is handled all have number 1:
    otherwise each would begin with a full limit, and none would ever deny.
    """

    def __init__(
        self, name: str | None, limits: tuple[Limit, ...] | None, *, app: Any = None, eager: bool = False
    ) -> None:
        if name is not None and not name:
            raise ValueError("name of a limiter must not be empty; leave it out instead")
        self._name = name
        self._limits = limits
        self._app = app
        self._number: int | None = 1 if is_within_request() else None
        if eager and name is None:
            self._take_number()

    def route_of(self, scope: Scope) -> str:
        """Returns the value of the entry ``route`` for a request."""
        return self._name or route_of(scope, self._app) or self._numbered()

    def _numbered(self) -> str:
        number = self._take_number()
        prefix = "limiter" if self._limits is not None else "limiter:dynamic"
        if number == 1:
            return prefix
        warn_once("TIDEGATE_UNNAMED_TWIN")
        return f"{prefix}#{number}"

    def _take_number(self) -> int:
        """Returns this limiter's number, which becomes free when the limiter is collected."""
        with _lock:
            if self._number is None:
                shared = [limit.identity for limit in self._limits] if self._limits is not None else [None]
                self._number = _next_number(shared)
                freeing = weakref.finalize(self, _release, _numbers, shared, self._number)
                freeing.atexit = False  # type: ignore[misc]  # typeshed leaves it out of the slots
            return self._number


def _next_number(shared: Sequence[object]) -> int:
    """Returns a number that no other limiter has with which the new one shares a limit."""
    number = min(1 + max(_numbers[limit] for limit in shared), MAX_NUMBER)
    for limit in shared:
        _numbers[limit] = number
    return number


def _release(numbers: Counter[object], shared: Sequence[object], number: int) -> None:
    """Frees the number of a limiter that was collected, if it was the highest."""
    with _lock:
        for limit in shared:
            if numbers[limit] == number:
                numbers[limit] -= 1
            if not numbers[limit]:
                del numbers[limit]


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()


renew_module_after_fork(_after_fork)


def reset() -> None:
    """Starts numbering from 1, for tests."""
    global _numbers
    with _lock:
        _numbers = Counter()  # limiters that exist now free their numbers in the old one
