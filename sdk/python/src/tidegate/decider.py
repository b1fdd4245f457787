"""Decides the requests of an app: which client is used, and who the app's clients are."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from .client import Tidegate, shared_client
from .client_ip import UNKNOWN, ClientIp
from .errors import RateLimitExceeded, TidegateError
from .estimate import OnError
from .request import RequestLike, Scope, header_pairs, request_state_of
from .reservation import Reservation, ReserveContext, free_reservation
from .warnings import warn_once

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from .check_body import CheckBody
    from .check_builder import CheckBuilder
    from .decision import Decision

_log = logging.getLogger("tidegate")
_LOG_INTERVAL_S = 60.0

R = TypeVar("R", bound=RequestLike)


class Decider:
    """Decides the requests of one app, for its middleware, dependencies and decorators."""

    def __init__(self, client: Tidegate | None = None, client_ip: ClientIp | None = None) -> None:
        self._client = client
        self._client_ip = client_ip or ClientIp()
        self._logged_at: float | None = None

    @property
    def client(self) -> Tidegate:
        """The client of the service; by default the one of the process."""
        if self._client is None:
            self._client = shared_client()
        return self._client

    def client_key(self, scope: Scope) -> str:
        """Returns the key for the address of the client: the address, or its network for IPv6."""
        peer = scope.get("client")
        found = self._client_ip.resolve(peer[0] if peer else None, header_pairs(scope))
        if found.ip == UNKNOWN:
            warn_once("TIDEGATE_NO_ADDRESS")
        return found.key

    async def decide(
        self, builder: CheckBuilder[R], request: R, client: Tidegate | None = None
    ) -> Decision | None:
        """Returns the decision about a request; ``None`` if the limiter skips it."""
        body = await self._build(builder, request)
        if body is None:
            return None
        decision = await self._decide(body, client or self.client)
        _store(request.scope, decision)
        return decision

    @asynccontextmanager
    async def reserve(
        self,
        builder: CheckBuilder[R],
        request: R,
        client: Tidegate | None = None,
        *,
        cost: int | None,
        ttl_s: float,
        on_error: OnError,
    ) -> AsyncGenerator[Reservation, None]:
        """Reserves for a request; the reservation is settled at the latest when the response is complete."""
        body = await self._build(builder, request, cost)
        client = client or self.client
        if body is None:
            yield free_reservation(client)
            return
        context = ReserveContext(
            client,
            body,
            ttl_ms=round(ttl_s * 1000),
            on_error=on_error,
            on_refused=lambda error: self._log(error, client),
        )
        async with AsyncExitStack() as stack:
            try:
                reservation = await stack.enter_async_context(context)
            except RateLimitExceeded as denied:
                _store(request.scope, denied.decision)
                raise
            _store(request.scope, reservation.decision)

            async def settle() -> None:
                if reservation.is_pending:
                    await context.send(reservation)

            request_state_of(request.scope).before_response.append(settle)
            yield reservation

    async def _build(self, builder: CheckBuilder[R], request: R, cost: int | None = None) -> CheckBody | None:
        """Returns the check of a request, and warns if it charges a counter that was charged before."""
        scope = request.scope
        body = await builder.build(request, lambda: self.client_key(scope), cost)
        if body is None:
            return None
        charged = request_state_of(scope).charged
        counters = [
            (body.domain, descriptor.entries, limit and limit.identity)
            for descriptor in body.descriptors
            for limit in descriptor.limits or (None,)
        ]
        for counter in counters:
            if counter in charged:
                warn_once("TIDEGATE_DOUBLE_COUNT", counter[1])
        charged.update(counters)
        return body

    async def _decide(self, body: CheckBody, client: Tidegate) -> Decision:
        """Decides by the fallback if the service refuses the check: a mistake must not take the app down."""
        try:
            return await client._decide(body)
        except TidegateError as error:
            self._log(error, client)
            return client._settings.fallback.decide(body)

    def _log(self, error: TidegateError, client: Tidegate) -> None:
        now = client._settings.clock.monotonic()
        if self._logged_at is None or now - self._logged_at >= _LOG_INTERVAL_S:
            self._logged_at = now
            _log.error("the service did not decide a request, the fallback does: %s", error)


def _store(scope: Scope, decision: Decision) -> None:
    if decision.headers:
        request_state_of(scope).decision = decision
    scope.setdefault("state", {})["tidegate"] = decision


_default = Decider()


def decider_of(scope: Scope) -> Decider:
    """Returns the decider that a middleware stored for the request, or that of the process."""
    decider = request_state_of(scope).decider
    return decider if isinstance(decider, Decider) else _default
