"""Estimates that were taken, and what becomes of them, however they are waited for."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from .answer import Answer, Unanswered, decision_of, or_unavailable, refuse
from .ask import Ask, encode
from .decision import Decision, LimitStatus, limit_statuses
from .errors import ReservationGone, TidegateError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .clock import Clock
    from .fallback import Fallback

OnError: TypeAlias = Literal["refund", "keep"]
"""What an exception does to a reservation that was not settled: everything goes back, or stays charged."""

PATH = "/v1/reserve"
SETTLE_PATH = "/v1/settle"
_NOT_SETTLED = "could not settle, so the estimate stays charged"


@dataclass(frozen=True, slots=True)
class Settlement:
    """What became of a reservation."""

    estimate: int
    cost: int
    limits: tuple[LimitStatus, ...]
    """The limits as they stand after it; none if this process decided by itself."""


@dataclass(frozen=True, slots=True)
class Reserved:
    """What a reservation is made of, however it is waited for."""

    decision: Decision
    estimate: int
    id: str | None
    """``None`` where the service did not answer and the fallback decided."""
    expires_at: str | None
    taken_s: float = 0.0
    """When the fallback took it, by this process's clock."""


def reserve_message(ask: Ask, ttl_ms: int) -> bytes:
    """What is sent to reserve."""
    return ask.message(cost=ask.cost, ttl_ms=ttl_ms)


def reserved_of(answer: Answer, estimate: int) -> Reserved:
    """Reads the answer to a reservation; raises `RateLimitExceeded` if it was denied."""
    decision = decision_of(answer).raise_for_denied()
    identity = decision.json.get("id")
    if not isinstance(identity, str):
        raise Unanswered("the answer to a reservation has no id")
    return Reserved(decision, estimate, identity, decision.json.get("expires_at"))


def reserved_here(fallback: Fallback, ask: Ask, clock: Clock) -> Reserved:
    """Takes it from what this process counts; raises `RateLimitExceeded` if it was denied."""
    taken_s = clock.monotonic()
    decision = fallback.decide(ask, taken_s).raise_for_denied()
    return Reserved(decision, ask.cost, None, None, taken_s)


def settlement_of(answer: Answer, tried: Settlement | None = None) -> Settlement:
    """Reads the answer to a settlement; ``tried`` is one that was sent before, and that nobody answered."""
    if answer.status == 410:
        if tried is not None:
            return tried  # it had arrived, only its answer did not
        raise ReservationGone(
            "the reservation was settled before, or its time is up; what it took stays charged"
        )
    refuse(answer)
    members = answer.members()
    if not members.keys() >= {"estimate", "cost"}:
        raise Unanswered("the answer to a settlement does not say what it cost")
    return Settlement(members["estimate"], members["cost"], limit_statuses(members.get("limits")))


def on_error_of(on_error: OnError) -> OnError:
    """Refuses what is neither."""
    if on_error not in ("refund", "keep"):
        raise ValueError(f"on_error must be refund or keep, got {on_error!r}")
    return on_error


class Estimate:
    """What a reservation knows; those of the two clients say how it is sent."""

    def __init__(self, ask: Ask, reserved: Reserved) -> None:
        self._ask = ask
        self._reserved = reserved
        self._cost: int | None = None
        self._is_settled = False
        self._tried: Settlement | None = None

    @property
    def id(self) -> str | None:
        """Its name at the service; ``None`` if the fallback decided."""
        return self._reserved.id

    @property
    def decision(self) -> Decision:
        """The decision that let it pass."""
        return self._reserved.decision

    @property
    def estimate(self) -> int:
        """What it took."""
        return self._reserved.estimate

    @property
    def expires_at(self) -> str | None:
        """When it can be settled no more (RFC 3339)."""
        return self._reserved.expires_at

    @property
    def is_pending(self) -> bool:
        """Whether a cost was told and the service has not answered yet."""
        return self._cost is not None and not self._is_settled

    @property
    def is_open(self) -> bool:
        """Whether nobody has told a cost."""
        return self._cost is None

    @contextmanager
    def _sending(self) -> Iterator[int]:
        """The cost to send. Once that went well, or is known to be too late, it is settled."""
        if self._cost is None:
            raise TidegateError("nothing to send; call settle(cost) first")
        if self._is_settled:
            raise ReservationGone("the reservation has been settled")
        try:
            with or_unavailable(_NOT_SETTLED):
                yield self._cost
        except ReservationGone:
            self._is_settled = True
            raise
        self._is_settled = True

    def _message(self, cost: int) -> bytes:
        return encode({"id": self.id, "cost": cost})

    def _note_sent(self, cost: int) -> Settlement | None:
        """From here on it may arrive, whether or not its answer does. Gives what was sent before."""
        before = self._tried
        self._tried = before or Settlement(self.estimate, cost, ())
        return before

    def _settle_here(self, fallback: Fallback, cost: int) -> Settlement:
        """Settles what the fallback took."""
        fallback.settle(self._ask, cost, self._reserved.taken_s)
        return Settlement(self.estimate, cost, ())
