"""A request as key, cost and skip functions see it, and what is noted about it on its way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from typing import Any, Protocol, TypeAlias
from urllib.parse import parse_qsl

from .decision import Decision
from .warnings import SPOOFABLE, handling, warn_once

Scope: TypeAlias = MutableMapping[str, Any]

_MARKS = "tidegate.marks"


class RequestLike(Protocol):
    """What this package's own key functions need: a `Request` here, or Starlette's."""

    @property
    def scope(self) -> Scope:
        """The ASGI scope."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers, by their names in any case."""


class Headers(Mapping[str, str]):
    """Headers of a request, by their names in any case; of several lines the first."""

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
    """Returns the method, or ``WEBSOCKET`` for the handshake of one."""
    method: str = scope["method"] if scope["type"] == "http" else "WEBSOCKET"
    return method


class Request:
    """A request to an ASGI app, before the app has seen it. The body is not for reading here."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.method = method_of(scope)
        self.path: str = scope["path"]
        self.headers: Mapping[str, str] = Headers(scope)

    @property
    def query_params(self) -> dict[str, str]:
        """Parameters of the query; of several the last."""
        return dict(parse_qsl(self.scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True))


class Marks:
    """What is noted about one request, so that layers know of each other."""

    def __init__(self) -> None:
        self.charged: set[object] = set()
        self.decision: Decision | None = None
        self.guard: object | None = None
        self.before_answer: list[Callable[[], Awaitable[None]]] = []


def marks_of(scope: Scope) -> Marks:
    """The marks of a request, made by whoever looks first."""
    marks = scope.get(_MARKS)
    if not isinstance(marks, Marks):
        marks = scope[_MARKS] = Marks()
    handling(marks)
    return marks


def header_pairs(scope: Scope) -> list[tuple[str, str]]:
    """Headers as text, in order, their names in small letters."""
    return [
        (name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope.get("headers", ())
    ]


def by_header(name: str) -> Callable[[RequestLike], str | None]:
    """A key function: the value of a header, and the client's address where it is missing.

    >>> limit("10/minute", key=by_header("x-api-key"))
    """
    if name.lower() in SPOOFABLE:
        warn_once("TIDEGATE_SPOOFABLE_KEY", name)

    def key(request: RequestLike) -> str | None:
        return request.headers.get(name) or None

    return key
