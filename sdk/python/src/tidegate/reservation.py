"""Work whose cost is known only afterwards: an estimate is taken first, and settled when it is done."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from .answer import Answer, Unanswered, decision_of, refuse
from .ask import Ask, cost_of, encode
from .decision import Decision, LimitStatus, limit_statuses
from .errors import ReservationGone, ServiceUnavailable, TidegateError

if TYPE_CHECKING:
    from types import TracebackType

    from .client import Tidegate

_log = logging.getLogger("tidegate")

OnError: TypeAlias = Literal["refund", "keep"]
"""What an exception does to a reservation that was not settled: everything goes back, or stays charged."""

PATH = "/v1/reserve"
SETTLE_PATH = "/v1/settle"


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


def reserved_of(answer: Answer, estimate: int) -> Reserved:
    """Reads the answer to a reservation; raises `RateLimitExceeded` if it was denied."""
    decision = decision_of(answer).raise_for_denied()
    identity = decision.json.get("id")
    if not isinstance(identity, str):
        raise Unanswered("the answer to a reservation has no id")
    return Reserved(decision, estimate, identity, decision.json.get("expires_at"))


def settlement_of(answer: Answer) -> Settlement:
    """Reads the answer to a settlement."""
    if answer.status == 410:
        raise ReservationGone(
            "the reservation was settled before, or its time is up; what it took stays charged"
        )
    try:
        refuse(answer)
        members = answer.members()
    except Unanswered as why:
        raise ServiceUnavailable(str(why)) from why
    return Settlement(members["estimate"], members["cost"], limit_statuses(members.get("limits")))


def on_error_of(on_error: OnError) -> OnError:
    """Refuses what is neither."""
    if on_error not in ("refund", "keep"):
        raise ValueError(f"on_error must be refund or keep, got {on_error!r}")
    return on_error


class Reservation:
    """An estimate that was taken. `settle` says what it really cost."""

    def __init__(self, client: Tidegate, ask: Ask, reserved: Reserved) -> None:
        self._client = client
        self._ask = ask
        self._reserved = reserved
        self._cost: int | None = None
        self._sent = False

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

    def settle(self, cost: int) -> Settling:
        """Says what it really cost: less than the estimate gives the rest back, more takes the overrun.

        It is sent when the block is left; with ``await`` it is sent at once, and the outcome comes back.
        Until it has been sent, a later call replaces an earlier one.
        """
        self._cost = cost_of(cost)
        return Settling(self)

    async def send(self) -> Settlement:
        """Sends what `settle` was told."""
        if self._cost is None:
            raise TidegateError("nothing to send; call settle(cost) first")
        if self._sent:
            raise ReservationGone("the reservation has been settled")
        self._sent = True
        if self.id is None:
            self._client.fallback.settle(self._ask, self._cost, self._reserved.taken_s)
            return Settlement(self.estimate, self._cost, ())
        try:
            answer = await self._client.call(SETTLE_PATH, encode({"id": self.id, "cost": self._cost}))
        except Unanswered as why:
            raise ServiceUnavailable(f"could not settle, so the estimate stays charged: {why}") from why
        return settlement_of(answer)

    @property
    def is_pending(self) -> bool:
        """Whether a cost was told and not sent yet."""
        return self._cost is not None and not self._sent

    @property
    def is_open(self) -> bool:
        """Whether nobody has told a cost."""
        return self._cost is None


class Settling:
    """A settlement that is sent by ``await``, or else when the block is left."""

    def __init__(self, reservation: Reservation) -> None:
        self._reservation = reservation

    def __await__(self) -> Generator[Any, None, Settlement]:
        return self._reservation.send().__await__()


class ReserveContext:
    """What `Tidegate.reserve` gives: enter it to reserve."""

    def __init__(self, client: Tidegate, ask: Ask, *, ttl_ms: int, on_error: OnError) -> None:
        self._client = client
        self._ask = ask
        self._ttl_ms = ttl_ms
        self._on_error = on_error_of(on_error)
        self._reservation: Reservation | None = None

    async def __aenter__(self) -> Reservation:
        self._reservation = Reservation(self._client, self._ask, await self._reserve())
        return self._reservation

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        reservation = self._reservation
        if reservation is None:
            return
        if reservation.is_open and error is not None and self._on_error == "refund":
            reservation.settle(0)
        if reservation.is_pending:
            # By a task of its own: whoever is cancelled here still gives back what was not used.
            await asyncio.shield(asyncio.ensure_future(_send_quietly(reservation)))

    async def _reserve(self) -> Reserved:
        estimate = self._ask.cost
        try:
            answer = await self._client.call(PATH, self._ask.message(cost=estimate, ttl_ms=self._ttl_ms))
            return reserved_of(answer, estimate)
        except Unanswered:
            taken_s = self._client.clock.monotonic()
            decision = self._client.fall_back(self._ask).raise_for_denied()
            return Reserved(decision, estimate, None, None, taken_s)


async def _send_quietly(reservation: Reservation) -> None:
    """The work is done: that its cost could not be told must not undo it."""
    try:
        await reservation.send()
    except TidegateError as error:
        _log.warning("a reservation was not settled: %s", error)
