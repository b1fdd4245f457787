"""Work whose cost is known only afterwards: an estimate is taken first, and settled when it is done."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from .answer import Answer, Unanswered, decision_of, refuse
from .ask import Ask, cost_of, encode
from .breaker import FIRST_BACKOFF_S, MOST_BACKOFF_S
from .decision import Decision, LimitStatus, limit_statuses
from .errors import RequestRefused, ReservationGone, ServiceUnavailable, TidegateError

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


def settlement_of(answer: Answer, tried: Settlement | None = None) -> Settlement:
    """Reads the answer to a settlement; ``tried`` is one that was sent before, and that nobody answered."""
    if answer.status == 410:
        if tried is not None:
            return tried  # it had arrived, only its answer did not
        raise ReservationGone(
            "the reservation was settled before, or its time is up; what it took stays charged"
        )
    try:
        refuse(answer)
        members = answer.members()
        return Settlement(members["estimate"], members["cost"], limit_statuses(members.get("limits")))
    except (Unanswered, KeyError) as why:
        raise ServiceUnavailable(f"could not settle, so the estimate stays charged: {why}") from why


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
        self._is_settled = False
        self._tried: Settlement | None = None
        self._turn = asyncio.Lock()

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
        Until the service has answered, a later call replaces an earlier one.
        """
        self._cost = cost_of(cost)
        return Settling(self)

    async def send(self) -> Settlement:
        """Sends what `settle` was told. If it raises `ServiceUnavailable` it may be tried again."""
        async with self._turn:
            if self._cost is None:
                raise TidegateError("nothing to send; call settle(cost) first")
            if self._is_settled:
                raise ReservationGone("the reservation has been settled")
            try:
                settlement = await self._send(self._cost)
            except ReservationGone:
                self._is_settled = True
                raise
            self._is_settled = True
            return settlement

    async def _send(self, cost: int) -> Settlement:
        if self.id is None:
            self._client.fallback.settle(self._ask, cost, self._reserved.taken_s)
            return Settlement(self.estimate, cost, ())
        tried = self._tried
        # From here on it may arrive, whether or not its answer does.
        sent = self._tried = tried or Settlement(self.estimate, cost, ())
        try:
            answer = await self._client.call(SETTLE_PATH, encode({"id": self.id, "cost": cost}))
        except Unanswered as why:
            raise ServiceUnavailable(f"could not settle, so the estimate stays charged: {why}") from why
        return settlement_of(answer, sent if answer.is_second else tried)

    async def keep_sending(self, until_s: float) -> None:
        """Tries again and again, until the service has answered or the reservation has run out."""
        clock = self._client.clock
        most_s = FIRST_BACKOFF_S
        while self.is_pending:
            wait_s = most_s * clock.chance()
            most_s = min(MOST_BACKOFF_S, 2 * most_s)
            if clock.monotonic() + wait_s >= until_s:
                _log.warning("a reservation was not settled in time, so its estimate stays charged")
                return
            await clock.sleep(wait_s)
            with contextlib.suppress(ServiceUnavailable):
                await self.send()

    @property
    def is_pending(self) -> bool:
        """Whether a cost was told and the service has not answered yet."""
        return self._cost is not None and not self._is_settled

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

    def __init__(
        self,
        client: Tidegate,
        ask: Ask,
        *,
        ttl_ms: int,
        on_error: OnError,
        on_refused: Callable[[RequestRefused], None] | None = None,
    ) -> None:
        self._client = client
        self._ask = ask
        self._on_refused = on_refused
        self._is_trying = False
        self._ttl_ms = ttl_ms
        self._on_error = on_error_of(on_error)
        self._reservation: Reservation | None = None
        self._until_s = 0.0

    async def __aenter__(self) -> Reservation:
        self._reservation = Reservation(self._client, self._ask, await self._reserve())
        self._until_s = self._client.clock.monotonic() + self._ttl_ms / 1000
        return self._reservation

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        reservation = self._reservation
        if reservation is None:
            return
        if reservation.is_open and error is not None and self._on_error == "refund":
            reservation.settle(0)
        if reservation.is_pending and not self._is_trying:
            # By a task of its own: whoever is cancelled here still gives back what was not used.
            await asyncio.shield(asyncio.ensure_future(self.send(reservation)))

    async def send(self, reservation: Reservation) -> None:
        """Settles quietly: the work is done, and that its cost could not be told must not undo it."""
        try:
            await reservation.send()
        except ServiceUnavailable as error:
            _log.warning("a reservation was not settled, trying again: %s", error)
            self._is_trying = True
            self._client.in_background(_quietly(reservation.keep_sending(self._until_s)))
        except TidegateError as error:
            _log.warning("a reservation was not settled: %s", error)

    async def _reserve(self) -> Reserved:
        estimate = self._ask.cost
        try:
            answer = await self._client.call(PATH, self._ask.message(cost=estimate, ttl_ms=self._ttl_ms))
            return reserved_of(answer, estimate)
        except Unanswered:
            pass
        except RequestRefused as refused:
            if self._on_refused is None:
                raise
            self._on_refused(refused)
        taken_s = self._client.clock.monotonic()
        decision = self._client.fall_back(self._ask).raise_for_denied()
        return Reserved(decision, estimate, None, None, taken_s)


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except TidegateError as error:
        _log.warning("a reservation was not settled: %s", error)
