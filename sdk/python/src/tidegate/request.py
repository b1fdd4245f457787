"""A request as key, cost and skip functions see it, and what is noted about it on its way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from typing import Any, Protocol, TypeAlias
from urllib.parse import parse_qsl

from .decision import Decision
from .warnings import SPOOFABLE, handling, warn_once

Scope: TypeAlias = MutableMapping[str, Any]

_MARKS = "tidegate.marks"
_MOST_LAYERS = 64  # of middlewares around an app


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


class Request:
    """A request to an ASGI app, before the app has seen it. The body is not for reading here."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.method: str = scope["method"]
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


def route_of(scope: Scope, app: Any = None) -> str:
    """``METHOD template`` where the framework knows the template, else ``METHOD *``.

    Not the path: clients choose it, and each that nobody has heard of would have a limit of its own. ``app``
    is what a middleware stands around, which may have the routes.
    """
    template = _routed(scope)
    if template is None:
        routes = _routes(app) or getattr(scope.get("app"), "routes", ())
        template = _matching(routes, dict(scope))
        template = None if template is None else _mounted(scope) + template
    return f"{scope['method']} {'*' if template is None else template}"


def _routes(app: Any) -> Any:
    """The routes of an app, or of the one that the middlewares around it lead to."""
    for _ in range(_MOST_LAYERS):
        routes = getattr(app, "routes", None)
        if routes or app is None:
            return routes
        app = getattr(app, "app", None)
    return None


def _routed(scope: Scope) -> str | None:
    """The template of the route that was found; ``None`` before routing."""
    # FastAPI keeps the whole template of a route in an included router beside the route itself.
    context = scope.get("fastapi", {}).get("effective_route_context")
    route = scope.get("route")
    template = _template(context) or _template(route)
    # A mount is only half of the way.
    if template is None or (context is None and hasattr(route, "routes")):
        return None
    return _mounted(scope) + template


def _mounted(scope: Scope) -> str:
    """What an app is mounted under, which belongs to the template too."""
    root: str = scope.get("root_path", "")
    return root[len(scope.get("app_root_path", root)) :]


def _template(route: Any) -> str | None:
    for one in (getattr(route, "starlette_route", None), route):
        template = getattr(one, "path", None)
        if isinstance(template, str):
            return template
    return None


def _matching(routes: Any, scope: Scope) -> str | None:
    """The template of the route that will handle the request, as the router will find it."""
    for route in routes:
        # FastAPI's included routers have no path of their own.
        inside = getattr(route, "effective_route_contexts", None)
        for one in inside() if inside is not None else (route,):
            template = _template(one)
            matches = getattr(one, "matches", None)
            if template is None or matches is None:
                continue
            match, child = matches(scope)
            if getattr(match, "value", 0) == 2:  # a full one
                return _with_inner(one, template, {**scope, **child})
    return None


def _with_inner(route: Any, template: str, scope: Scope) -> str | None:
    routes = getattr(getattr(route, "starlette_route", None) or route, "routes", None)
    if not routes:
        return template
    below = _matching(routes, scope)
    return None if below is None else template + below
