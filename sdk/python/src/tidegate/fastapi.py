"""Dependencies and a decorator for FastAPI and Starlette.

>>> @app.get("/search", dependencies=[Depends(limit("10/minute;200/hour"))])
... async def search(q: str): ...
"""
# No `from __future__ import annotations` here: FastAPI reads the annotations of callables.

import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from typing import Any, TypeVar, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException, WebSocketException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketState

from .asgi import POLICY_VIOLATION, ASGIApp, Message, Receive, Send, reason_of, with_headers
from .ask import DEFAULT_DOMAIN
from .asking import Asking, Descriptors, Given, Maybe
from .client import Tidegate
from .client_ip import ClientIp, ForwardingHeader
from .decision import Decision
from .endpoint import REQUEST, RESPONSE, resolved_signature, take, threaded, with_parameters
from .errors import RateLimitExceeded
from .estimate import OnError, on_error_of
from .guard import Guard, guard_of
from .limits import LimitsLike
from .request import Scope, marks_of
from .reservation import Reservation
from .warnings import made_limit

__all__ = ["install", "limit", "limited", "rate_limit_handler", "reserve"]

F = TypeVar("F", bound=Callable[..., Any])

_COST = "tidegate_cost"


class HTTPRateLimitExceeded(RateLimitExceeded, HTTPException):
    """A denial that is an answer of status 429 even to an app that knows nothing of this package."""

    def __init__(self, decision: Decision) -> None:
        RateLimitExceeded.__init__(self, decision)
        self.status_code = decision.status
        self.detail = decision.detail
        self.headers = dict(decision.headers)


class limit:  # noqa: N801 - it is called like a function
    """A dependency that lets a request pass or raises `RateLimitExceeded`; it gives the decision.

    >>> @app.get("/items/{id}", dependencies=[Depends(limit("10/minute", cost=2))])
    >>> async def endpoint(decision: Annotated[Decision, Depends(limit("10/minute"))]): ...

    Endpoints whose limits have the same ``name`` share a counter; without one each has its own.
    """

    def __init__(
        self,
        limits: Given[LimitsLike, Request] | None = None,
        *,
        cost: Given[int, Request] = 1,
        key: Callable[[Request], Maybe[str | None]] | None = None,
        name: str | None = None,
        domain: str = DEFAULT_DOMAIN,
        descriptors: Given[Descriptors, Request] | None = None,
        skip: Callable[[Request], Maybe[bool]] | None = None,
        client: Tidegate | None = None,
    ) -> None:
        self._asking = Asking(
            limits, domain=domain, name=name, key=key, cost=cost, skip=skip, descriptors=descriptors
        )
        self._client = client
        made_limit()

    async def __call__(self, connection: HTTPConnection, response: Response) -> Decision | None:
        """What FastAPI calls for each request and each websocket."""
        decision = await self.decide(connection)
        if decision is not None:
            add_headers(response, decision)
        return decision

    async def decide(self, connection: HTTPConnection) -> Decision | None:
        """The decision, if it is one to pass; ``None`` if the request is not limited."""
        # Functions of the app get the request, or the websocket, as it came.
        request = cast("Request", connection)
        decision = await guard_of(request.scope).decide(self._asking, request, self._client)
        if decision is not None and not decision.allowed:
            raise await _denial(connection, decision)
        return decision


class reserve:  # noqa: N801 - it is called like a function
    """A dependency that takes an estimate or raises `RateLimitExceeded`; it gives the `Reservation`.

    >>> def most_tokens(prompt: Prompt) -> int:
    ...     return prompt.max_tokens
    >>> tokens = reserve("100_000/hour", cost=Depends(most_tokens), key=by_header("x-api-key"))
    >>> @app.post("/complete")
    ... async def complete(prompt: Prompt, reservation: Annotated[Reservation, Depends(tokens)]):
    ...     answer = await model(prompt)
    ...     reservation.settle(answer.tokens)

    ``cost`` is a number, a function of the request, or ``Depends`` on what reads it; the last is only asked
    after it was validated, so that requests with mistakes take nothing. Forgetting to settle leaves the
    estimate charged; an exception settles 0, or keeps the estimate with ``on_error="keep"``. With `install`
    it is settled before the answer begins.
    """

    __signature__: inspect.Signature

    def __init__(
        self,
        limits: Given[LimitsLike, Request] | None = None,
        *,
        cost: Given[int, Request],
        key: Callable[[Request], Maybe[str | None]] | None = None,
        name: str | None = None,
        domain: str = DEFAULT_DOMAIN,
        descriptors: Given[Descriptors, Request] | None = None,
        skip: Callable[[Request], Maybe[bool]] | None = None,
        ttl: float = 60.0,
        on_error: OnError = "refund",
        client: Tidegate | None = None,
    ) -> None:
        parameters = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind)
            for name, kind in (("connection", HTTPConnection), ("response", Response))
        ]
        if hasattr(cost, "dependency"):  # FastAPI is asked to ask
            parameters.append(
                inspect.Parameter(_COST, inspect.Parameter.KEYWORD_ONLY, default=cost, annotation=int)
            )
            cost = 1
        self.__signature__ = inspect.Signature(parameters)
        self._asking = Asking(
            limits, domain=domain, name=name, key=key, cost=cost, skip=skip, descriptors=descriptors
        )
        self._client = client
        self._ttl_s = ttl
        self._on_error = on_error_of(on_error)
        made_limit()

    async def __call__(
        self, connection: HTTPConnection, response: Response, **given: int
    ) -> AsyncGenerator[Reservation, None]:
        """What FastAPI calls for each request and each websocket."""
        reserving = guard_of(connection.scope).reserve(
            self._asking,
            cast("Request", connection),
            self._client,
            cost=given.get(_COST),
            ttl_s=self._ttl_s,
            on_error=self._on_error,
        )
        async with AsyncExitStack() as stack:
            try:
                reservation = await stack.enter_async_context(reserving)
            except RateLimitExceeded as denied:
                raise await _denial(connection, denied.decision) from None
            add_headers(response, reservation.decision)
            yield reservation


def limited(
    limits: Given[LimitsLike, Request] | None = None,
    *,
    cost: Given[int, Request] = 1,
    key: Callable[[Request], Maybe[str | None]] | None = None,
    name: str | None = None,
    domain: str = DEFAULT_DOMAIN,
    descriptors: Given[Descriptors, Request] | None = None,
    skip: Callable[[Request], Maybe[bool]] | None = None,
    client: Tidegate | None = None,
) -> Callable[[F], F]:
    """A decorator for endpoints of Starlette and FastAPI, with the options of `limit`.

    >>> @app.get("/search")
    ... @limited("10/minute")
    ... async def search(q: str): ...

    The endpoint needs no parameter for the request. Several may stand one above the other; then a request has
    to be within all of them.
    """
    dependency = limit(
        limits,
        cost=cost,
        key=key,
        name=name,
        domain=domain,
        descriptors=descriptors,
        skip=skip,
        client=client,
    )

    def decorate(endpoint: F) -> F:
        signature = resolved_signature(endpoint)
        call = endpoint if inspect.iscoroutinefunction(endpoint) else threaded(endpoint)

        @functools.wraps(endpoint)
        async def limited_endpoint(*args: Any, **kwargs: Any) -> Any:
            connection = take(REQUEST, HTTPConnection, signature, args, kwargs)
            response = take(RESPONSE, Response, signature, args, kwargs)
            if connection is None:
                raise TypeError("the endpoint was called without a request; put @limited under the route")
            decision = await dependency.decide(connection)
            result = await call(*args, **kwargs)
            answer = result if isinstance(result, Response) else response
            if decision is not None and answer is not None:
                add_headers(answer, decision)
            return result

        limited_endpoint.__signature__ = with_parameters(signature)  # type: ignore[attr-defined]
        return cast("F", limited_endpoint)

    return decorate


def install(
    app: Starlette,
    *,
    client: Tidegate | None = None,
    trusted_proxies: Iterable[str] | int = (),
    header: ForwardingHeader = "x-forwarded-for",
    ipv6_prefix: int = 56,
) -> None:
    """Sets up an app for `limit`, `limited` and `reserve`, in one call.

    It says which client they ask with and which proxies are believed, answers every `RateLimitExceeded` with
    the service's bytes, and adds headers to answers that an endpoint made itself.
    """
    app.add_middleware(_Installed, guard=Guard(client, ClientIp(trusted_proxies, header, ipv6_prefix)))
    app.add_exception_handler(RateLimitExceeded, rate_limit_handler)


async def rate_limit_handler(request: Request, error: Exception) -> Response:
    """Answers a `RateLimitExceeded` with what the service said, byte for byte."""
    if not isinstance(error, RateLimitExceeded):
        raise error
    decision = error.decision
    response = Response(decision.content, decision.status, media_type=decision.content_type)
    add_headers(response, decision)
    marks_of(request.scope).decision = decision
    return response


def add_headers(response: Response, decision: Decision) -> None:
    """Adds a decision's headers to an answer, unless it has them."""
    for name, value in decision.headers:
        response.headers.setdefault(name, value)


class _Installed:
    """Tells dependencies whom to ask, and adds headers where a dependency cannot."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self.app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            marks = marks_of(scope)
            marks.guard = self._guard
            send = _after(marks.before_answer, with_headers(send, lambda: marks.decision))
        await self.app(scope, receive, send)


def _after(acts: list[Callable[[], Awaitable[None]]], send: Send) -> Send:
    """Sends the answer once what has to come before it is done."""

    async def send_after(message: Message) -> None:
        if message["type"] == "http.response.start":
            for act in acts:
                await act()
        await send(message)

    return send_after


async def _denial(connection: HTTPConnection, decision: Decision) -> Exception:
    """What a dependency raises. Apps that `install` was not called for get the handler with their first.

    Starlette leaves its table of handlers in the scope. Where it does not, the denial is still an
    `HTTPException` of status 429. A websocket is accepted first, unless it is, so that its
    client is told the reason.
    """
    if isinstance(connection, WebSocket):
        if connection.application_state is WebSocketState.CONNECTING:
            await connection.accept(next(iter(connection.scope.get("subprotocols", ())), None))
        return WebSocketException(POLICY_VIOLATION, reason_of(decision))
    handlers = connection.scope.get("starlette.exception_handlers")
    if handlers:
        handlers[0].setdefault(RateLimitExceeded, rate_limit_handler)
    return HTTPRateLimitExceeded(decision)
