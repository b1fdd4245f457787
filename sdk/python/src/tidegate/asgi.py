"""Middleware for any ASGI app: Starlette, FastAPI, Litestar, Quart, Django."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import TYPE_CHECKING, Any, TypeAlias

from .check_body import DEFAULT_DOMAIN
from .check_builder import CheckBuilder, Descriptors, MaybeAwaitable, ValueOrFunction
from .client import Tidegate, client_from_settings
from .client_ip import ClientIp, ForwardingHeader
from .decider import Decider
from .request import Request, Scope, request_state_of
from .settings import DEFAULT_DEADLINE_S, make_settings
from .warnings import note_created

if TYPE_CHECKING:
    from .decision import Decision
    from .fallback import FallbackMode
    from .limits import LimitsLike

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY_VIOLATION = 1008
"""The close code for a websocket that is over its limit."""
MAX_REASON_BYTES = 123


class TidegateMiddleware:
    """Limits every request of an ASGI app.

    >>> app.add_middleware(TidegateMiddleware, limits="100/minute")

    Each client may make this many requests to each route, or with ``name="app"`` to all routes together.
    Requests that match no route share one counter. A denied request gets the response that the service
    rendered, and does not reach the app. All other responses get the rate limit headers, except those that
    the app sets itself. With ``websockets=True`` the handshakes of websockets are limited, too: one that is
    denied is closed with code 1008 and a reason.

    Clients are told apart by address, or by ``key``, a function of the `Request` such as
    ``by_header("x-api-key")``. ``limits`` and ``cost`` may be functions of the request as well, and requests
    for which ``skip`` returns true are not limited. With ``descriptors`` in place of ``limits``, the rules of
    ``domain`` in the service apply. Set ``trusted_proxies`` if the app runs behind a proxy; see `ClientIp`.
    ``on_denied`` is a function of the request and the `Decision` that returns another response to a denial.

    ``client`` is a `Tidegate` to share. Without it the middleware creates one from ``url``, ``token``,
    ``deadline``, ``fallback``, ``local_limits`` and ``enabled``.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: ValueOrFunction[LimitsLike, Request] | None = None,
        *,
        client: Tidegate | None = None,
        url: str | None = None,
        token: str | None = None,
        deadline: float = DEFAULT_DEADLINE_S,
        fallback: FallbackMode = "local",
        local_limits: LimitsLike | None = None,
        domain: str = DEFAULT_DOMAIN,
        name: str | None = None,
        key: Callable[[Request], MaybeAwaitable[str | None]] | None = None,
        cost: ValueOrFunction[int, Request] = 1,
        skip: Callable[[Request], MaybeAwaitable[bool]] | None = None,
        descriptors: ValueOrFunction[Descriptors, Request] | None = None,
        trusted_proxies: Iterable[str] | int = (),
        header: ForwardingHeader = "x-forwarded-for",
        ipv6_prefix: int = 56,
        on_denied: Callable[[Request, Decision], MaybeAwaitable[ASGIApp]] | None = None,
        websockets: bool = False,
        enabled: bool = True,
    ) -> None:
        self.app = app
        self._builder = CheckBuilder(
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
            client = client_from_settings(
                make_settings(
                    url=url,
                    token=token,
                    deadline=deadline,
                    fallback=fallback,
                    local_limits=local_limits,
                    enabled=enabled,
                )
            )
        self._decider = Decider(client, ClientIp(trusted_proxies, header, ipv6_prefix))
        self._on_denied = on_denied
        self._limits_websockets = websockets
        note_created(self, around=app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Decides a request, and passes it on to the app or responds with a denial."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        state = request_state_of(scope)
        if state.decider is None:
            state.decider = self._decider
        if scope["type"] == "websocket" and not self._limits_websockets:
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        decision = await self._decider.decide(self._builder, request)
        if decision is None:
            await self.app(scope, receive, send)
        elif decision.allowed:
            await self.app(scope, receive, with_headers(send, lambda: state.decision))
        elif scope["type"] == "websocket":
            await close_websocket(decision, scope, receive, send)
        elif self._on_denied is None:
            await send_denial(decision, send)
        else:
            response = self._on_denied(request, decision)
            response = await response if inspect.isawaitable(response) else response
            await response(scope, receive, with_headers(send, lambda: decision))


def with_headers(send: Send, get_decision: Callable[[], Decision | None]) -> Send:
    """Returns a ``send`` that adds the headers of a decision to the response, except those that it has."""

    async def send_with_headers(message: Message) -> None:
        begins = message["type"] in ("http.response.start", "websocket.accept")
        decision = get_decision() if begins else None
        if decision is not None:
            headers = list(message.get("headers", ()))
            present = {bytes(name).lower() for name, _ in headers}
            headers += [pair for pair in header_bytes(decision) if pair[0] not in present]
            message = {**message, "headers": headers}
        await send(message)

    return send_with_headers


async def send_denial(decision: Decision, send: Send) -> None:
    """Sends a denial as the service rendered it, byte for byte."""
    content = decision.content
    headers = [
        (b"content-type", decision.content_type.encode("latin-1")),
        (b"content-length", str(len(content)).encode("ascii")),
        *header_bytes(decision),
    ]
    await send({"type": "http.response.start", "status": decision.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


async def close_websocket(decision: Decision, scope: Scope, receive: Receive, send: Send) -> None:
    """Closes a websocket with code 1008 and a reason.

    It is accepted first: servers respond to a refused handshake with 403, and browsers hide the reason.
    """
    await receive()  # the message "websocket.connect"
    await send(
        {
            "type": "websocket.accept",
            "subprotocol": next(iter(scope.get("subprotocols", ())), None),
            "headers": header_bytes(decision),
        }
    )
    await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": close_reason(decision)})


def close_reason(decision: Decision) -> str:
    """Returns the reason why a websocket is closed, cut to what fits into a close frame."""
    return decision.detail.encode()[:MAX_REASON_BYTES].decode(errors="ignore")


def header_bytes(decision: Decision) -> list[tuple[bytes, bytes]]:
    """Returns the headers of a decision as ASGI expects them."""
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in decision.headers]
