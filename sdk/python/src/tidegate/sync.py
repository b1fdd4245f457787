"""The client for scripts and threads: the same words without ``await``."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .answer import Answer, Unanswered, decision_of, refuse
from .ask import DEFAULT_DOMAIN, Ask, DescriptorLike, ask_of, cost_of, encode
from .errors import PermitLost, RequestRefused, ReservationGone, ServiceUnavailable, TidegateError
from .permit import NOTHING, Held, held_of
from .permit import PATH as ACQUIRE_PATH
from .refund import PATH as REFUND_PATH
from .refund import left_of, refund_here
from .reservation import PATH as RESERVE_PATH
from .reservation import (
    SETTLE_PATH,
    OnError,
    Reserved,
    Settlement,
    on_error_of,
    reserved_of,
    settlement_of,
)
from .settings import DEFAULT_DEADLINE_S, settings_of
from .sync_wire import SyncWire
from .warnings import made

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from .clock import Clock
    from .decision import Decision, LimitStatus
    from .fallback import FallbackMode
    from .limits import LimitsLike

_log = logging.getLogger("tidegate")


class SyncTidegate:
    """Asks the service from threads, which may share one client. Nothing is batched.

    >>> with SyncTidegate("http://localhost:8080") as client:
    ...     client.check({"job": "import"}, limits="10/minute").raise_for_denied()
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        deadline: float = DEFAULT_DEADLINE_S,
        fallback: FallbackMode = "local",
        local_limits: LimitsLike | None = None,
        ssl_context: ssl.SSLContext | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings_of(
            url=url,
            token=token,
            deadline=deadline,
            fallback=fallback,
            local_limits=local_limits,
            ssl_context=ssl_context,
            clock=clock,
        )
        self._wire = SyncWire(self._settings.target, ssl_context, self._settings.clock.monotonic)
        made(self)

    def check(
        self,
        *descriptors: DescriptorLike,
        limits: LimitsLike | None = None,
        cost: int = 1,
        domain: str = DEFAULT_DOMAIN,
    ) -> Decision:
        """Decides a request; see `Tidegate.check`."""
        ask = ask_of(descriptors, domain=domain, limits=limits, cost=cost)
        try:
            return decision_of(self._call("/v1/check", ask.message()))
        except Unanswered:
            return self._settings.fallback.decide(ask)

    def refund(
        self,
        *descriptors: DescriptorLike,
        limits: LimitsLike | None = None,
        cost: int = 1,
        domain: str = DEFAULT_DOMAIN,
    ) -> tuple[LimitStatus, ...]:
        """Gives back what `check` took; see `Tidegate.refund`."""
        ask = ask_of(descriptors, domain=domain, limits=limits, cost=cost)
        try:
            return left_of(self._call(REFUND_PATH, ask.message()))
        except Unanswered as why:
            return refund_here(self._settings.fallback, ask, why)

    @contextmanager
    def reserve(
        self,
        *descriptors: DescriptorLike,
        cost: int,
        limits: LimitsLike | None = None,
        domain: str = DEFAULT_DOMAIN,
        ttl: float = 60.0,
        on_error: OnError = "refund",
    ) -> Iterator[SyncReservation]:
        """Takes an estimate now, and charges the real cost later; see `Tidegate.reserve`.

        >>> with client.reserve({"user": "ann"}, cost=4000, limits="100_000/hour") as reservation:
        ...     reservation.settle(ask_the_model(max_tokens=4000).tokens)
        """
        on_error_of(on_error)
        ask = ask_of(descriptors, domain=domain, limits=limits, cost=cost)
        reservation = SyncReservation(self, ask, self._reserve(ask, round(ttl * 1000)))
        try:
            yield reservation
        except BaseException:
            if reservation.is_open and on_error == "refund":
                reservation.settle(0)
            raise
        finally:
            if reservation.is_pending:
                _quietly("a reservation was not settled", reservation.send)

    @contextmanager
    def acquire(self, *descriptors: DescriptorLike, domain: str) -> Iterator[SyncPermit]:
        """Holds a slot of a concurrency limit for as long as a block runs.

        Nothing renews it meanwhile: call `SyncPermit.renew` in work that takes longer than its time-out.
        """
        permit = SyncPermit(self, self._acquire(ask_of(descriptors, domain=domain, limits=None, cost=1)))
        try:
            yield permit
        finally:
            _quietly("a permit was not released", permit.release)

    def _reserve(self, ask: Ask, ttl_ms: int) -> Reserved:
        try:
            return reserved_of(self._call(RESERVE_PATH, ask.message(cost=ask.cost, ttl_ms=ttl_ms)), ask.cost)
        except Unanswered:
            taken_s = self._settings.clock.monotonic()
            decision = self._settings.fallback.decide(ask).raise_for_denied()
            return Reserved(decision, ask.cost, None, None, taken_s)

    def _acquire(self, ask: Ask) -> Held:
        try:
            return held_of(self._call(ACQUIRE_PATH, ask.message()), self._settings.clock)
        except Unanswered:
            self._settings.fallback.hold().raise_for_denied()
            return NOTHING

    def _call(self, path: str, body: bytes) -> Answer:
        breaker = self._settings.breaker
        admission = breaker.admit()
        if admission is None:
            raise Unanswered("the service did not answer a moment ago", sent=False)
        try:
            answer = self._wire.post(path, body, self._settings.deadline_s)
        except Unanswered as why:
            breaker.failed(admission, str(why))
            raise
        breaker.succeeded(admission)
        return answer

    def close(self) -> None:
        """Closes the connections."""
        self._wire.close()

    def __enter__(self) -> SyncTidegate:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SyncReservation:
    """An estimate that was taken; `settle` says what it really cost."""

    def __init__(self, client: SyncTidegate, ask: Ask, reserved: Reserved) -> None:
        self._client = client
        self._ask = ask
        self._cost: int | None = None
        self._is_settled = False
        self._tried: Settlement | None = None
        self.id = reserved.id
        self.decision = reserved.decision
        self.estimate = reserved.estimate
        self.expires_at = reserved.expires_at
        self._taken_s = reserved.taken_s

    def settle(self, cost: int) -> None:
        """Says what it really cost. It is sent when the block is left, or at once by `send`."""
        self._cost = cost_of(cost)

    def send(self) -> Settlement:
        """Sends what `settle` was told. If it raises `ServiceUnavailable` it may be tried again."""
        if self._cost is None:
            raise TidegateError("nothing to send; call settle(cost) first")
        if self._is_settled:
            raise ReservationGone("the reservation has been settled")
        try:
            settlement = self._send(self._cost)
        except ReservationGone:
            self._is_settled = True
            raise
        self._is_settled = True
        return settlement

    def _send(self, cost: int) -> Settlement:
        if self.id is None:
            self._client._settings.fallback.settle(self._ask, cost, self._taken_s)
            return Settlement(self.estimate, cost, ())
        tried = self._tried
        self._tried = tried or Settlement(self.estimate, cost, ())
        try:
            answer = self._client._call(SETTLE_PATH, encode({"id": self.id, "cost": cost}))
        except Unanswered as why:
            raise ServiceUnavailable(f"could not settle, so the estimate stays charged: {why}") from why
        return settlement_of(answer, tried)

    @property
    def is_pending(self) -> bool:
        """Whether a cost was told and the service has not answered yet."""
        return self._cost is not None and not self._is_settled

    @property
    def is_open(self) -> bool:
        """Whether nobody has told a cost."""
        return self._cost is None


class SyncPermit:
    """A slot that is held."""

    def __init__(self, client: SyncTidegate, held: Held) -> None:
        self._client = client
        self.id = held.permit
        self.expires_at = held.expires_at

    def renew(self) -> None:
        """Keeps it for another time-out; raises `PermitLost` if it is too late."""
        if self.id is None:
            return
        try:
            answer = self._client._call("/v1/renew", encode({"permit": self.id}))
            self.expires_at = held_of(answer, self._client._settings.clock).expires_at
        except RequestRefused as refused:
            if refused.status != 404:
                raise
            raise PermitLost(refused.detail) from refused
        except Unanswered as why:
            raise ServiceUnavailable(f"could not renew a permit: {why}") from why

    def release(self) -> None:
        """Gives the slot back; may be repeated."""
        if self.id is None:
            return
        try:
            answer = self._client._call("/v1/release", encode({"permit": self.id}))
            if answer.status != 204:
                refuse(answer)
        except Unanswered as why:
            raise ServiceUnavailable(f"could not release a permit, it runs out by itself: {why}") from why


def _quietly(what: str, act: Callable[[], object]) -> None:
    try:
        act()
    except TidegateError as error:
        _log.warning("%s: %s", what, error)
