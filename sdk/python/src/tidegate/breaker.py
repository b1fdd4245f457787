"""When to leave a service alone that does not answer, and when to try it again."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .answer import Unanswered
from .forks import renew_after_fork

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .clock import Clock

_log = logging.getLogger("tidegate")

FIRST_BACKOFF_S = 0.05
MOST_BACKOFF_S = 5.0


@dataclass(frozen=True, slots=True)
class Admission:
    """Leave to send. ``alone`` if it is the one request that finds out whether the service is back."""

    epoch: int
    alone: bool


class Breaker:
    """Open after a failure; then one request alone tries, after a backoff with full jitter.

    An epoch lasts from one opening to the next. What was sent in an earlier one says nothing new when it
    fails, so a hundred requests that fail together count once.
    """

    def __init__(self, clock: Clock, *, patience_s: float) -> None:
        self._clock = clock
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._epoch = 0
        self._failures = 0
        self._retry_at = 0.0
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Starts with a lock that nobody holds."""
        self._lock = threading.Lock()

    @property
    def is_open(self) -> bool:
        """Whether requests are held back."""
        return self._failures > 0

    def admit(self) -> Admission | None:
        """Leave to send, or ``None`` to fall back at once."""
        if not self._failures:
            return Admission(self._epoch, alone=False)
        with self._lock:
            now = self._clock.monotonic()
            if now < self._retry_at:
                return None
            # Nobody else until it has reported, or was lost with its event loop.
            self._retry_at = now + self._patience_s
            return Admission(self._epoch, alone=True)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Around one request by itself: raises `Unanswered` if it may not be sent, and learns how it ends."""
        admission = self.admit()
        if admission is None:
            raise Unanswered("the service did not answer a moment ago", sent=False)
        try:
            yield
        except Unanswered as why:
            self.failed(admission, str(why))
            raise
        self.succeeded(admission)

    def succeeded(self, admission: Admission) -> None:
        """The service answered."""
        if not self._failures:
            return
        with self._lock:
            if admission.epoch == self._epoch and self._failures:
                self._failures = 0
                _log.info("the rate limit service answers again")

    def failed(self, admission: Admission, why: str) -> None:
        """The service did not answer, or what came was no answer."""
        with self._lock:
            if admission.epoch != self._epoch:
                return
            self._epoch += 1
            if not self._failures:
                _log.warning("the rate limit service does not answer (%s); falling back meanwhile", why)
            self._failures += 1
            most_s = min(MOST_BACKOFF_S, FIRST_BACKOFF_S * 2 ** min(self._failures - 1, 16))
            self._retry_at = self._clock.monotonic() + most_s * self._clock.chance()
