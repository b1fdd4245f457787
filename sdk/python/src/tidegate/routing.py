"""The template of the route that handles a request, as Starlette and FastAPI know it. Never a raw path."""

from __future__ import annotations

from typing import Any

from .request import Scope, method_of

_MOST_LAYERS = 64  # of middlewares around an app
_METHODS = frozenset(
    ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "QUERY", "WEBSOCKET")
)
_FULL = 2  # a route that matches path and method; half a match is one of the path alone


def route_of(scope: Scope, app: Any = None) -> str | None:
    """Returns ``METHOD /template``; ``None`` if no route is known.

    Clients choose the path, so each path that nobody has heard of would have a limit of its own. Mounts
    belong to the template with their parameters' names. ``app`` is what a middleware stands around, which
    may have the routes.
    """
    routed = _routed(scope)
    if routed is not None and not _is_mounted(scope):
        template: str | None = routed
    else:
        template = _matching(_outermost_routes(scope, app), _unmounted(scope))
        if routed is not None and not (template or "").endswith(routed):
            # The app that the route was found in does not show its routes, or somebody rewrote the path.
            template = (template or "") + routed
    if template is None:
        return None
    # Some routes take any method, and clients can make up as many as they like.
    method = method_of(scope)
    return f"{method if method in _METHODS else 'OTHER'} {template}"


def _routed(scope: Scope) -> str | None:
    """Returns the template of the route that was found, below all mounts; ``None`` before routing."""
    # FastAPI keeps the whole template of a route in an included router beside the route itself.
    context = scope.get("fastapi", {}).get("effective_route_context")
    route = scope.get("route")
    # A mount is only half of the way.
    if context is None and hasattr(route, "routes"):
        return None
    return _template(context) or _template(route)


def _is_mounted(scope: Scope) -> bool:
    root: str = scope.get("root_path", "")
    return bool(root != scope.get("app_root_path", root))


def _unmounted(scope: Scope) -> Scope:
    """Returns the request as the outermost router saw it."""
    return {**scope, "root_path": scope.get("app_root_path", scope.get("root_path", "")), "path_params": {}}


def _outermost_routes(scope: Scope, app: Any) -> Any:
    """Returns the routes of the first router on the way, or of the app that a middleware stands around."""
    return getattr(scope.get("router"), "routes", None) or _routes(app) or _routes(scope.get("app")) or ()


def _routes(app: Any) -> Any:
    """Returns the routes of an app, or of the one that the middlewares around it lead to."""
    for _ in range(_MOST_LAYERS):
        routes = getattr(app, "routes", None)
        if routes or app is None:
            return routes
        app = getattr(app, "app", None)
    return None


def _template(route: Any) -> str | None:
    for one in (getattr(route, "starlette_route", None), route):
        template = getattr(one, "path", None)
        if isinstance(template, str):
            return template
    # A route by host has no path of its own.
    return "" if isinstance(getattr(route, "host", None), str) and hasattr(route, "routes") else None


def _matching(routes: Any, scope: Scope) -> str | None:
    """Returns the template of the route that will handle the request, as the router will find it."""
    for route in routes:
        # FastAPI's included routers have no path of their own.
        inside = getattr(route, "effective_route_contexts", None)
        for one in inside() if inside is not None else (route,):
            template = _template(one)
            matches = getattr(one, "matches", None)
            if template is None or matches is None:
                continue
            match, child = matches(scope)
            if getattr(match, "value", 0) == _FULL:
                return _with_inner(one, template, {**scope, **child})
    return None


def _with_inner(route: Any, template: str, scope: Scope) -> str | None:
    """Returns the template with that of the route inside a mount; ``None`` if nothing there matches."""
    mount = getattr(route, "starlette_route", None) or route
    routes = getattr(mount, "routes", None) or _routes(getattr(mount, "app", None))
    if not routes:
        return template
    below = _matching(routes, scope)
    return None if below is None else template + below
