"""A request as key, cost and skip functions get it, and what is stored about it while it is handled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from typing import Any, Protocol, TypeAlias
from urllib.parse import parse_qsl

from .decision import Decision
from .warnings import SPOOFABLE, note_request, warn_once

Scope: TypeAlias = MutableMapping[str, Any]

_STATE_KEY = "tidegate.request_state"


class RequestLike(Protocol):
    """A request that has a scope and headers: a `Request` of this package, or Starlette's."""

    @property
    def scope(self) -> Scope:
        """The ASGI scope."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers; names may be in any case."""


class Headers(Mapping[str, str]):
    """Headers of a request. Names may be in any case; of several lines with one name, the first counts."""

    def __init__(self, scope: Scope) -> None:
        self._pairs = header_pairs(scope)

    def __getitem__(self, name: str) -> str:
        name = name.lower()
        for found, value in self._pairs:
            if found == name:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self._pairs))

    def __len__(self) -> int:
        return len(dict(self._pairs))


def method_of(scope: Scope) -> str:
    """Returns the method, or ``WEBSOCKET`` for a websocket handshake."""
    method: str = scope["method"] if scope["type"] == "http" else "WEBSOCKET"
    return method


class Request:
    """A request as the functions of a `TidegateMiddleware` get it, before the app does.

    >>> def is_health_check(request: Request) -> bool:
    ...     return request.path == "/health"
    >>> app.add_middleware(TidegateMiddleware, limits="10/minute", skip=is_health_check)

    It has ``method``, ``path``, ``headers``, ``query_params`` and the ASGI ``scope``. The body is left to
    the app.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.method = method_of(scope)
        self.path: str = scope["path"]
        self.headers: Mapping[str, str] = Headers(scope)

    @property
    def query_params(self) -> dict[str, str]:
        """The parameters of the query string; of several with one name, the last."""
        return dict(parse_qsl(self.scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True))


class RequestState:
    """What middlewares and dependencies store about one request, so that they know of each other."""

    def __init__(self) -> None:
        self.charged: set[object] = set()
        """Counters that were charged so far."""
        self.decision: Decision | None = None
        """The last decision with headers, which is that of the innermost limiter: the response gets them."""
        self.added_headers: dict[str, str] = {}
        """Headers that limiters have set on the response; the innermost limiter may replace them."""
        self.decider: object | None = None
        self.before_response: list[Callable[[], Awaitable[None]]] = []
        """What has to be done before the response begins."""


def request_state_of(scope: Scope) -> RequestState:
    """Returns the state of a request; the first call creates it."""
    state = scope.get(_STATE_KEY)
    if not isinstance(state, RequestState):
        state = scope[_STATE_KEY] = RequestState()
    note_request(state)
    return state


def header_pairs(scope: Scope) -> list[tuple[str, str]]:
    """Returns the headers as strings, in order, with names in lower case."""
    return [
        (name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope.get("headers", ())
    ]


def by_header(name: str) -> Callable[[RequestLike], str | None]:
    """Returns a key function that limits by the value of a header.

    >>> limit("10/minute", key=by_header("x-api-key"))

    Requests without the header are limited by the address of the client.
    """
    if name.lower() in SPOOFABLE:
        warn_once("TIDEGATE_SPOOFABLE_KEY", name)

    def key(request: RequestLike) -> str | None:
        return request.headers.get(name) or None

    return key
