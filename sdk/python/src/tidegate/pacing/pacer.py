"""When each request to a host may start."""

from __future__ import annotations

import threading
from collections import OrderedDict

from .learned import Learned, delay_ms, is_little

MOST_HOSTS = 10_000
_BLIND_GAP_S = 0.1
"""Between requests that wait for the same moment, where nothing tells how many may come at once."""


class _Lane:
    """What is known of one host."""

    def __init__(self) -> None:
        self.learned: Learned | None = None
        self.learned_at_s = 0.0
        self.last_start_s = float("-inf")
        self.blocked_until_s = float("-inf")
        """Until then nothing passes, as an answer told; no other makes it sooner."""

    def free_at_s(self) -> float:
        """Not before this time, as far as is known."""
        if self.learned is None:
            return float("-inf")
        return max(self.blocked_until_s, self.learned_at_s + delay_ms(self.learned, 0) / 1000)

    def gap_s(self, now_s: float) -> float:
        """How far apart requests start, so that those who waited are spread and not released at once."""
        learned = self.learned
        if learned is None:
            return 0.0
        if now_s >= max(self._stale_at_s(learned), self.last_start_s, self.blocked_until_s):
            return 0.0
        if learned.remaining and is_little(learned) and learned.reset_after_s is not None:
            return learned.reset_after_s / learned.remaining
        if learned.remaining == 0 or learned.retry_after_s or now_s < self.blocked_until_s:
            return _refill_s(learned)
        return 0.0

    def _stale_at_s(self, learned: Learned) -> float:
        return self.learned_at_s + max(learned.reset_after_s or 0.0, learned.retry_after_s or 0.0)


class Pacer:
    """Hands out starting times, in order. It does not sleep itself, and is safe across threads."""

    def __init__(self) -> None:
        self._lanes: OrderedDict[str, _Lane] = OrderedDict()
        self._lock = threading.Lock()

    def start_at_s(self, host: str, now_s: float, latest_s: float) -> float | None:
        """When the next request may start; ``None``, and nothing is taken, if that is after ``latest_s``."""
        with self._lock:
            lane = self._lane(host)
            start_s = max(now_s, lane.free_at_s())
            gap_s = lane.gap_s(now_s)
            if gap_s > 0:
                start_s = max(start_s, lane.last_start_s + gap_s)
            if start_s > latest_s:
                return None
            lane.last_start_s = start_s
            return start_s

    def is_held_back(self, host: str, now_s: float) -> bool:
        """Whether, since a start was handed out, an answer told that nothing passes yet."""
        with self._lock:
            return self._lane(host).blocked_until_s > now_s

    def learn(self, host: str, learned: Learned, now_s: float) -> None:
        """An answer came. One that tells nothing changes nothing."""
        if learned == Learned():
            return
        with self._lock:
            lane = self._lane(host)
            # Until a wait that was asked for is over, an answer to an older request does not shorten it.
            if learned.remaining == 0 or learned.retry_after_s:
                lane.blocked_until_s = max(lane.blocked_until_s, now_s + delay_ms(learned, 0) / 1000)
            if lane.learned and lane.learned.retry_after_s:
                left_s = lane.learned_at_s + lane.learned.retry_after_s - now_s
                if left_s > (learned.retry_after_s or 0):
                    learned = Learned(
                        learned.limit, learned.remaining, learned.reset_after_s, left_s, learned.policies
                    )
            lane.learned = learned
            lane.learned_at_s = now_s

    def state(self, host: str) -> Learned | None:
        """What was learnt last."""
        with self._lock:
            lane = self._lanes.get(host)
            return lane.learned if lane else None

    def _lane(self, host: str) -> _Lane:
        lane = self._lanes.get(host)
        if lane is None:
            lane = self._lanes[host] = _Lane()
            while len(self._lanes) > MOST_HOSTS:
                self._lanes.popitem(last=False)
        else:
            self._lanes.move_to_end(host)
        return lane


def _refill_s(learned: Learned) -> float:
    """Seconds for one unit to come back, at the rate that the limit grants."""
    by = next((policy for policy in learned.policies if policy.remaining == learned.remaining), None)
    window_s = by.window_s if by and by.window_s else learned.reset_after_s
    if not learned.limit or not window_s:
        return _BLIND_GAP_S
    return window_s / learned.limit
