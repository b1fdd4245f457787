"""Dependencies and a decorator for FastAPI and Starlette.

>>> @app.get("/search", dependencies=[Depends(limit("10/minute;200/hour"))])
... async def search(q: str): ...

`limit` and `reserve` are dependencies of FastAPI; `limited` is a decorator for both frameworks; `install`
sets the client and the trusted proxies of an app.
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

from .asgi import POLICY_VIOLATION, ASGIApp, Message, Receive, Send, close_reason, with_headers
from .check_body import DEFAULT_DOMAIN
from .check_builder import CheckBuilder, Descriptors, MaybeAwaitable, ValueOrFunction
from .client import Tidegate
from .client_ip import ClientIp, ForwardingHeader
from .decider import Decider, decider_of
from .decision import Decision
from .endpoint import REQUEST, RESPONSE, pop_argument, resolved_signature, run_in_thread, with_parameters
from .errors import RateLimitExceeded
from .estimate import OnError, checked_on_error
from .limits import LimitsLike
from .request import Scope, request_state_of
from .reservation import Reservation
from .warnings import note_limit_created

__all__ = ["install", "limit", "limited", "rate_limit_handler", "reserve"]

F = TypeVar("F", bound=Callable[..., Any])

_COST = "tidegate_cost"


class HTTPRateLimitExceeded(RateLimitExceeded, HTTPException):
    """A denial that FastAPI and Starlette render as status 429, even without an exception handler."""

    def __init__(self, decision: Decision) -> None:
        RateLimitExceeded.__init__(self, decision)
        self.status_code = decision.status
        self.detail = decision.detail
        self.headers = dict(decision.headers)


class limit:  # noqa: N801 - it is called like a function
    """A FastAPI dependency that limits an endpoint: returns the `Decision`, or raises `RateLimitExceeded`.

    >>> @app.get("/items/{id}", dependencies=[Depends(limit("10/minute", cost=2))])
    ... async def item(id: int): ...

    >>> @app.get("/search")
    ... async def search(decision: Annotated[Decision, Depends(limit("10/minute"))]): ...

    ``limits`` is a text such as ``"10/minute;200/hour"``, a `Limit`, a list of them, or a function of the
    request. Clients are told apart by address, or by ``key``, a function of the request such as
    ``by_header("x-api-key")``. Each endpoint has its own counters; endpoints whose limits have the same
    ``name`` share them. Requests for which ``skip`` returns true are not limited. With ``descriptors`` in
    place of ``limits``, the rules of ``domain`` in the service apply. It works for websockets, too.
    """

    def __init__(
        self,
        limits: ValueOrFunction[LimitsLike, Request] | None = None,
        *,
        cost: ValueOrFunction[int, Request] = 1,
        key: Callable[[Request], MaybeAwaitable[str | None]] | None = None,
        name: str | None = None,
        domain: str = DEFAULT_DOMAIN,
        descriptors: ValueOrFunction[Descriptors, Request] | None = None,
        skip: Callable[[Request], MaybeAwaitable[bool]] | None = None,
        client: Tidegate | None = None,
    ) -> None:
        self._builder = CheckBuilder(
            limits, domain=domain, name=name, key=key, cost=cost, skip=skip, descriptors=descriptors
        )
        self._client = client
        note_limit_created()

    async def __call__(self, connection: HTTPConnection, response: Response) -> Decision | None:
        """Decides a request or websocket; FastAPI calls it."""
        decision = await self.decide(connection)
        add_headers(response, connection.scope)
        return decision

    async def decide(self, connection: HTTPConnection) -> Decision | None:
        """Returns the decision if the request may pass, or ``None`` if it is skipped; raises on a denial."""
        # Functions of the app get the request or the websocket itself.
        request = cast("Request", connection)
        decision = await decider_of(request.scope).decide(self._builder, request, self._client)
        if decision is not None and not decision.allowed:
            raise await _denial(connection, decision)
        return decision


class reserve:  # noqa: N801 - it is called like a function
    """A FastAPI dependency that charges an estimate: returns a `Reservation`, or raises `RateLimitExceeded`.

    >>> def max_tokens(prompt: Prompt) -> int:
    ...     return prompt.max_tokens
    >>> tokens = reserve("100_000/hour", cost=Depends(max_tokens), key=by_header("x-api-key"))
    >>> @app.post("/complete")
    ... async def complete(prompt: Prompt, reservation: Annotated[Reservation, Depends(tokens)]):
    ...     completion = await model(prompt)
    ...     reservation.settle(completion.tokens)

    ``cost`` is the estimate: a number, a function of the request, or a ``Depends``. With ``Depends``, FastAPI
    validates the request first, so that invalid requests charge nothing. An endpoint that does not settle
    leaves the estimate charged, and so does settling later than ``ttl`` seconds. An exception settles 0, or
    keeps the estimate with ``on_error="keep"``. After `install`, the cost is settled before the response
    begins. The other options are those of `limit`.
    """

    __signature__: inspect.Signature

    def __init__(
        self,
        limits: ValueOrFunction[LimitsLike, Request] | None = None,
        *,
        cost: ValueOrFunction[int, Request],
        key: Callable[[Request], MaybeAwaitable[str | None]] | None = None,
        name: str | None = None,
        domain: str = DEFAULT_DOMAIN,
        descriptors: ValueOrFunction[Descriptors, Request] | None = None,
        skip: Callable[[Request], MaybeAwaitable[bool]] | None = None,
        ttl: float = 60.0,
        on_error: OnError = "refund",
        client: Tidegate | None = None,
    ) -> None:
        parameters = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind)
            for name, kind in (("connection", HTTPConnection), ("response", Response))
        ]
        if hasattr(cost, "dependency"):  # a Depends, which FastAPI resolves
            parameters.append(
                inspect.Parameter(_COST, inspect.Parameter.KEYWORD_ONLY, default=cost, annotation=int)
            )
            cost = 1
        self.__signature__ = inspect.Signature(parameters)
        self._builder = CheckBuilder(
            limits, domain=domain, name=name, key=key, cost=cost, skip=skip, descriptors=descriptors
        )
        self._client = client
        self._ttl_s = ttl
        self._on_error = checked_on_error(on_error)
        note_limit_created()

    async def __call__(
        self, connection: HTTPConnection, response: Response, **given: int
    ) -> AsyncGenerator[Reservation, None]:
        """Reserves for a request or websocket; FastAPI calls it."""
        reserving = decider_of(connection.scope).reserve(
            self._builder,
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
            add_headers(response, connection.scope)
            yield reservation


def limited(
    limits: ValueOrFunction[LimitsLike, Request] | None = None,
    *,
    cost: ValueOrFunction[int, Request] = 1,
    key: Callable[[Request], MaybeAwaitable[str | None]] | None = None,
    name: str | None = None,
    domain: str = DEFAULT_DOMAIN,
    descriptors: ValueOrFunction[Descriptors, Request] | None = None,
    skip: Callable[[Request], MaybeAwaitable[bool]] | None = None,
    client: Tidegate | None = None,
) -> Callable[[F], F]:
    """Returns a decorator that limits an endpoint of Starlette or FastAPI, with the options of `limit`.

    >>> @app.get("/search")
    ... @limited("10/minute")
    ... async def search(q: str): ...

    Put it below the route decorator. The endpoint may be sync or async, and needs no request parameter.
    With several decorators, a request must be within all of their limits.
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
        call = endpoint if inspect.iscoroutinefunction(endpoint) else run_in_thread(endpoint)

        @functools.wraps(endpoint)
        async def limited_endpoint(*args: Any, **kwargs: Any) -> Any:
            connection = pop_argument(REQUEST, HTTPConnection, signature, args, kwargs)
            response = pop_argument(RESPONSE, Response, signature, args, kwargs)
            if connection is None:
                raise TypeError(
                    "the endpoint was called without a request; put @limited below the route decorator"
                )
            await dependency.decide(connection)
            result = await call(*args, **kwargs)
            final = result if isinstance(result, Response) else response
            if final is not None:
                add_headers(final, connection.scope)
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
    """Sets up an app for `limit`, `limited` and `reserve`.

    >>> install(app, client=Tidegate("http://tidegate:8080"), trusted_proxies=["10.0.0.0/8"])

    They then use this client, and trust these proxies to state the address of the client. Every
    `RateLimitExceeded` is rendered as the service rendered it, and responses that an endpoint creates itself
    get the headers, too. ``trusted_proxies`` is a list of networks, or the number of proxies in front of the
    app; see `ClientIp` for ``header`` and ``ipv6_prefix``.
    """
    decider = Decider(client, ClientIp(trusted_proxies, header, ipv6_prefix))
    app.add_middleware(_InstalledMiddleware, decider=decider)
    app.add_exception_handler(RateLimitExceeded, rate_limit_handler)


async def rate_limit_handler(request: Request, error: Exception) -> Response:
    """Returns the response to a `RateLimitExceeded`, as the service rendered it.

    >>> app.add_exception_handler(RateLimitExceeded, rate_limit_handler)

    `install` adds it.
    """
    if not isinstance(error, RateLimitExceeded):
        raise error
    decision = error.decision
    response = Response(decision.content, decision.status, media_type=decision.content_type)
    request_state_of(request.scope).decision = decision
    add_headers(response, request.scope)
    return response


def add_headers(response: Response, scope: Scope) -> None:
    """Adds the headers of the innermost limiter to a response, except those that the app has set."""
    state = request_state_of(scope)
    for name, value in state.decision.headers if state.decision is not None else ():
        if response.headers.get(name) in (None, state.added_headers.get(name)):
            response.headers[name] = value
            state.added_headers[name] = value


class _InstalledMiddleware:
    """Stores the decider of the app for its dependencies, and adds headers where a dependency cannot."""

    def __init__(self, app: ASGIApp, decider: Decider) -> None:
        self.app = app
        self._decider = decider

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            state = request_state_of(scope)
            state.decider = self._decider
            send = _after(state.before_response, with_headers(send, lambda: state.decision))
        await self.app(scope, receive, send)


def _after(actions: list[Callable[[], Awaitable[None]]], send: Send) -> Send:
    """Returns a ``send`` that performs the actions before the response begins."""

    async def send_after(message: Message) -> None:
        if message["type"] == "http.response.start":
            for action in actions:
                await action()
        await send(message)

    return send_after


async def _denial(connection: HTTPConnection, decision: Decision) -> Exception:
    """Returns the exception that a dependency raises on a denial.

    An app without `install` gets the exception handler here: Starlette keeps its table of handlers in the
    scope. Where it does not, the denial is still an `HTTPException` of status 429. A websocket is accepted
    first, because only then its client receives the reason.
    """
    if isinstance(connection, WebSocket):
        if connection.application_state is WebSocketState.CONNECTING:
            await connection.accept(next(iter(connection.scope.get("subprotocols", ())), None))
        return WebSocketException(POLICY_VIOLATION, close_reason(decision))
    handlers = connection.scope.get("starlette.exception_handlers")
    if handlers:
        handlers[0].setdefault(RateLimitExceeded, rate_limit_handler)
    return HTTPRateLimitExceeded(decision)
