"""When each request to a host may start. ``vectors/README.md`` has the rules, the same in every language."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from dataclasses import dataclass

from .learned import Learned, spread_s

MOST_HOSTS = 10_000

_MOST_STARTS = 1_000
"""So many own requests are remembered to tell when the first of them leaves the server's window."""

_SCOUT_S = 1.0
"""So long the others wait for the response to a request that was sent to find out how much is left."""

_GRADUAL_STEPS = 1.5
"""A server that gives back little by little is asked again after so many of the steps its limit grants."""

_NEVER = float("-inf")


@dataclass(slots=True, eq=False)
class Start:
    """A request that was started."""

    lane: Lane
    number: int
    at_s: float
    response_at_s: float | None = None


class Lane:
    """What is known of one host. Not safe across threads by itself."""

    def __init__(self) -> None:
        self.learned: Learned | None = None
        self.in_flight = 0
        self._learned_at_s = _NEVER
        self._left: int | None = None
        self._known_at_s = _NEVER
        self._known_until_s = _NEVER
        self._blocked_until_s = _NEVER
        self._last_start_s = _NEVER
        self._scout_start_s = _NEVER
        """When the last request started while nothing was in flight."""
        self._number = 0
        self._starts: deque[Start] = deque(maxlen=_MOST_STARTS)
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
            return now_s if self._silent else max(now_s, self._scout_start_s + _SCOUT_S)
        if self._left > 0:  # after a reset there is not less
            return now_s
        if now_s < self._known_until_s:
            return self._known_until_s
        return max(now_s, self._last_start_s + _SCOUT_S)

    def start(self, now_s: float) -> Start:
        """Notes that a request starts now."""
        if self.in_flight == 0:
            self._scout_start_s = now_s
        self._number += 1
        self.in_flight += 1
        self._last_start_s = now_s
        if self._left is not None:
            self._left -= 1
        start = Start(self, self._number, now_s)
        self._starts.append(start)
        return start

    def fail(self, start: Start, now_s: float) -> None:
        """Notes that a request has no response. Whether it was counted is not known."""
        self.in_flight -= 1
        start.response_at_s = now_s

    def respond(self, start: Start, learned: Learned, *, denied: bool, now_s: float) -> None:
        """Takes in what a response tells. One that tells nothing changes nothing."""
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
        """Estimates how many may start: the server may not have seen all when it wrote what remains."""
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
        """Returns when there is more, now that nothing is left."""
        limit, window_s = learned.limit, learned.window_s
        if not limit or not window_s or reset_s < window_s or limit > _MOST_STARTS:
            return now_s + reset_s
        # What is told is when all is back. The own requests tell when the first of them is.
        ends_s = [now_s if one.response_at_s is None else one.response_at_s for one in self._starts]
        ends_s = [end_s for end_s in ends_s if end_s + window_s > start.at_s]
        if len(ends_s) < limit:
            self._gradual = True
        if self._gradual:
            return now_s + min(reset_s, _GRADUAL_STEPS * window_s / limit)
        return ends_s[-limit] + window_s


class Pacer:
    """The lanes of all hosts. It does not sleep itself, and is safe across threads."""

    def __init__(self) -> None:
        self._lanes: OrderedDict[str, Lane] = OrderedDict()
        self._lock = threading.Lock()

    def ready_at_s(self, host: str, now_s: float) -> float:
        """Returns when the next request to a host may start, unless a response changes it before."""
        with self._lock:
            return self._lane(host).ready_at_s(now_s)

    def start(self, host: str, now_s: float) -> Start:
        """Notes that a request to a host starts now."""
        with self._lock:
            return self._lane(host).start(now_s)

    def fail(self, start: Start, now_s: float) -> None:
        """Notes that a request has no response."""
        with self._lock:
            start.lane.fail(start, now_s)

    def respond(self, start: Start, learned: Learned, *, denied: bool, now_s: float) -> None:
        """Takes in what a response tells."""
        with self._lock:
            start.lane.respond(start, learned, denied=denied, now_s=now_s)

    def others_in_flight(self, host: str) -> bool:
        """Whether a response may come that changes when the next request may start."""
        with self._lock:
            return self._lane(host).in_flight > 0

    def state(self, host: str) -> Learned | None:
        """Returns what was learnt last."""
        with self._lock:
            lane = self._lanes.get(host)
            return lane.learned if lane else None

    def _lane(self, host: str) -> Lane:
        lane = self._lanes.get(host)
        if lane is None:
            lane = self._lanes[host] = Lane()
            while len(self._lanes) > MOST_HOSTS:
                self._lanes.popitem(last=False)
        else:
            self._lanes.move_to_end(host)
        return lane
