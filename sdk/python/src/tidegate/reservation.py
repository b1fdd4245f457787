"""Reservations of the async client: an estimate is charged first, and the real cost when it is known."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any

from .breaker import MAX_BACKOFF_S, MIN_BACKOFF_S
from .check_body import DEFAULT_DOMAIN, CheckBody, checked_cost
from .errors import RequestRefused, ServiceUnavailable, TidegateError
from .estimate import (
    PATH,
    SETTLE_PATH,
    Estimate,
    OnError,
    Reserved,
    Settlement,
    checked_on_error,
    encode_reserve,
    parse_reserved,
    parse_settlement,
    reserve_locally,
)
from .render import render_uncounted
from .response import CallFailed

if TYPE_CHECKING:
    from types import TracebackType

    from .client import Tidegate

_log = logging.getLogger("tidegate")


class Reservation(Estimate):
    """An estimate that has been charged, from `Tidegate.reserve`; `settle` sets the real cost.

    >>> async with client.reserve({"user": "ann"}, cost=4000, limits="100_000/hour") as reservation:
    ...     reservation.settle(1234)
    """

    def __init__(self, client: Tidegate, body: CheckBody, reserved: Reserved) -> None:
        super().__init__(body, reserved)
        self._client = client
        self._send_lock = asyncio.Lock()

    def settle(self, cost: int) -> PendingSettlement:
        """Sets the real cost: less than the estimate gives the rest back, more charges the overrun.

        >>> reservation.settle(1234)                     # is sent when the block is left
        >>> settlement = await reservation.settle(1234)  # is sent now

        With ``await`` it returns the `Settlement`, and raises `ServiceUnavailable` if the service cannot be
        reached; then it may be called again. Until the service has confirmed a cost, a later call replaces an
        earlier one.
        """
        self._cost = checked_cost(cost)
        return PendingSettlement(self)

    async def send(self) -> Settlement:
        """Sends the cost given to `settle`, and returns what was charged.

        Raises `ServiceUnavailable` if the service cannot be reached; then it may be called again. Raises
        `ReservationGone` if it is too late.
        """
        async with self._send_lock:
            with self._sending() as cost:
                return await self._send(cost)

    async def _send(self, cost: int) -> Settlement:
        if self.id is None:
            return self._settle_locally(self._client._settings.fallback, cost)
        before = self._note_sent(cost)
        response = await self._client._call(SETTLE_PATH, self._encode(cost))
        return parse_settlement(response, self._sent_before if response.was_resent else before)

    async def _keep_sending(self, until_s: float) -> None:
        """Sends the cost with a backoff until the service confirms it or the reservation has expired."""
        clock = self._client._settings.clock
        max_s = MIN_BACKOFF_S
        while self.is_pending:
            wait_s = max_s * clock.chance()
            max_s = min(MAX_BACKOFF_S, 2 * max_s)
            if clock.monotonic() + wait_s >= until_s:
                _log.warning("a reservation expired before it was settled, so its estimate stays charged")
                return
            await clock.sleep(wait_s)
            with contextlib.suppress(ServiceUnavailable):
                await self.send()


def free_reservation(client: Tidegate) -> Reservation:
    """Returns a reservation for a request that is not limited; settling it charges nothing."""
    nothing = CheckBody(DEFAULT_DOMAIN, (), 0)
    decision = render_uncounted(allowed=True, source="skipped")
    return Reservation(client, nothing, Reserved(decision, 0, None, None))


class PendingSettlement:
    """A settlement that ``await`` sends at once, and that is sent when the block is left otherwise."""

    def __init__(self, reservation: Reservation) -> None:
        self._reservation = reservation

    def __await__(self) -> Generator[Any, None, Settlement]:
        return self._reservation.send().__await__()


class ReserveContext:
    """The context manager that `Tidegate.reserve` returns."""

    def __init__(
        self,
        client: Tidegate,
        body: CheckBody,
        *,
        ttl_ms: int,
        on_error: OnError,
        on_refused: Callable[[RequestRefused], None] | None = None,
    ) -> None:
        self._client = client
        self._body = body
        self._on_refused = on_refused
        self._is_retrying = False
        self._ttl_ms = ttl_ms
        self._on_error = checked_on_error(on_error)
        self._reservation: Reservation | None = None
        self._until_s = 0.0

    async def __aenter__(self) -> Reservation:
        self._reservation = Reservation(self._client, self._body, await self._reserve())
        self._until_s = self._client._settings.clock.monotonic() + self._ttl_ms / 1000
        return self._reservation

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        reservation = self._reservation
        if reservation is None:
            return
        if reservation.is_open and error is not None and self._on_error == "refund":
            reservation.settle(0)
        if reservation.is_pending and not self._is_retrying:
            # In a task of its own: a caller that is cancelled here still gives back what was not used.
            await asyncio.shield(asyncio.ensure_future(self.send(reservation)))

    async def send(self, reservation: Reservation) -> None:
        """Settles, and logs errors instead of raising them: the work is done, and must not fail by it."""
        try:
            await reservation.send()
        except ServiceUnavailable as error:
            _log.warning("a reservation was not settled, retrying in the background: %s", error)
            self._is_retrying = True
            self._client._run_in_background(_log_errors(reservation._keep_sending(self._until_s)))
        except TidegateError as error:
            _log.warning("a reservation was not settled: %s", error)

    async def _reserve(self) -> Reserved:
        try:
            response = await self._client._call(PATH, encode_reserve(self._body, self._ttl_ms))
            return parse_reserved(response, self._body.cost)
        except CallFailed:
            pass
        except RequestRefused as refused:
            if self._on_refused is None:
                raise
            self._on_refused(refused)
        settings = self._client._settings
        return reserve_locally(settings.fallback, self._body, settings.clock)


async def _log_errors(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except TidegateError as error:
        _log.warning("a reservation was not settled: %s", error)
