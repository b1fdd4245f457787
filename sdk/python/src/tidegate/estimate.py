"""What reservations of the async and the sync client have in common."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from .check_body import CheckBody, encode_json
from .decision import Decision, LimitStatus, limit_statuses
from .errors import ReservationGone, TidegateError
from .response import CallFailed, ServiceResponse, parse_decision, raise_for_status, raise_unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .clock import Clock
    from .fallback import Fallback

OnError: TypeAlias = Literal["refund", "keep"]
"""What an exception does to an open reservation: ``refund`` gives it back, ``keep`` leaves it charged."""

PATH = "/v1/reserve"
SETTLE_PATH = "/v1/settle"
_NOT_SETTLED = "could not settle, so the estimate stays charged"


@dataclass(frozen=True, slots=True)
class Settlement:
    """The result of settling a reservation.

    >>> settlement = await reservation.settle(1234)
    >>> settlement.cost
    1234
    """

    estimate: int
    """The units that were reserved."""
    cost: int
    """The units that were charged in the end."""
    limits: tuple[LimitStatus, ...]
    """The state of each limit afterwards; empty if the fallback decided."""


@dataclass(frozen=True, slots=True)
class Reserved:
    """An estimate that was charged, by the service or by the fallback."""

    decision: Decision
    estimate: int
    id: str | None
    """``None`` if the fallback decided."""
    expires_at: str | None
    taken_s: float = 0.0
    """When the fallback charged it, by the monotonic clock of this process."""


def encode_reserve(body: CheckBody, ttl_ms: int) -> bytes:
    """Returns the body of a request to reserve."""
    return body.encode(cost=body.cost, ttl_ms=ttl_ms)


def parse_reserved(response: ServiceResponse, estimate: int) -> Reserved:
    """Returns what the service reserved; raises `RateLimitExceeded` if it was denied."""
    decision = parse_decision(response).raise_for_denied()
    identity = decision.json.get("id")
    if not isinstance(identity, str):
        raise CallFailed("the response to a reservation has no id")
    return Reserved(decision, estimate, identity, decision.json.get("expires_at"))


def reserve_locally(fallback: Fallback, body: CheckBody, clock: Clock) -> Reserved:
    """Reserves in the counters of this process; raises `RateLimitExceeded` if it was denied."""
    taken_s = clock.monotonic()
    decision = fallback.decide(body, taken_s).raise_for_denied()
    return Reserved(decision, body.cost, None, None, taken_s)


def parse_settlement(response: ServiceResponse, earlier: Settlement | None = None) -> Settlement:
    """Returns what was charged. ``earlier`` is a settlement that was sent before without a response."""
    if response.status == 410:
        if earlier is not None:
            return earlier  # it had arrived, only its response was lost
        raise ReservationGone(
            "the reservation was settled before or has expired; what it charged stays charged"
        )
    raise_for_status(response)
    members = response.members()
    if not members.keys() >= {"estimate", "cost"}:
        raise CallFailed("the response to a settlement has no estimate or no cost")
    return Settlement(members["estimate"], members["cost"], limit_statuses(members.get("limits")))


def checked_on_error(on_error: OnError) -> OnError:
    """Returns the value if it is valid; raises `ValueError` otherwise."""
    if on_error not in ("refund", "keep"):
        raise ValueError(f"on_error must be refund or keep, got {on_error!r}")
    return on_error


class Estimate:
    """The state of a reservation. Its subclasses send the settlement, with and without ``await``."""

    def __init__(self, body: CheckBody, reserved: Reserved) -> None:
        self._body = body
        self._reserved = reserved
        self._cost: int | None = None
        self._is_settled = False
        self._sent_before: Settlement | None = None

    @property
    def id(self) -> str | None:
        """The ID of the reservation at the service; ``None`` if the fallback decided."""
        return self._reserved.id

    @property
    def decision(self) -> Decision:
        """The decision that let the estimate pass."""
        return self._reserved.decision

    @property
    def estimate(self) -> int:
        """The units that were reserved."""
        return self._reserved.estimate

    @property
    def expires_at(self) -> str | None:
        """The time after which it can no longer be settled (RFC 3339); ``None`` if the fallback decided."""
        return self._reserved.expires_at

    @property
    def is_pending(self) -> bool:
        """Whether `settle` was called, and the service has not confirmed it yet."""
        return self._cost is not None and not self._is_settled

    @property
    def is_open(self) -> bool:
        """Whether `settle` has not been called yet."""
        return self._cost is None

    @contextmanager
    def _sending(self) -> Iterator[int]:
        """Yields the cost to send. The reservation is settled when the block succeeds, or finds it gone."""
        if self._cost is None:
            raise TidegateError("nothing to send; call settle(cost) first")
        if self._is_settled:
            raise ReservationGone("the reservation has been settled")
        try:
            with raise_unavailable(_NOT_SETTLED):
                yield self._cost
        except ReservationGone:
            self._is_settled = True
            raise
        self._is_settled = True

    def _encode(self, cost: int) -> bytes:
        return encode_json({"id": self.id, "cost": cost})

    def _note_sent(self, cost: int) -> Settlement | None:
        """Notes that a settlement may arrive, even if its response does not. Returns the one sent before."""
        before = self._sent_before
        self._sent_before = before or Settlement(self.estimate, cost, ())
        return before

    def _settle_locally(self, fallback: Fallback, cost: int) -> Settlement:
        """Settles what the fallback charged."""
        fallback.settle(self._body, cost, self._reserved.taken_s)
        return Settlement(self.estimate, cost, ())
