"""Work whose cost is known only afterwards: an estimate is taken first, and settled when it is done."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any

from .answer import Unanswered
from .ask import DEFAULT_DOMAIN, Ask, cost_of
from .breaker import FIRST_BACKOFF_S, MOST_BACKOFF_S
from .errors import RequestRefused, ServiceUnavailable, TidegateError
from .estimate import (
    PATH,
    SETTLE_PATH,
    Estimate,
    OnError,
    Reserved,
    Settlement,
    on_error_of,
    reserve_message,
    reserved_here,
    reserved_of,
    settlement_of,
)
from .render import uncounted

if TYPE_CHECKING:
    from types import TracebackType

    from .client import Tidegate

_log = logging.getLogger("tidegate")


class Reservation(Estimate):
    """An estimate that was taken. `settle` says what it really cost."""

    def __init__(self, client: Tidegate, ask: Ask, reserved: Reserved) -> None:
        super().__init__(ask, reserved)
        self._client = client
        self._turn = asyncio.Lock()

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
            with self._sending() as cost:
                return await self._send(cost)

    async def _send(self, cost: int) -> Settlement:
        if self.id is None:
            return self._settle_here(self._client.fallback, cost)
        before = self._note_sent(cost)
        answer = await self._client.call(SETTLE_PATH, self._message(cost))
        return settlement_of(answer, self._tried if answer.is_second else before)

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


def free_reservation(client: Tidegate) -> Reservation:
    """Returns a reservation that took nothing, and charges nothing whatever it settles."""
    nothing = Ask(DEFAULT_DOMAIN, (), 0)
    return Reservation(client, nothing, Reserved(uncounted(allowed=True, source="skipped"), 0, None, None))


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
        try:
            answer = await self._client.call(PATH, reserve_message(self._ask, self._ttl_ms))
            return reserved_of(answer, self._ask.cost)
        except Unanswered:
            pass
        except RequestRefused as refused:
            if self._on_refused is None:
                raise
            self._on_refused(refused)
        return reserved_here(self._client.fallback, self._ask, self._client.clock)


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except TidegateError as error:
        _log.warning("a reservation was not settled: %s", error)
