"""Counters of this process: of a client that is `local`, and for as long as the service is away."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .algorithms import ALGORITHMS, Numbers, State, Verdict
from .forks import renew_after_fork

if TYPE_CHECKING:
    from .limits import Limit

MAX_KEYS = 100_000

__all__ = ["MAX_KEYS", "Charge", "LocalLimiter", "Verdict"]


@dataclass(frozen=True, slots=True)
class Charge:
    """Units to take from one counter."""

    key: Hashable
    numbers: Numbers
    cost: int
    algorithm: str = "sliding_window"

    def __post_init__(self) -> None:
        if self.cost < 0:
            raise ValueError(f"a charge only takes, got {self.cost}; settle gives back")

    @classmethod
    def of(cls, limit: Limit, key: Hashable, cost: int) -> Charge:
        """Returns the charge of a cost to the counter that a limit has under a key."""
        numbers = Numbers(limit.requests, limit.window_ms * 1000, limit.depth)
        return cls((key, limit.identity), numbers, cost, limit.applied_algorithm)


class LocalLimiter:
    """Counters by key; the one that was not touched for longest is forgotten when there are too many.

    Windows begin at multiples of their length by ``now_s`` + ``offset_us``: with the time since the epoch,
    they begin and end with the service's.
    """

    def __init__(self, now_s: Callable[[], float], *, offset_us: int = 0, max_keys: int = MAX_KEYS) -> None:
        self._now_s = now_s
        self._offset_us = offset_us
        self._max_keys = max_keys
        self._states: OrderedDict[Hashable, State] = OrderedDict()
        self._lock = threading.Lock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Starts with a lock that nobody holds, and with the counters of the parent."""
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._states)

    def charge(self, charges: Sequence[Charge], at_s: float | None = None) -> list[Verdict]:
        """Takes every charge or none; returns one verdict each, in order. ``at_s`` is now unless told."""
        with self._lock:
            now_us = self._now_us() if at_s is None else self._at_us(at_s)
            taken: dict[Hashable, State] = {}
            verdicts: list[Verdict] = []
            for charge in charges:
                state = taken[charge.key] if charge.key in taken else self._states.get(charge.key)
                taken[charge.key], verdict = self._charge(charge, state, charge.cost, now_us)
                verdicts.append(verdict)
            if all(verdict.allowed for verdict in verdicts):
                self._keep(taken)
            else:
                self._carry_on(charges, now_us)
                # Those that would have passed have not been charged: say what they have now.
                verdicts = [
                    self._charge(charge, self._states.get(charge.key), 0, now_us)[1]
                    if verdict.allowed
                    else verdict
                    for charge, verdict in zip(charges, verdicts, strict=True)
                ]
            return verdicts

    def settle(self, charge: Charge, cost: int, taken_s: float) -> None:
        """Corrects a charge of then: gives the rest back, or takes what is missing, into debt if need be.

        The rest goes back into the window it came from; when that counts no more, nobody gets it.
        """
        algorithm, of = ALGORITHMS[charge.algorithm], charge.numbers
        with self._lock:
            now_us = self._now_us()
            more = cost - charge.cost
            state = self._states.get(charge.key)
            if more > 0:
                self._keep({charge.key: algorithm.take(of, state, more, now_us)})
            elif state is not None:  # if it was forgotten meanwhile, nobody else is to be for it
                taken_us = self._at_us(taken_s)
                self._keep({charge.key: algorithm.give_back_taken(of, state, -more, taken_us, now_us)})

    def give_back(self, charge: Charge) -> None:
        """Gives back, never above full, as the service does.

        Of who has taken nothing nothing is kept, so that nobody else is forgotten for it.
        """
        algorithm, of = ALGORITHMS[charge.algorithm], charge.numbers
        with self._lock:
            state = self._states.get(charge.key)
            if state is not None:
                self._keep({charge.key: algorithm.give_back(of, state, charge.cost, self._now_us())})

    def reset(self) -> None:
        """Forgets every counter."""
        with self._lock:
            self._states.clear()

    def _carry_on(self, charges: Sequence[Charge], now_us: int) -> None:
        """Makes counters whose limit has changed drain by its new numbers, though nothing was taken."""
        for charge in charges:
            state = self._states.get(charge.key)
            if charge.cost and state is not None:
                algorithm = ALGORITHMS[charge.algorithm]
                self._states[charge.key] = algorithm.carry_on(charge.numbers, state, now_us)

    @staticmethod
    def _charge(charge: Charge, state: State, cost: int, now_us: int) -> tuple[State, Verdict]:
        return ALGORITHMS[charge.algorithm].charge(charge.numbers, state, cost, now_us)

    def _keep(self, states: dict[Hashable, State]) -> None:
        for key, state in states.items():
            if state is None:  # nothing was taken
                continue
            self._states[key] = state
            self._states.move_to_end(key)
        while len(self._states) > self._max_keys:
            self._states.popitem(last=False)

    def _now_us(self) -> int:
        return self._at_us(self._now_s())

    def _at_us(self, seconds: float) -> int:
        return round(seconds * 1_000_000) + self._offset_us
