"""The algorithms of limits in code, as pure functions of a counter's state and the time.

They decide as the service does, to the unit and the microsecond; the vectors in ``crates/core/src/algorithm``
check that. Sums are in units x microseconds, so that nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

SUB_WINDOWS = 60
"""The number of buckets of ``sub_windows``, unless a rule sets another."""

MAX_DRAIN_US = 10 * 365 * 86_400 * 1_000_000
"""The longest time that an overdrawn bucket takes to drain: ten years."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of a limit; only buckets use ``burst``."""

    requests: int
    window_us: int
    burst: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one charge."""

    allowed: bool
    remaining: int
    """Units left: after the charge if it is allowed, before it otherwise."""
    reset_after_us: int
    """Microseconds until the counter is as if nothing had been charged."""
    retry_after_us: int | None
    """Microseconds until the same charge would pass; ``None`` if it passes now, or never would."""


State: TypeAlias = Any
"""The state of a counter, of a type that its algorithm defines; ``None`` if nothing was charged yet."""


class Algorithm(Protocol):
    """Charges counters and gives back. States are never changed in place."""

    def charge(self, limit: Numbers, state: State, cost: int, now_us: int) -> tuple[State, Verdict]:
        """Charges what fits. A denial returns the state of `adopt_numbers`. Cost 0 changes nothing."""

    def take(self, limit: Numbers, state: State, cost: int, now_us: int) -> State:
        """Charges a cost whether it fits or not."""

    def give_back(self, limit: Numbers, state: State, cost: int, now_us: int) -> State:
        """Gives a cost back, never above full."""

    def give_back_taken(self, limit: Numbers, state: State, cost: int, taken_us: int, now_us: int) -> State:
        """Gives back what was charged at ``taken_us``, as far as it still counts."""

    def adopt_numbers(self, limit: Numbers, state: State, now_us: int) -> State:
        """Returns the state for a limit whose numbers may have changed, when a charge was denied."""
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
    """Two counters: this window, and the previous one weighted by its part that is less than a window ago."""

    def charge(self, limit: Numbers, state: State, cost: int, now_us: int) -> tuple[State, Verdict]:
        """Charges a cost if it fits."""
        window_us = limit.window_us
        seen = (state or _Counts()).at(now_us, window_us)
        left_us = window_us - (now_us - seen.start_us)
        budget = limit.requests * window_us
        used = seen.current * window_us + seen.previous * left_us
        after = used + cost * window_us
        if after <= budget:
            taken = _Counts(seen.start_us, seen.current + cost, seen.previous)
            left = (budget - after) // window_us
            return taken, Verdict(True, left, self._reset_after_us(taken, left_us, window_us), None)
        retry_us = self._retry_after_us(limit, seen, cost, left_us)
        left = max(0, budget - used) // window_us
        return state, Verdict(False, left, self._reset_after_us(seen, left_us, window_us), retry_us)

    def take(self, limit: Numbers, state: State, cost: int, now_us: int) -> State:
        """Charges a cost whether it fits or not."""
        seen = (state or _Counts()).at(now_us, limit.window_us)
        return _Counts(seen.start_us, seen.current + cost, seen.previous)

    def give_back(self, limit: Numbers, state: State, cost: int, now_us: int) -> State:
        """Gives back to this window first, then to the previous one."""
        seen = (state or _Counts()).at(now_us, limit.window_us)
        from_current = min(seen.current, cost)
        previous = max(0, seen.previous - (cost - from_current))
        return _Counts(seen.start_us, seen.current - from_current, previous)

    def give_back_taken(self, limit: Numbers, state: State, cost: int, taken_us: int, now_us: int) -> State:
        """Gives back to the window that was charged, while that one counts."""
        seen = (state or _Counts()).at(now_us, limit.window_us)
        age = (seen.start_us - (taken_us - taken_us % limit.window_us)) // limit.window_us
        if age <= 0:
            return self.give_back(limit, seen, cost, now_us)
        if age == 1:
            return _Counts(seen.start_us, seen.current, max(0, seen.previous - cost))
        return seen

    @staticmethod
    def _reset_after_us(seen: _Counts, left_us: int, window_us: int) -> int:
        if seen.current:
            return left_us + window_us
        return left_us if seen.previous else 0

    @staticmethod
    def _retry_after_us(limit: Numbers, seen: _Counts, cost: int, left_us: int) -> int | None:
        """Returns when the cost first fits: in this window as the previous one fades, else in the next."""
        window_us = limit.window_us
        if cost > limit.requests:
            return None
        room = limit.requests - seen.current - cost
        if room >= 0:
            return left_us - min(window_us, room * window_us // seen.previous)
        room = limit.requests - cost
        return left_us + window_us - min(window_us, room * window_us // seen.current)


_Stamps: TypeAlias = tuple[tuple[int, int], ...]
"""Pairs of a moment's number and the units charged in it, oldest first."""


class Stamped(Algorithm):
    """Units that are counted by the moment they were charged in, and expire together with it.

    ``moment`` returns the number of the moment at a time: a microsecond for the sliding log, a bucket for
    sub-windows, a window for the fixed window. ``leaves_us`` returns when the units of a moment expire.
    """

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
        """Whether the window ends at a fixed time, even if nothing was charged."""

    def charge(self, limit: Numbers, state: State, cost: int, now_us: int) -> tuple[State, Verdict]:
        """Charges a cost if it fits."""
        live = self._live(limit, state, now_us)
        used = sum(taken for _, taken in live)
        after = used + cost
        if after <= limit.requests:
            reset_us = self._leaves_us(limit, self._moment(limit, now_us)) - now_us
            if cost == 0 and not self._ends:
                reset_us = self._newest_leaves_us(limit, live, now_us)
            return self.take(limit, live, cost, now_us), Verdict(True, limit.requests - after, reset_us, None)
        retry_us = None
        needed = after - limit.requests
        for moment, taken in live if cost <= limit.requests else ():
            needed -= taken
            if needed <= 0:
                retry_us = self._leaves_us(limit, moment) - now_us
                break
        reset_us = self._newest_leaves_us(limit, live, now_us)
        return state, Verdict(False, max(0, limit.requests - used), reset_us, retry_us)

    def take(self, limit: Numbers, state: State, cost: int, now_us: int) -> State:
        """Charges a cost whether it fits or not."""
        live = self._live(limit, state, now_us)
        moment = self._moment(limit, now_us)
        if cost == 0:
            return live
        if live and live[-1][0] == moment:
            return (*live[:-1], (moment, live[-1][1] + cost))
        taken = (*live, (moment, cost))
        # Threads may read the clock in another order than they charge.
        return taken if not live or live[-1][0] < moment else tuple(sorted(taken))

    def give_back(self, limit: Numbers, state: State, cost: int, now_us: int) -> State:
        """Gives back to the newest moment first, then to those before it."""
        live = list(self._live(limit, state, now_us))
        while live and cost > 0:
            moment, taken = live.pop()
            if taken > cost:
                live.append((moment, taken - cost))
            cost -= taken
        return tuple(live)

    def give_back_taken(self, limit: Numbers, state: State, cost: int, taken_us: int, now_us: int) -> State:
        """Gives back to the moment that was charged, while that one counts."""
        live = self._live(limit, state, now_us)
        moment = self._moment(limit, taken_us)
        kept = [(at, taken - min(cost, taken) if at == moment else taken) for at, taken in live]
        return tuple(one for one in kept if one[1])

    def _live(self, limit: Numbers, state: State, now_us: int) -> _Stamps:
        stamps: _Stamps = state or ()
        if stamps and self._leaves_us(limit, stamps[0][0]) <= now_us:
            return tuple(one for one in stamps if self._leaves_us(limit, one[0]) > now_us)
        return stamps

    def _newest_leaves_us(self, limit: Numbers, live: _Stamps, now_us: int) -> int:
        if self._ends:
            return self._leaves_us(limit, self._moment(limit, now_us)) - now_us
        return self._leaves_us(limit, live[-1][0]) - now_us if live else 0


@dataclass(frozen=True, slots=True)
class _Debt:
    """What a bucket owed when it was last charged, and the numbers of the limit at that time."""

    owed: int = 0
    """In units x microseconds."""
    at_us: int = 0
    requests: int = 0
    """What drains in each microsecond."""
    burst: int = 0
    is_overdrawn: bool = False
    """Whether more was used than the bucket holds."""

    @classmethod
    def of(cls, limit: Numbers, owed: int, now_us: int) -> _Debt:
        owed = min(owed, limit.requests * MAX_DRAIN_US)
        return cls(owed, now_us, limit.requests, limit.burst, owed > limit.burst * limit.window_us)

    def at(self, limit: Numbers, now_us: int) -> int:
        """Returns what is owed now.

        If that is more than the bucket holds because the limit was lowered, the bucket counts as full. What
        was overdrawn is owed in full.
        """
        owed = max(0, self.owed - (now_us - self.at_us) * self.requests)
        return min(
            owed, limit.requests * MAX_DRAIN_US if self.is_overdrawn else limit.burst * limit.window_us
        )


class Bucket(Algorithm):
    """A bucket of tokens that refills steadily up to the burst.

    A limit of 0 requests denies everything and leaves the bucket as it is, for the time after the ban.
    """

    def charge(self, limit: Numbers, state: State, cost: int, now_us: int) -> tuple[State, Verdict]:
        """Charges a cost if it fits."""
        if limit.requests == 0:
            return state, Verdict(cost == 0, 0, 0, None)
        owed = (state or _Debt()).at(limit, now_us)
        most = limit.burst * limit.window_us
        after = owed + cost * limit.window_us
        if after <= most:
            left = (most - after) // limit.window_us
            taken = _Debt.of(limit, after, now_us) if cost else state
            return taken, Verdict(True, left, -(-after // limit.requests), None)
        retry_us = None if cost > limit.burst else -(-(after - most) // limit.requests)
        left = max(0, most - owed) // limit.window_us
        denied = Verdict(False, left, -(-owed // limit.requests), retry_us)
        return self.adopt_numbers(limit, state, now_us), denied

    def take(self, limit: Numbers, state: State, cost: int, now_us: int) -> State:
        """Charges a cost whether it fits or not."""
        return self._add(limit, state, cost * limit.window_us, now_us)

    def give_back(self, limit: Numbers, state: State, cost: int, now_us: int) -> State:
        """Gives a cost back, never above full."""
        return self._add(limit, state, -cost * limit.window_us, now_us)

    def give_back_taken(self, limit: Numbers, state: State, cost: int, taken_us: int, now_us: int) -> State:
        """Gives back what has not drained since it was charged."""
        left = max(0, cost * limit.window_us - (now_us - taken_us) * limit.requests)
        return self._add(limit, state, -left, now_us)

    def adopt_numbers(self, limit: Numbers, state: State, now_us: int) -> State:
        """Returns a state that drains by the new numbers from now on, if they have changed."""
        if state is None or (state.requests, state.burst) == (limit.requests, limit.burst):
            return state
        return self._add(limit, state, 0, now_us)

    @staticmethod
    def _add(limit: Numbers, state: State, more: int, now_us: int) -> State:
        if limit.requests == 0:
            return state
        return _Debt.of(limit, max(0, (state or _Debt()).at(limit, now_us) + more), now_us)


_BUCKET = Bucket()

ALGORITHMS: dict[str, Algorithm] = {
    "sliding_window": SlidingWindow(),
    "sliding_log": Stamped(lambda _, now_us: now_us, lambda limit, moment: moment + limit.window_us),
    "fixed_window": Stamped(
        lambda limit, now_us: now_us // limit.window_us,
        lambda limit, moment: (moment + 1) * limit.window_us,
        ends=True,
    ),
    "sub_windows": Stamped(
        lambda limit, now_us: now_us * SUB_WINDOWS // limit.window_us,
        lambda limit, moment: -(-(moment + SUB_WINDOWS) * limit.window_us // SUB_WINDOWS),
    ),
    "token_bucket": _BUCKET,
    "gcra": _BUCKET,
    "leaky_bucket": _BUCKET,
}
"""The algorithms that a limit in code may name."""
