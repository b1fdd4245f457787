"""The client for scripts and threads, with the calls of `Tidegate` without ``await``."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .check_body import DEFAULT_DOMAIN, CheckBody, DescriptorLike, checked_cost, make_check_body
from .errors import ClientClosed, TidegateError
from .estimate import PATH as RESERVE_PATH
from .estimate import (
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
from .forks import renew_after_fork
from .permit import (
    NOT_RELEASED,
    NOT_RENEWED,
    RELEASE_PATH,
    RENEW_PATH,
    PermitGrant,
    check_released,
    encode_permit,
    grant_locally,
    parse_grant,
    parse_renewal,
)
from .permit import PATH as ACQUIRE_PATH
from .refund import PATH as REFUND_PATH
from .refund import parse_refund, refund_locally
from .response import CallFailed, ServiceResponse, parse_decision, raise_unavailable
from .settings import DEFAULT_DEADLINE_S, Settings, local_settings, make_settings
from .sync_pool import SyncConnectionPool
from .warnings import note_created

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
    """A client of the service for scripts and threads. Threads may share one.

    >>> with SyncTidegate("http://localhost:8080") as client:
    ...     client.check({"job": "import"}, limits="10/minute").raise_for_denied()

    It has the options and calls of `Tidegate`, without ``await``. Checks are not batched. A client may be
    created before a fork: each process opens connections of its own.
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
        settings = make_settings(
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
        note_created(self)

    @classmethod
    def local(cls, *, local_limits: LimitsLike | None = None, clock: Clock | None = None) -> SyncTidegate:
        """Returns a client that counts in this process and needs no service: for tests and small scripts.

        >>> client = SyncTidegate.local()
        >>> decision = client.check({"job": "import"}, limits="10/minute")

        Checks without limits are counted against ``local_limits``, and pass if there are none.
        """
        client = cls.__new__(cls)
        client._set_up(local_settings(local_limits=local_limits, clock=clock))
        return client

    def _set_up(self, settings: Settings) -> None:
        self._settings = settings
        self._pool: SyncConnectionPool | None = SyncConnectionPool(settings)
        renew_after_fork(self)

    def _after_fork(self) -> None:
        """Leaves the connections to the parent; the child opens new ones."""
        if self._pool is not None:
            self._pool.leave_to_parent()
            self._pool = SyncConnectionPool(self._settings)

    def check(
        self,
        *descriptors: DescriptorLike,
        limits: LimitsLike | None = None,
        cost: int = 1,
        domain: str = DEFAULT_DOMAIN,
    ) -> Decision:
        """Decides whether a request may pass, and charges it if so.

        >>> decision = client.check({"user": "ann"}, limits="10/minute;200/hour")

        All descriptors must be within their limits, or nothing is charged to any of them. Without ``limits``
        the rules of the domain apply. ``cost=0`` returns the decision without charging it.

        A denial is a `Decision`, not an error. Raises `RequestRefused` if the service rejects the check as
        invalid, and `ClientClosed` after `close`.
        """
        body = make_check_body(descriptors, domain=domain, limits=limits, cost=cost)
        try:
            return parse_decision(self._call("/v1/check", body.encode()))
        except CallFailed:
            return self._settings.fallback.decide(body)

    def refund(
        self,
        *descriptors: DescriptorLike,
        limits: LimitsLike | None = None,
        cost: int = 1,
        domain: str = DEFAULT_DOMAIN,
    ) -> tuple[LimitStatus, ...]:
        """Gives back what a check charged, never above full: for work that was then not done.

        Give it the same arguments as `check`. Returns the state of each limit afterwards. The result is empty
        if no limit applies, and if the service cannot be reached or its response is lost. An empty result is
        final: do not retry.
        """
        body = make_check_body(descriptors, domain=domain, limits=limits, cost=cost)
        try:
            return parse_refund(self._call(REFUND_PATH, body.encode()))
        except CallFailed as failure:
            return refund_locally(self._settings.fallback, body, failure)

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
        """Charges an estimate now, and the real cost when the work is done.

        >>> with client.reserve({"user": "ann"}, cost=4000, limits="100_000/hour") as reservation:
        ...     reservation.settle(generate(prompt, max_tokens=4000).tokens)

        Entering the block raises `RateLimitExceeded` if the estimate does not fit. Leaving it without having
        settled keeps the estimate charged, and so does settling later than ``ttl`` seconds. Leaving it by an
        exception settles 0, or keeps the estimate with ``on_error="keep"``.
        """
        checked_on_error(on_error)
        body = make_check_body(descriptors, domain=domain, limits=limits, cost=cost)
        reservation = SyncReservation(self, body, self._reserve(body, round(ttl * 1000)))
        try:
            yield reservation
        except BaseException:
            if reservation.is_open and on_error == "refund":
                reservation.settle(0)
            raise
        finally:
            if reservation.is_pending:
                _log_errors("a reservation was not settled", reservation.send)

    @contextmanager
    def acquire(self, *descriptors: DescriptorLike, domain: str) -> Iterator[SyncPermit]:
        """Holds a slot of a concurrency limit while a block runs.

        >>> with client.acquire({"export": "ann"}, domain="shop") as permit:
        ...     export()

        Entering the block raises `RateLimitExceeded` if all slots are taken. The permit is not renewed
        automatically: call `SyncPermit.renew` in work that takes longer than the timeout of the rule.
        """
        permit = SyncPermit(
            self, self._acquire(make_check_body(descriptors, domain=domain, limits=None, cost=1))
        )
        try:
            yield permit
        finally:
            _log_errors("a permit was not released", permit.release)

    def _reserve(self, body: CheckBody, ttl_ms: int) -> Reserved:
        try:
            return parse_reserved(self._call(RESERVE_PATH, encode_reserve(body, ttl_ms)), body.cost)
        except CallFailed:
            return reserve_locally(self._settings.fallback, body, self._settings.clock)

    def _acquire(self, body: CheckBody) -> PermitGrant:
        try:
            return parse_grant(self._call(ACQUIRE_PATH, body.encode()), self._settings.clock)
        except CallFailed:
            return grant_locally(self._settings.fallback)

    def _call(self, path: str, body: bytes) -> ServiceResponse:
        pool = self._pool
        if pool is None:
            raise ClientClosed
        if not self._settings.uses_service:
            raise CallFailed("the client uses no service", sent=False)
        with self._settings.breaker.attempt():
            return pool.post(path, body, self._settings.deadline_s)

    def reset(self) -> None:
        """Forgets everything that this process has counted, so that each test begins with full limits.

        Counters of the service do not change.
        """
        self._settings.fallback.reset()

    def close(self) -> None:
        """Closes the client and its connections. Later checks raise `ClientClosed`.

        Entering the client again by ``with`` opens it.
        """
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def __enter__(self) -> SyncTidegate:
        if self._pool is None:
            self._pool = SyncConnectionPool(self._settings)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SyncReservation(Estimate):
    """An estimate that has been charged, from `SyncTidegate.reserve`; `settle` sets the real cost.

    >>> with client.reserve({"user": "ann"}, cost=4000, limits="100_000/hour") as reservation:
    ...     reservation.settle(1234)
    ...     settlement = reservation.send()
    """

    def __init__(self, client: SyncTidegate, body: CheckBody, reserved: Reserved) -> None:
        super().__init__(body, reserved)
        self._client = client

    def settle(self, cost: int) -> None:
        """Sets the real cost. It is sent when the block is left, or at once by `send`."""
        self._cost = checked_cost(cost)

    def send(self) -> Settlement:
        """Sends the cost given to `settle`, and returns what was charged.

        Raises `ServiceUnavailable` if the service cannot be reached; then it may be called again. Raises
        `ReservationGone` if it is too late.
        """
        with self._sending() as cost:
            return self._send(cost)

    def _send(self, cost: int) -> Settlement:
        if self.id is None:
            return self._settle_locally(self._client._settings.fallback, cost)
        before = self._note_sent(cost)
        return parse_settlement(self._client._call(SETTLE_PATH, self._encode(cost)), before)


class SyncPermit:
    """A slot of a concurrency limit, from `SyncTidegate.acquire`.

    ``id`` is its ID at the service, or ``None`` if the fallback let it pass. ``expires_at`` is when the slot
    is lost unless it is renewed (RFC 3339), or ``None`` if no slot is held.
    """

    def __init__(self, client: SyncTidegate, grant: PermitGrant) -> None:
        self._client = client
        self.id = grant.permit
        self.expires_at = grant.expires_at

    def renew(self) -> None:
        """Holds the slot for another timeout of the rule; raises `PermitLost` if it is too late."""
        if self.id is None:
            return
        with raise_unavailable(NOT_RENEWED):
            response = self._client._call(RENEW_PATH, encode_permit(self.id))
            self.expires_at = parse_renewal(response, self._client._settings.clock).expires_at

    def release(self) -> None:
        """Returns the slot. Leaving the block does so, too; a second call does nothing."""
        if self.id is None:
            return
        with raise_unavailable(NOT_RELEASED):
            check_released(self._client._call(RELEASE_PATH, encode_permit(self.id)))


def _log_errors(problem: str, act: Callable[[], object]) -> None:
    """Calls a function whose failure must not undo the work of the block."""
    try:
        act()
    except TidegateError as error:
        _log.warning("%s: %s", problem, error)
