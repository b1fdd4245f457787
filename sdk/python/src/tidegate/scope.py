"""What a limiter counts together: its name, else the route, else the limiter itself.

``vectors/identity.json`` holds every language to it.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any

from .forks import renew_module_after_fork
from .routing import route_of
from .warnings import is_handling, warn_once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .limits import Limit
    from .request import Scope

MOST = 100
"""So many limiters with the same limits are told apart at most.

An app that makes more of them makes one per request, and each would begin with a full limit.
"""

_numbers: Counter[object] = Counter()
# A limiter may be collected, and give its number back, while this thread takes another.
_lock = threading.RLock()


class LimiterScope:
    """The scope of one limiter's counters.

    ``limits`` is ``None`` if they are a function of the request. A limiter that may be asked without a
    route (``eager``) takes its number when it is created, so that every process that runs the same code
    numbers them alike. Limiters that are created while a request is handled are not told apart, or none of
    them would ever deny.
    """

    def __init__(
        self, name: str | None, limits: tuple[Limit, ...] | None, *, app: Any = None, eager: bool = False
    ) -> None:
        if name is not None and not name:
            raise ValueError("name of a limiter must not be empty; leave it out instead")
        self._name = name
        self._limits = limits
        self._app = app
        self._number: int | None = 1 if is_handling() else None
        if eager and name is None:
            self._take_number()

    def of(self, scope: Scope) -> str:
        """Returns what goes to the service as ``route``."""
        return self._name or route_of(scope, self._app) or self._own()

    def _own(self) -> str:
        number = self._take_number()
        own = "limiter" if self._limits is not None else "limiter:dynamic"
        if number == 1:
            return own
        warn_once("TIDEGATE_UNNAMED_TWIN")
        return f"{own}#{number}"

    def _take_number(self) -> int:
        """Returns this limiter's number, which is free again when the limiter is gone."""
        with _lock:
            if self._number is None:
                shared = [limit.identity for limit in self._limits] if self._limits is not None else [None]
                self._number = _next_number(shared)
                freeing = weakref.finalize(self, _release, _numbers, shared, self._number)
                freeing.atexit = False  # type: ignore[misc]  # typeshed leaves it out of the slots
            return self._number


def _next_number(shared: Sequence[object]) -> int:
    """Returns the number of a new limiter: one limit in common is enough to be told apart."""
    number = min(1 + max(_numbers[limit] for limit in shared), MOST)
    for limit in shared:
        _numbers[limit] = number
    return number


def _release(numbers: Counter[object], shared: Sequence[object], number: int) -> None:
    """Frees the number of a limiter that is gone, if it was the highest."""
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


def forget() -> None:
    """Numbers limiters anew, for tests."""
    global _numbers
    with _lock:
        _numbers = Counter()  # limiters that go later give their numbers back to the old one
