"""Decides about requests of an app: the client to ask with, and who its clients are."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

from .client import Tidegate, shared_client
from .client_ip import ClientIp
from .errors import TidegateError
from .request import RequestLike, Scope, header_pairs, marks_of
from .warnings import warn_once

if TYPE_CHECKING:
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
        return self._client_ip.resolve(peer[0] if peer else None, header_pairs(scope)).key

    async def decide(self, asking: Asking[R], request: R, client: Tidegate | None = None) -> Decision | None:
        """The decision about a request; ``None`` if it is not limited."""
        scope = request.scope
        marks = marks_of(scope)
        ask = await asking.ask(request, lambda: self.client_key(scope))
        if ask is None:
            return None
        charge = (ask.domain, ask.descriptors)
        if charge in marks.charged:
            warn_once("TIDEGATE_DOUBLE_COUNT", ask.descriptors[0].entries)
        marks.charged.add(charge)
        decision = marks.decision = await self._decide(ask, client or self.client)
        scope.setdefault("state", {})["tidegate"] = decision
        return decision

    async def _decide(self, ask: Ask, client: Tidegate) -> Decision:
        """A mistake in what is asked must not take the app down."""
        try:
            return await client.decide(ask)
        except TidegateError as error:
            now = client.clock.monotonic()
            if self._logged_at is None or now - self._logged_at >= _QUIET_S:
                self._logged_at = now
                _log.error("cannot limit requests as asked, falling back: %s", error)
            return client.fall_back(ask)


_default = Guard()


def guard_of(scope: Scope) -> Guard:
    """The guard that a middleware put there, or that of the process."""
    guard = marks_of(scope).guard
    return guard if isinstance(guard, Guard) else _default
