"""Decides about requests of an app: the client to ask with, and who its clients are."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from .client import Tidegate, shared_client
from .client_ip import UNKNOWN, ClientIp
from .errors import RateLimitExceeded, TidegateError
from .estimate import OnError
from .request import RequestLike, Scope, header_pairs, marks_of
from .reservation import Reservation, ReserveContext, free_reservation
from .warnings import warn_once

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from .ask import Ask
    from .asking import Asking
    from .decision import Decision

_log = logging.getLogger("tidegate")
_QUIET_S = 60.0

R = TypeVar("R", bound=RequestLike)


class Guard:
    """One per app."""

    def __init__(self, client: Tidegate | None = None, client_ip: ClientIp | None = None) -> None:
        self._client = client
        self._client_ip = client_ip or ClientIp()
        self._logged_at: float | None = None

    @property
    def client(self) -> Tidegate:
        """Whom it asks; by default the process's own."""
        if self._client is None:
            self._client = shared_client()
        return self._client

    def client_key(self, scope: Scope) -> str:
        """The key that the client's address is counted under."""
        peer = scope.get("client")
        found = self._client_ip.resolve(peer[0] if peer else None, header_pairs(scope))
        if found.ip == UNKNOWN:
            warn_once("TIDEGATE_NO_ADDRESS")
        return found.key

    async def decide(self, asking: Asking[R], request: R, client: Tidegate | None = None) -> Decision | None:
        """The decision about a request; ``None`` if it is not limited."""
        ask = await self._ask(asking, request)
        if ask is None:
            return None
        decision = await self._decide(ask, client or self.client)
        _note(request.scope, decision)
        return decision

    @asynccontextmanager
    async def reserve(
        self,
        asking: Asking[R],
        request: R,
        client: Tidegate | None = None,
        *,
        cost: int | None,
        ttl_s: float,
        on_error: OnError,
    ) -> AsyncGenerator[Reservation, None]:
        """A reservation for a request, settled at the latest when its answer is done."""
        ask = await self._ask(asking, request, cost)
        client = client or self.client
        if ask is None:
            yield free_reservation(client)
            return
        context = ReserveContext(
            client,
            ask,
            ttl_ms=round(ttl_s * 1000),
            on_error=on_error,
            on_refused=lambda error: self._log(error, client),
        )
        async with AsyncExitStack() as stack:
            try:
                reservation = await stack.enter_async_context(context)
            except RateLimitExceeded as denied:
                _note(request.scope, denied.decision)
                raise
            _note(request.scope, reservation.decision)

            async def settle() -> None:
                if reservation.is_pending:
                    await context.send(reservation)

            marks_of(request.scope).before_answer.append(settle)
            yield reservation

    async def _ask(self, asking: Asking[R], request: R, cost: int | None = None) -> Ask | None:
        scope = request.scope
        ask = await asking.ask(request, lambda: self.client_key(scope), cost)
        if ask is None:
            return None
        charged = marks_of(scope).charged
        counters = [
            (ask.domain, one.entries, limit and limit.identity)
            for one in ask.descriptors
            for limit in one.limits or (None,)
        ]
        for counter in counters:
            if counter in charged:
                warn_once("TIDEGATE_DOUBLE_COUNT", counter[1])
        charged.update(counters)
        return ask

    async def _decide(self, ask: Ask, client: Tidegate) -> Decision:
        """A mistake in what is asked must not take the app down."""
        try:
            return await client.decide(ask)
        except TidegateError as error:
            self._log(error, client)
            return client.fall_back(ask)

    def _log(self, error: TidegateError, client: Tidegate) -> None:
        now = client.clock.monotonic()
        if self._logged_at is None or now - self._logged_at >= _QUIET_S:
            self._logged_at = now
            _log.error("cannot limit requests as asked, falling back: %s", error)


def _note(scope: Scope, decision: Decision) -> None:
    marks_of(scope).decision = decision
    scope.setdefault("state", {})["tidegate"] = decision


_default = Guard()


def guard_of(scope: Scope) -> Guard:
    """The guard that a middleware put there, or that of the process."""
    guard = marks_of(scope).guard
    return guard if isinstance(guard, Guard) else _default
