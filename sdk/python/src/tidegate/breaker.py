"""A circuit breaker: when to stop calling a service that fails, and when to try it again."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .forks import renew_after_fork
from .response import CallFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .clock import Clock

_log = logging.getLogger("tidegate")

MIN_BACKOFF_S = 0.05
MAX_BACKOFF_S = 5.0

RECENTLY_FAILED = "the service failed a moment ago and is not called until the next retry"


@dataclass(frozen=True, slots=True)
class Admission:
    """Permission to send. ``is_probe`` is true for the request that finds out whether the service is back."""

    epoch: int
    is_probe: bool


class Breaker:
    """Opens after a failure. A single request then probes the service, after a backoff with full jitter.

    An epoch lasts from one opening to the next. A request that was sent in an earlier epoch tells nothing new
    when it fails, so a hundred requests that fail together count as one failure. A probe that has not
    reported within ``probe_timeout_s`` counts as lost, and another one may start.
    """

    def __init__(self, clock: Clock, *, probe_timeout_s: float) -> None:
        self._clock = clock
        self._probe_timeout_s = probe_timeout_s
        self._lock = threading.Lock()
        self._epoch = 0
        self._failures = 0
        self._retry_at = 0.0
        renew_after_fork(self)

    def _after_fork(self) -> None:
        """Replaces the lock, which a thread of the parent may hold."""
        self._lock = threading.Lock()

    @property
    def is_open(self) -> bool:
        """Whether requests are held back."""
        return self._failures > 0

    def admit(self) -> Admission | None:
        """Returns the permission to send, or ``None`` if the fallback has to decide at once."""
        if not self._failures:
            return Admission(self._epoch, is_probe=False)
        with self._lock:
            now = self._clock.monotonic()
            if now < self._retry_at:
                return None
            # No other request until this one has reported, or was lost with its event loop.
            self._retry_at = now + self._probe_timeout_s
            return Admission(self._epoch, is_probe=True)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Wraps one call: raises `CallFailed` if it may not be sent, and records how it ends."""
        admission = self.admit()
        if admission is None:
            raise CallFailed(RECENTLY_FAILED, sent=False)
        try:
            yield
        except CallFailed as failure:
            self.failed(admission, str(failure))
            raise
        self.succeeded(admission)

    def succeeded(self, admission: Admission) -> None:
        """Records that the service responded; closes the breaker."""
        if not self._failures:
            return
        with self._lock:
            if admission.epoch == self._epoch and self._failures:
                self._failures = 0
                _log.info("the rate limit service responds again")

    def failed(self, admission: Admission, why: str) -> None:
        """Records that the service did not respond, or not with a usable response; opens the breaker."""
        with self._lock:
            if admission.epoch != self._epoch:
                return
            self._epoch += 1
            if not self._failures:
                _log.warning("the rate limit service failed (%s); the fallback decides meanwhile", why)
            self._failures += 1
            max_s = min(MAX_BACKOFF_S, MIN_BACKOFF_S * 2 ** min(self._failures - 1, 16))
            self._retry_at = self._clock.monotonic() + max_s * self._clock.chance()
