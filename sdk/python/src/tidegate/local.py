"""Counters of this process, for as long as the service is away.

A sliding window made of two counters, as the service has it by default: the current window, and the one
before weighed by the part of it that is less than a window ago. Sums are in units x microseconds, so that
nothing rounds.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

MAX_KEYS = 100_000


@dataclass(frozen=True, slots=True)
class Charge:
    """Units to take from one counter."""

    key: Hashable
    requests: int
    window_us: int
    cost: int

    def __post_init__(self) -> None:
        if self.cost < 0:
            raise ValueError(f"a charge only takes, got {self.cost}; settle gives back")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one counter says."""

    allowed: bool
    remaining: int
    reset_after_us: int
    retry_after_us: int | None
    """``None`` if it passes, or never will."""


@dataclass(frozen=True, slots=True)
class _State:
    start_us: int
    current: int
    previous: int

    def at(self, now_us: int, window_us: int) -> _State:
        start_us = now_us - now_us % window_us
        if self.start_us == start_us:
            return self
        previous = self.current if self.start_us + window_us == start_us else 0
        return _State(start_us, 0, previous)


_UNTOUCHED = _State(0, 0, 0)


class LocalLimiter:
    """Counters by key; the one that was not touched for longest is forgotten when there are too many."""

    def __init__(self, now_s: Callable[[], float], *, max_keys: int = MAX_KEYS) -> None:
        self._now_s = now_s
        self._max_keys = max_keys
        self._states: OrderedDict[Hashable, _State] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._states)

    def charge(self, charges: Sequence[Charge]) -> list[Verdict]:
        """Takes every charge or none; one verdict each, in order."""
        with self._lock:
            now_us = self._now_us()
            taken: dict[Hashable, _State] = {}
            verdicts: list[Verdict] = []
            for charge in charges:
                state = taken.get(charge.key) or self._states.get(charge.key, _UNTOUCHED)
                taken[charge.key], verdict = _charge(charge, state, now_us)
                verdicts.append(verdict)
            if all(verdict.allowed for verdict in verdicts):
                self._keep(taken)
            else:
                # Those that would have passed have not been charged: say what they have now.
                verdicts = [
                    self._peek(charge, now_us) if verdict.allowed else verdict
                    for charge, verdict in zip(charges, verdicts, strict=True)
                ]
            return verdicts

    def settle(self, charge: Charge, cost: int, taken_s: float) -> None:
        """Corrects a charge of then: gives the rest back, or takes what is missing, into debt if need be.

        The rest goes back into the window it came from; when that counts no more, nobody gets it.
        """
        with self._lock:
            window_us = charge.window_us
            more = cost - charge.cost
            if more <= 0 and charge.key not in self._states:
                return  # forgotten meanwhile, and nobody else is to be for it
            seen = self._states.get(charge.key, _UNTOUCHED).at(self._now_us(), window_us)
            taken_us = int(taken_s * 1_000_000)
            age = (seen.start_us - (taken_us - taken_us % window_us)) // window_us
            current, previous = seen.current, seen.previous
            if more > 0 or age <= 0:
                current = max(0, current + more)
            elif age == 1:
                previous = max(0, previous + more)
            self._keep({charge.key: _State(seen.start_us, current, previous)})

    def give_back(self, charge: Charge) -> None:
        """Gives back, never above full, as the service does: to the current window, then to the one before.

        Of who has taken nothing nothing is kept, so that nobody else is forgotten for it.
        """
        with self._lock:
            state = self._states.get(charge.key)
            if state is None:
                return
            seen = state.at(self._now_us(), charge.window_us)
            from_current = min(seen.current, charge.cost)
            previous = max(0, seen.previous - (charge.cost - from_current))
            self._keep({charge.key: _State(seen.start_us, seen.current - from_current, previous)})

    def _peek(self, charge: Charge, now_us: int) -> Verdict:
        look = Charge(charge.key, charge.requests, charge.window_us, 0)
        return _charge(look, self._states.get(charge.key, _UNTOUCHED), now_us)[1]

    def _keep(self, states: dict[Hashable, _State]) -> None:
        for key, state in states.items():
            self._states[key] = state
            self._states.move_to_end(key)
        while len(self._states) > self._max_keys:
            self._states.popitem(last=False)

    def _now_us(self) -> int:
        return int(self._now_s() * 1_000_000)


def _charge(charge: Charge, state: _State, now_us: int) -> tuple[_State, Verdict]:
    window_us = charge.window_us
    seen = state.at(now_us, window_us)
    left_us = window_us - (now_us - seen.start_us)
    budget = charge.requests * window_us
    used = seen.current * window_us + seen.previous * left_us
    after = used + charge.cost * window_us
    # Cost 0 only looks, and may even into debt.
    if after <= budget or charge.cost == 0:
        taken = _State(seen.start_us, seen.current + charge.cost, seen.previous)
        left = max(0, budget - after) // window_us
        return taken, Verdict(True, left, _reset_after_us(taken, left_us, window_us), None)
    retry_us = _retry_after_us(charge, seen, left_us)
    left = max(0, budget - used) // window_us
    return state, Verdict(False, left, _reset_after_us(seen, left_us, window_us), retry_us)


def _reset_after_us(seen: _State, left_us: int, window_us: int) -> int:
    if seen.current:
        return left_us + window_us
    return left_us if seen.previous else 0


def _retry_after_us(charge: Charge, seen: _State, left_us: int) -> int | None:
    """The first microsecond at which it fits: in this window while the one before fades, else in the next."""
    window_us = charge.window_us
    if charge.cost > charge.requests:
        return None
    room = charge.requests - seen.current - charge.cost
    if room >= 0:
        return left_us - min(window_us, room * window_us // seen.previous)
    room = charge.requests - charge.cost
    return left_us + window_us - min(window_us, room * window_us // seen.current)
