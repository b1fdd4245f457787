"""Counters of this process, for a client made by `Tidegate.local` and while the service cannot be reached."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from .algorithms import ALGORITHMS, Numbers, State, Verdict
from .forks import renew_after_fork

if TYPE_CHECKING:
    from .limits import Limit

MAX_KEYS = 100_000

_CANDIDATES = 16
"""Number of counters that are compared when one has to be forgotten: the work for a new key is bounded."""

__all__ = ["MAX_KEYS", "Charge", "LocalLimiter", "Verdict"]


@dataclass(frozen=True, slots=True)
class Charge:
    """Units to take from one counter. Settling and refunding give back; a charge only takes."""

    key: Hashable
    numbers: Numbers
    cost: int
    algorithm: str = "sliding_window"

    def __post_init__(self) -> None:
        if self.cost < 0:
            raise ValueError(f"the cost of a charge must be 0 or more, got {self.cost}")

    @classmethod
    def of(cls, limit: Limit, key: Hashable, cost: int) -> Charge:
        """Returns the charge of a cost to the counter that a limit has under a key."""
        numbers = Numbers(limit.requests, limit.window_ms * 1000, limit.depth)
        return cls((key, limit.identity), numbers, cost, limit.applied_algorithm)


class _Counter(NamedTuple):
    """The state of one key, and what is needed to tell how much of its limit is used."""

    algorithm: str
    numbers: Numbers
    state: State

    def used(self, now_us: int) -> float:
        """Returns the share of the limit that is used, from 0 to 1; 0 if forgetting it changes nothing."""
        _, verdict = ALGORITHMS[self.algorithm].charge(self.numbers, self.state, 0, now_us)
        capacity = self.numbers.burst or self.numbers.requests
        return 1 - verdict.remaining / capacity if capacity else 1.0


class LocalLimiter:
    """Counters by key, at most ``max_keys`` of them.

    If there is no room for a new key, the next few counters in turn are compared. Those that have run out
    are dropped. If none has, the one that has used the smallest share of its limit is forgotten; where all
    have used all of it, the key that was added last is. So a flood of keys frees no key that is at its
    limit, as in the service.

    Windows begin at multiples of their length by ``now_s`` + ``offset_us``. If that is the time since the
    epoch, they begin and end when those of the service do.
    """

    def __init__(self, now_s: Callable[[], float], *, offset_us: int = 0, max_keys: int = MAX_KEYS) -> None:
        self._now_s = now_s
        self._offset_us = offset_us
        self._max_keys = max_keys
        self._counters: OrderedDict[Hashable, _Counter] = OrderedDict()
        self._added_last: Hashable = None
        self._lock = threading.Lock()
        renew_after_fork(self)

    def _after_fork(self) -> None:
        """Replaces the lock, which a thread of the parent may hold. The counters are kept."""
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._counters)

    def charge(self, charges: Sequence[Charge], at_s: float | None = None) -> list[Verdict]:
        """Takes every charge or none, and returns one verdict each, in order. ``at_s`` defaults to now."""
        with self._lock:
            now_us = self._now_us() if at_s is None else self._at_us(at_s)
            taken: dict[Hashable, _Counter] = {}
            verdicts: list[Verdict] = []
            for charge in charges:
                state = taken[charge.key].state if charge.key in taken else self._state(charge)
                state, verdict = self._charge(charge, state, charge.cost, now_us)
                verdicts.append(verdict)
                if charge.cost or charge.key in taken:
                    taken[charge.key] = _Counter(charge.algorithm, charge.numbers, state)
            if all(verdict.allowed for verdict in verdicts):
                for key, counter in taken.items():
                    self._keep(key, counter, now_us)
            else:
                self._adopt_numbers(charges, now_us)
                # Those that would have passed have not been charged: return what they have left now.
                verdicts = [
                    self._charge(charge, self._state(charge), 0, now_us)[1] if verdict.allowed else verdict
                    for charge, verdict in zip(charges, verdicts, strict=True)
                ]
            return verdicts

    def settle(self, charge: Charge, cost: int, taken_s: float) -> None:
        """Corrects an earlier charge to its real cost.

        A lower cost gives the rest back to the window it was taken from, if that window still counts. A
        higher cost takes the difference, even if that is more than the limit has left.
        """
        algorithm, numbers = ALGORITHMS[charge.algorithm], charge.numbers
        with self._lock:
            now_us = self._now_us()
            more = cost - charge.cost
            state = self._state(charge)
            if more > 0:
                state = algorithm.take(numbers, state, more, now_us)
            elif state is not None:  # a counter that was forgotten must not displace another one
                state = algorithm.give_back_taken(numbers, state, -more, self._at_us(taken_s), now_us)
            self._keep(charge.key, _Counter(charge.algorithm, numbers, state), now_us)

    def give_back(self, charge: Charge) -> None:
        """Gives a cost back, never above full, as the service does.

        A key without a counter has taken nothing, so none is created for it.
        """
        algorithm, numbers = ALGORITHMS[charge.algorithm], charge.numbers
        with self._lock:
            now_us = self._now_us()
            state = self._state(charge)
            if state is not None:
                state = algorithm.give_back(numbers, state, charge.cost, now_us)
                self._keep(charge.key, _Counter(charge.algorithm, numbers, state), now_us)

    def reset(self) -> None:
        """Forgets every counter."""
        with self._lock:
            self._counters.clear()

    def _adopt_numbers(self, charges: Sequence[Charge], now_us: int) -> None:
        """Makes counters whose limit has changed drain by its new numbers, though nothing was taken."""
        for charge in charges:
            before = self._state(charge)
            if charge.cost and before is not None:
                state = ALGORITHMS[charge.algorithm].adopt_numbers(charge.numbers, before, now_us)
                if state is not before:
                    self._keep(charge.key, _Counter(charge.algorithm, charge.numbers, state), now_us)

    def _state(self, charge: Charge) -> State:
        counter = self._counters.get(charge.key)
        return None if counter is None else counter.state

    @staticmethod
    def _charge(charge: Charge, state: State, cost: int, now_us: int) -> tuple[State, Verdict]:
        return ALGORITHMS[charge.algorithm].charge(charge.numbers, state, cost, now_us)

    def _keep(self, key: Hashable, counter: _Counter, now_us: int) -> None:
        if counter.state is None:  # nothing was taken
            return
        if key not in self._counters:
            if len(self._counters) >= self._max_keys:
                self._make_room(now_us)
            self._added_last = key
        self._counters[key] = counter

    def _make_room(self, now_us: int) -> None:
        used = {key: self._counters[key].used(now_us) for key in islice(self._counters, _CANDIDATES)}
        for key, share in used.items():
            if share == 0:
                del self._counters[key]
            else:
                self._counters.move_to_end(key)  # the next time it is the turn of others
        if len(self._counters) >= self._max_keys:
            fewest = min(used, key=used.__getitem__)
            del self._counters[fewest if used[fewest] < 1 else self._added_last]

    def _now_us(self) -> int:
        return self._at_us(self._now_s())

    def _at_us(self, seconds: float) -> int:
        return round(seconds * 1_000_000) + self._offset_us
