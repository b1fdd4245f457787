"""The algorithms of limits that code can write, as pure functions of a counter's state and the time.

They decide as the service does, to the unit and the microsecond: ``crates/core/src/algorithm`` holds the
vectors. Sums are in units x microseconds, so that nothing rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

SUB_WINDOWS = 60
"""So many buckets ``sub_windows`` has, unless a rule says otherwise."""

MOST_DRAIN_US = 10 * 365 * 86_400 * 1_000_000
"""The longest a bucket can be overdrawn for: ten years."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """What a limit allows: ``burst`` is only looked at by the buckets."""

    requests: int
    window_us: int
    burst: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one counter says."""

    allowed: bool
    remaining: int
    reset_after_us: int
    retry_after_us: int | None
    """``None`` if it passes, or never will."""


State: TypeAlias = Any
"""What an algorithm keeps of a counter; ``None`` of one that was never charged."""


class Algorithm(Protocol):
    """Takes from a counter and gives back. States are never changed in place."""

    def charge(self, of: Numbers, state: State, cost: int, now_us: int) -> tuple[State, Verdict]:
        """Takes a cost if it fits; if not, the state is the one of `carry_on`. Cost 0 only looks."""

    def take(self, of: Numbers, state: State, cost: int, now_us: int) -> State:
        """Takes a cost whether it fits or not."""

    def give_back(self, of: Numbers, state: State, cost: int, now_us: int) -> State:
        """Gives a cost back, never above full."""

    def give_back_taken(self, of: Numbers, state: State, cost: int, taken_us: int, now_us: int) -> State:
        """Gives back what was taken at that time, as far as it still counts."""

    def carry_on(self, of: Numbers, state: State, now_us: int) -> State:
        """Returns the state to go on with when nothing was taken, in case the numbers have changed."""
        return state


@dataclass(frozen=True, slots=True)
class _Counts:
    start_us: int = 0
    current: int = 0
    previous: int = 0

    def at(self, now_us: int, window_us: int) -> _Counts:
        start_us = now_us - now_us % window_us
        if self.start_us == start_us:
            return self
        previous = self.current if self.start_us + window_us == start_us else 0
        return _Counts(start_us, 0, previous)


class SlidingWindow(Algorithm):
    """Two counters: this window, and the one before weighed by the part that is less than a window ago."""

    def charge(self, of: Numbers, state: State, cost: int, now_us: int) -> tuple[State, Verdict]:
        """Takes a cost if it fits."""
        window_us = of.window_us
        seen = (state or _Counts()).at(now_us, window_us)
        left_us = window_us - (now_us - seen.start_us)
        budget = of.requests * window_us
        used = seen.current * window_us + seen.previous * left_us
        after = used + cost * window_us
        if after <= budget:
            taken = _Counts(seen.start_us, seen.current + cost, seen.previous)
            left = (budget - after) // window_us
            return taken, Verdict(True, left, self._reset_after_us(taken, left_us, window_us), None)
        retry_us = self._retry_after_us(of, seen, cost, left_us)
        left = max(0, budget - used) // window_us
        return state, Verdict(False, left, self._reset_after_us(seen, left_us, window_us), retry_us)

    def take(self, of: Numbers, state: State, cost: int, now_us: int) -> State:
        """Takes a cost whether it fits or not."""
        seen = (state or _Counts()).at(now_us, of.window_us)
        return _Counts(seen.start_us, seen.current + cost, seen.previous)

    def give_back(self, of: Numbers, state: State, cost: int, now_us: int) -> State:
        """Gives back to this window, then to the one before."""
        seen = (state or _Counts()).at(now_us, of.window_us)
        from_current = min(seen.current, cost)
        previous = max(0, seen.previous - (cost - from_current))
        return _Counts(seen.start_us, seen.current - from_current, previous)

    def give_back_taken(self, of: Numbers, state: State, cost: int, taken_us: int, now_us: int) -> State:
        """Gives back to the window it came from, while that one counts."""
        seen = (state or _Counts()).at(now_us, of.window_us)
        age = (seen.start_us - (taken_us - taken_us % of.window_us)) // of.window_us
        if age <= 0:
            return self.give_back(of, seen, cost, now_us)
        if age == 1:
            return _Counts(seen.start_us, seen.current, max(0, seen.previous - cost))
        return seen

    @staticmethod
    def _reset_after_us(seen: _Counts, left_us: int, window_us: int) -> int:
        if seen.current:
            return left_us + window_us
        return left_us if seen.previous else 0

    @staticmethod
    def _retry_after_us(of: Numbers, seen: _Counts, cost: int, left_us: int) -> int | None:
        """When it first fits: in this window while the one before fades, else in the next."""
        window_us = of.window_us
        if cost > of.requests:
            return None
        room = of.requests - seen.current - cost
        if room >= 0:
            return left_us - min(window_us, room * window_us // seen.previous)
        room = of.requests - cost
        return left_us + window_us - min(window_us, room * window_us // seen.current)


_Stamps: TypeAlias = tuple[tuple[int, int], ...]
"""Numbers of moments and what was taken in them, oldest first."""


class Stamped(Algorithm):
    """Units that leave all together after the moment they were taken in: a log, sub-windows, or a window."""

    def __init__(
        self,
        moment: Callable[[Numbers, int], int],
        leaves_us: Callable[[Numbers, int], int],
        *,
        ends: bool = False,
    ) -> None:
        self._moment = moment
        self._leaves_us = leaves_us
        self._ends = ends
        """Whether the window ends for all at the same time, even if nothing was taken."""

    def charge(self, of: Numbers, state: State, cost: int, now_us: int) -> tuple[State, Verdict]:
        """Takes a cost if it fits."""
        live = self._live(of, state, now_us)
        used = sum(taken for _, taken in live)
        after = used + cost
        if after <= of.requests:
            reset_us = self._leaves_us(of, self._moment(of, now_us)) - now_us
            if cost == 0 and not self._ends:
                reset_us = self._newest_leaves_us(of, live, now_us)
            return self.take(of, live, cost, now_us), Verdict(True, of.requests - after, reset_us, None)
        retry_us = None
        needed = after - of.requests
        for moment, taken in live if cost <= of.requests else ():
            needed -= taken
            if needed <= 0:
                retry_us = self._leaves_us(of, moment) - now_us
                break
        reset_us = self._newest_leaves_us(of, live, now_us)
        return state, Verdict(False, max(0, of.requests - used), reset_us, retry_us)

    def take(self, of: Numbers, state: State, cost: int, now_us: int) -> State:
        """Takes a cost whether it fits or not."""
        live = self._live(of, state, now_us)
        moment = self._moment(of, now_us)
        if cost == 0:
            return live
        if live and live[-1][0] == moment:
            return (*live[:-1], (moment, live[-1][1] + cost))
        taken = (*live, (moment, cost))
        # Threads read the clock before they wait for each other.
        return taken if not live or live[-1][0] < moment else tuple(sorted(taken))

    def give_back(self, of: Numbers, state: State, cost: int, now_us: int) -> State:
        """Gives back to the newest moment, then to those before."""
        live = list(self._live(of, state, now_us))
        while live and cost > 0:
            moment, taken = live.pop()
            if taken > cost:
                live.append((moment, taken - cost))
            cost -= taken
        return tuple(live)

    def give_back_taken(self, of: Numbers, state: State, cost: int, taken_us: int, now_us: int) -> State:
        """Gives back to the moment it came from, while that one counts."""
        live = self._live(of, state, now_us)
        moment = self._moment(of, taken_us)
        kept = [(at, taken - min(cost, taken) if at == moment else taken) for at, taken in live]
        return tuple(one for one in kept if one[1])

    def _live(self, of: Numbers, state: State, now_us: int) -> _Stamps:
        stamps: _Stamps = state or ()
        if stamps and self._leaves_us(of, stamps[0][0]) <= now_us:
            return tuple(one for one in stamps if self._leaves_us(of, one[0]) > now_us)
        return stamps

    def _newest_leaves_us(self, of: Numbers, live: _Stamps, now_us: int) -> int:
        if self._ends:
            return self._leaves_us(of, self._moment(of, now_us)) - now_us
        return self._leaves_us(of, live[-1][0]) - now_us if live else 0


@dataclass(frozen=True, slots=True)
class _Debt:
    """Units x microseconds that are owed, and the numbers of the limit that this was written under."""

    owed: int = 0
    at_us: int = 0
    requests: int = 0
    """So many of them drain each microsecond."""
    burst: int = 0
    is_overdrawn: bool = False
    """Whether more was used than the bucket holds."""

    @classmethod
    def of(cls, of: Numbers, owed: int, now_us: int) -> _Debt:
        owed = min(owed, of.requests * MOST_DRAIN_US)
        return cls(owed, now_us, of.requests, of.burst, owed > of.burst * of.window_us)

    def at(self, of: Numbers, now_us: int) -> int:
        """Returns what is owed now.

        If that is more than the bucket holds, the limit was lowered, and the bucket counts as full; but what
        was overdrawn is owed in full.
        """
        owed = max(0, self.owed - (now_us - self.at_us) * self.requests)
        return min(owed, of.requests * MOST_DRAIN_US if self.is_overdrawn else of.burst * of.window_us)


class Bucket(Algorithm):
    """Tokens that refill steadily up to the burst.

    A limit of 0 requests is a ban: the bucket is left as it is, for the limit that comes after.
    """

    def charge(self, of: Numbers, state: State, cost: int, now_us: int) -> tuple[State, Verdict]:
        """Takes a cost if it fits."""
        if of.requests == 0:
            return state, Verdict(cost == 0, 0, 0, None)
        owed = (state or _Debt()).at(of, now_us)
        most = of.burst * of.window_us
        after = owed + cost * of.window_us
        if after <= most:
            left = (most - after) // of.window_us
            taken = _Debt.of(of, after, now_us) if cost else state
            return taken, Verdict(True, left, -(-after // of.requests), None)
        retry_us = None if cost > of.burst else -(-(after - most) // of.requests)
        left = max(0, most - owed) // of.window_us
        denied = Verdict(False, left, -(-owed // of.requests), retry_us)
        return self.carry_on(of, state, now_us), denied

    def take(self, of: Numbers, state: State, cost: int, now_us: int) -> State:
        """Takes a cost whether it fits or not."""
        return self._add(of, state, cost * of.window_us, now_us)

    def give_back(self, of: Numbers, state: State, cost: int, now_us: int) -> State:
        """Gives a cost back, never above full."""
        return self._add(of, state, -cost * of.window_us, now_us)

    def give_back_taken(self, of: Numbers, state: State, cost: int, taken_us: int, now_us: int) -> State:
        """Gives back what has not drained since."""
        left = max(0, cost * of.window_us - (now_us - taken_us) * of.requests)
        return self._add(of, state, -left, now_us)

    def carry_on(self, of: Numbers, state: State, now_us: int) -> State:
        """Returns a state whose debt drains by the new numbers from now on, if they have changed."""
        if state is None or (state.requests, state.burst) == (of.requests, of.burst):
            return state
        return self._add(of, state, 0, now_us)

    @staticmethod
    def _add(of: Numbers, state: State, more: int, now_us: int) -> State:
        if of.requests == 0:
            return state
        return _Debt.of(of, max(0, (state or _Debt()).at(of, now_us) + more), now_us)


_BUCKET = Bucket()

ALGORITHMS: dict[str, Algorithm] = {
    "sliding_window": SlidingWindow(),
    "sliding_log": Stamped(lambda _, now_us: now_us, lambda of, moment: moment + of.window_us),
    "fixed_window": Stamped(
        lambda of, now_us: now_us // of.window_us,
        lambda of, moment: (moment + 1) * of.window_us,
        ends=True,
    ),
    "sub_windows": Stamped(
        lambda of, now_us: now_us * SUB_WINDOWS // of.window_us,
        lambda of, moment: -(-(moment + SUB_WINDOWS) * of.window_us // SUB_WINDOWS),
    ),
    "token_bucket": _BUCKET,
    "gcra": _BUCKET,
    "leaky_bucket": _BUCKET,
}
"""Every algorithm that a limit in code may name."""
