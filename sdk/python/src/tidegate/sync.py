"""The client for scripts and threads: the same words without ``await``."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .answer import Answer, Unanswered, decision_of, or_unavailable
from .ask import DEFAULT_DOMAIN, Ask, DescriptorLike, ask_of, cost_of
from .errors import ClientClosed, TidegateError
from .estimate import PATH as RESERVE_PATH
from .estimate import (
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
from .forks import renew_after_fork
from .permit import (
    NOT_RELEASED,
    NOT_RENEWED,
    RELEASE_PATH,
    RENEW_PATH,
    Held,
    expect_released,
    held_here,
    held_of,
    message_of,
    renewed_of,
)
from .permit import PATH as ACQUIRE_PATH
from .refund import PATH as REFUND_PATH
from .refund import left_of, refund_here
from .settings import DEFAULT_DEADLINE_S, Settings, local_settings, settings_of
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
        enabled: bool = True,
        ssl_context: ssl.SSLContext | None = None,
        clock: Clock | None = None,
    ) -> None:
        settings = settings_of(
            url=url,
            token=token,
            deadline=deadline,
            fallback=fallback,
            enabled=enabled,
            local_limits=local_limits,
            ssl_context=ssl_context,
            clock=clock,
        )
        self._set_up(settings)
        made(self)

    @classmethod
    def local(cls, *, local_limits: LimitsLike | None = None, clock: Clock | None = None) -> SyncTidegate:
        """Returns a client that counts in this process and asks nobody; see `Tidegate.local`."""
        client = cls.__new__(cls)
        client._set_up(local_settings(local_limits=local_limits, clock=clock))
        return client

    def _set_up(self, settings: Settings) -> None:
        self._settings = settings
        self._wire: SyncWire | None = SyncWire(settings)
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Leaves the connections to the parent."""
        if self._wire is not None:
            self._wire.leave_to_parent()
            self._wire = SyncWire(self._settings)

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
            return reserved_of(self._call(RESERVE_PATH, reserve_message(ask, ttl_ms)), ask.cost)
        except Unanswered:
            return reserved_here(self._settings.fallback, ask, self._settings.clock)

    def _acquire(self, ask: Ask) -> Held:
        try:
            return held_of(self._call(ACQUIRE_PATH, ask.message()), self._settings.clock)
        except Unanswered:
            return held_here(self._settings.fallback)

    def _call(self, path: str, body: bytes) -> Answer:
        wire = self._wire
        if wire is None:
            raise ClientClosed
        if not self._settings.asks:
            raise Unanswered("the client asks nobody", sent=False)
        with self._settings.breaker.attempt():
            return wire.post(path, body, self._settings.deadline_s)

    def reset(self) -> None:
        """Forgets what this process counted, for tests: every limit is whole again."""
        self._settings.fallback.reset()

    def close(self) -> None:
        """Closes the connections. Nothing can be asked afterwards, unless it is entered again by ``with``."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()

    def __enter__(self) -> SyncTidegate:
        if self._wire is None:
            self._wire = SyncWire(self._settings)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SyncReservation(Estimate):
    """An estimate that was taken; `settle` says what it really cost."""

    def __init__(self, client: SyncTidegate, ask: Ask, reserved: Reserved) -> None:
        super().__init__(ask, reserved)
        self._client = client

    def settle(self, cost: int) -> None:
        """Says what it really cost. It is sent when the block is left, or at once by `send`."""
        self._cost = cost_of(cost)

    def send(self) -> Settlement:
        """Sends what `settle` was told. If it raises `ServiceUnavailable` it may be tried again."""
        with self._sending() as cost:
            return self._send(cost)

    def _send(self, cost: int) -> Settlement:
        if self.id is None:
            return self._settle_here(self._client._settings.fallback, cost)
        before = self._note_sent(cost)
        return settlement_of(self._client._call(SETTLE_PATH, self._message(cost)), before)


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
        with or_unavailable(NOT_RENEWED):
            answer = self._client._call(RENEW_PATH, message_of(self.id))
            self.expires_at = renewed_of(answer, self._client._settings.clock).expires_at

    def release(self) -> None:
        """Gives the slot back; may be repeated."""
        if self.id is None:
            return
        with or_unavailable(NOT_RELEASED):
            expect_released(self._client._call(RELEASE_PATH, message_of(self.id)))


def _quietly(what: str, act: Callable[[], object]) -> None:
    try:
        act()
    except TidegateError as error:
        _log.warning("%s: %s", what, error)
