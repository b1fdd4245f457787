"""Middleware for any ASGI app: Starlette, FastAPI, Litestar, Quart, Django."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import TYPE_CHECKING, Any, TypeAlias

from .ask import DEFAULT_DOMAIN
from .asking import Asking, Descriptors, Given, Maybe
from .client import Tidegate, client_of
from .client_ip import ClientIp, ForwardingHeader
from .guard import Guard
from .request import Request, Scope, marks_of
from .settings import DEFAULT_DEADLINE_S, settings_of
from .warnings import made

if TYPE_CHECKING:
    from .decision import Decision
    from .fallback import FallbackMode
    from .limits import LimitsLike

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY_VIOLATION = 1008
"""The code of a close frame for a websocket that is over its limit."""
MOST_REASON_BYTES = 123


class TidegateMiddleware:
    """Limits every request of an app.

    >>> app.add_middleware(TidegateMiddleware, limits="100/minute")

    Each client may make so many requests to each route; with ``name="app"`` to all of them together.
    Requests that belong to no route share one counter.
    Denied requests are answered as the service says, and the app never sees them; the others pass, and their
    answers get the service's headers, unless the app has set them itself. Websockets pass through, or with
    ``websockets=True`` their handshakes are limited too: one that is denied is closed with 1008 and a reason.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: Given[LimitsLike, Request] | None = None,
        *,
        client: Tidegate | None = None,
        url: str | None = None,
        token: str | None = None,
        deadline: float = DEFAULT_DEADLINE_S,
        fallback: FallbackMode = "local",
        local_limits: LimitsLike | None = None,
        domain: str = DEFAULT_DOMAIN,
        name: str | None = None,
        key: Callable[[Request], Maybe[str | None]] | None = None,
        cost: Given[int, Request] = 1,
        skip: Callable[[Request], Maybe[bool]] | None = None,
        descriptors: Given[Descriptors, Request] | None = None,
        trusted_proxies: Iterable[str] | int = (),
        header: ForwardingHeader = "x-forwarded-for",
        ipv6_prefix: int = 56,
        on_denied: Callable[[Request, Decision], Maybe[ASGIApp]] | None = None,
        websockets: bool = False,
        enabled: bool = True,
    ) -> None:
        self.app = app
        self._asking = Asking(
            limits,
            domain=domain,
            name=name,
            key=key,
            cost=cost,
            skip=skip,
            descriptors=descriptors,
            app=app,
            eager=True,
        )
        if client is None:
            client = client_of(
                settings_of(
                    url=url,
                    token=token,
                    deadline=deadline,
                    fallback=fallback,
                    local_limits=local_limits,
                    enabled=enabled,
                )
            )
        self._guard = Guard(client, ClientIp(trusted_proxies, header, ipv6_prefix))
        self._on_denied = on_denied
        self._limits_websockets = websockets
        made(self, around=app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Decides, and passes the request on or answers it."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        marks = marks_of(scope)
        if marks.guard is None:
            marks.guard = self._guard
        if scope["type"] == "websocket" and not self._limits_websockets:
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        decision = await self._guard.decide(self._asking, request)
        if decision is None:
            await self.app(scope, receive, send)
        elif decision.allowed:
            await self.app(scope, receive, with_headers(send, lambda: marks.decision))
        elif scope["type"] == "websocket":
            await close_websocket(decision, scope, receive, send)
        elif self._on_denied is None:
            await deny(decision, send)
        else:
            answer = self._on_denied(request, decision)
            answer = await answer if inspect.isawaitable(answer) else answer
            await answer(scope, receive, with_headers(send, lambda: decision))


def with_headers(send: Send, decided: Callable[[], Decision | None]) -> Send:
    """Adds a decision's headers to the answer, unless it has them."""

    async def send_with_headers(message: Message) -> None:
        begins = message["type"] in ("http.response.start", "websocket.accept")
        decision = decided() if begins else None
        if decision is not None:
            headers = list(message.get("headers", ()))
            present = {bytes(name).lower() for name, _ in headers}
            headers += [pair for pair in header_bytes(decision) if pair[0] not in present]
            message = {**message, "headers": headers}
        await send(message)

    return send_with_headers


async def deny(decision: Decision, send: Send) -> None:
    """Answers with what the service said, byte for byte."""
    content = decision.content
    headers = [
        (b"content-type", decision.content_type.encode("latin-1")),
        (b"content-length", str(len(content)).encode("ascii")),
        *header_bytes(decision),
    ]
    await send({"type": "http.response.start", "status": decision.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


async def close_websocket(decision: Decision, scope: Scope, receive: Receive, send: Send) -> None:
    """Closes a websocket with 1008 and a reason.

    It is accepted first, for a handshake that is refused becomes an HTTP 403 without a word.
    """
    await receive()  # that somebody connects
    await send(
        {
            "type": "websocket.accept",
            "subprotocol": next(iter(scope.get("subprotocols", ())), None),
            "headers": header_bytes(decision),
        }
    )
    await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": reason_of(decision)})


def reason_of(decision: Decision) -> str:
    """Returns why a websocket is closed, as much of it as a close frame holds."""
    return decision.detail.encode()[:MOST_REASON_BYTES].decode(errors="ignore")


def header_bytes(decision: Decision) -> list[tuple[bytes, bytes]]:
    """Headers as ASGI has them."""
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in decision.headers]
