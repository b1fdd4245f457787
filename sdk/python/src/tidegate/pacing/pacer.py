"""When the next request to a host may start. ``vectors/README.md`` states the rules for every language."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from dataclasses import dataclass

from .learned import Learned, spread_s

MAX_HOSTS = 10_000

_MAX_STARTS = 1_000
"""Own requests that are remembered, to tell when the first of them leaves the server's window."""

_PROBE_S = 1.0
"""Seconds that others wait for the response to a request that was sent to find out how much is left."""

_GRADUAL_STEPS = 1.5
"""Windows divided by the limit until the next request, at a server that refills little by little."""

_NEVER = float("-inf")


@dataclass(slots=True, eq=False)
class Start:
    """The start of a request."""

    host: HostState
    number: int
    at_s: float
    response_at_s: float | None = None
    """When its response or error came; ``None`` while it is in flight."""


class HostState:
    """What is known about the limits of one host. It is not safe across threads by itself."""

    def __init__(self) -> None:
        self.learned: Learned | None = None
        self.in_flight = 0
        self._learned_at_s = _NEVER
        self._left: int | None = None
        self._known_at_s = _NEVER
        self._known_until_s = _NEVER
        self._blocked_until_s = _NEVER
        self._last_start_s = _NEVER
        self._probe_start_s = _NEVER
        """When the last request started while nothing was in flight."""
        self._number = 0
        self._starts: deque[Start] = deque(maxlen=_MAX_STARTS)
        self._gradual = False
        self._silent = False

    def ready_at_s(self, now_s: float) -> float:
        """Returns when the next request may start, unless a response changes it before."""
        ready_s = max(now_s, self._blocked_until_s)
        if self.learned is not None and (gap_s := spread_s(self.learned)) and now_s < self._known_until_s:
            ready_s = max(ready_s, max(self._learned_at_s, self._last_start_s) + gap_s)
        if ready_s > now_s:
            return ready_s
        if self.in_flight == 0:
            return now_s
        if self._left is None:
            return now_s if self._silent else max(now_s, self._probe_start_s + _PROBE_S)
        if self._left > 0:  # a reset never leaves less
            return now_s
        if now_s < self._known_until_s:
            return self._known_until_s
        return max(now_s, self._last_start_s + _PROBE_S)

    def start(self, now_s: float) -> Start:
        """Notes that a request starts now."""
        if self.in_flight == 0:
            self._probe_start_s = now_s
        self._number += 1
        self.in_flight += 1
        self._last_start_s = now_s
        if self._left is not None:
            self._left -= 1
        start = Start(self, self._number, now_s)
        self._starts.append(start)
        return start

    def fail(self, start: Start, now_s: float) -> None:
        """Notes that a request ended without a response. It is not known whether the server counted it."""
        self.in_flight -= 1
        start.response_at_s = now_s

    def respond(self, start: Start, learned: Learned, *, denied: bool, now_s: float) -> None:
        """Updates the state from a response. One without rate limit headers changes nothing."""
        self.in_flight -= 1
        start.response_at_s = now_s
        if denied:
            self._gradual = not self._gradual
            if start in self._starts:
                self._starts.remove(start)
        if learned == Learned():
            self._silent = self.learned is None
            return
        self._silent = False
        self.learned, self._learned_at_s = learned, now_s
        if learned.retry_after_s:
            self._block(now_s + learned.retry_after_s)
        elif learned.remaining is not None and learned.reset_after_s is not None:
            self._count(start, learned.remaining, now_s)
            self._known_until_s = now_s + learned.reset_after_s
            if learned.remaining == 0:
                self._block(self._more_at_s(start, learned, learned.reset_after_s, now_s))

    def _block(self, until_s: float) -> None:
        self._left, self._known_until_s = 0, until_s
        self._blocked_until_s = max(self._blocked_until_s, until_s)

    def _count(self, start: Start, remaining: int, now_s: float) -> None:
        """Estimates how many requests may start; the server had not seen all of them when it responded."""
        since_s = start.at_s - (now_s - start.at_s)
        beside = sum(
            other.response_at_s is None and other.number < start.number and other.at_s >= since_s
            for other in self._starts
        )
        estimate = remaining - (self._number - start.number) - beside
        if self._left is None or start.at_s >= self._known_at_s:
            self._left, self._known_at_s = estimate, now_s
        else:
            self._left = min(self._left, estimate)

    def _more_at_s(self, start: Start, learned: Learned, reset_s: float, now_s: float) -> float:
        """Returns when units are available again, now that none are left."""
        limit, window_s = learned.limit, learned.window_s
        if not limit or not window_s or reset_s < window_s or limit > _MAX_STARTS:
            return now_s + reset_s
        # The reset is when all units are back. Our own requests tell when the first of them is.
        ends_s = [now_s if one.response_at_s is None else one.response_at_s for one in self._starts]
        ends_s = [end_s for end_s in ends_s if end_s + window_s > start.at_s]
        if len(ends_s) < limit:
            self._gradual = True
        if self._gradual:
            return now_s + min(reset_s, _GRADUAL_STEPS * window_s / limit)
        return ends_s[-limit] + window_s


class Pacer:
    """Decides when requests may start, for all hosts. It does not wait itself, and is safe across threads.

    >>> pacer = Pacer()
    >>> wait_s = pacer.ready_at_s("api.example.com", now_s) - now_s
    >>> start = pacer.start("api.example.com", now_s)
    >>> learned = learn(response.status_code, response.headers.items(), time.time())
    >>> pacer.respond(start, learned, denied=is_denial(response.status_code, learned), now_s=now_s)

    The transports use it. ``now_s`` is a monotonic time in seconds.
    """

    def __init__(self) -> None:
        self._hosts: OrderedDict[str, HostState] = OrderedDict()
        self._lock = threading.Lock()

    def ready_at_s(self, host: str, now_s: float) -> float:
        """Returns when the next request to a host may start, unless a response changes it before."""
        with self._lock:
            return self._state_of(host).ready_at_s(now_s)

    def start(self, host: str, now_s: float) -> Start:
        """Notes that a request to a host starts now."""
        with self._lock:
            return self._state_of(host).start(now_s)

    def fail(self, start: Start, now_s: float) -> None:
        """Notes that a request ended without a response."""
        with self._lock:
            start.host.fail(start, now_s)

    def respond(self, start: Start, learned: Learned, *, denied: bool, now_s: float) -> None:
        """Updates the state of a host from the response to a request."""
        with self._lock:
            start.host.respond(start, learned, denied=denied, now_s=now_s)

    def others_in_flight(self, host: str) -> bool:
        """Returns whether a response may come that changes when the next request may start."""
        with self._lock:
            return self._state_of(host).in_flight > 0

    def state(self, host: str) -> Learned | None:
        """Returns what the last response of a host said about its limits; ``None`` if nothing is known."""
        with self._lock:
            state = self._hosts.get(host)
            return state.learned if state else None

    def _state_of(self, host: str) -> HostState:
        state = self._hosts.get(host)
        if state is None:
            state = self._hosts[host] = HostState()
            while len(self._hosts) > MAX_HOSTS:
                self._hosts.popitem(last=False)
        else:
            self._hosts.move_to_end(host)
        return state
