"""The template of the route that handles a request, from Starlette and FastAPI. Never a raw path."""

from __future__ import annotations

from typing import Any

from .request import Scope, method_of

_MAX_LAYERS = 64  # middlewares around an app
_METHODS = frozenset(
    ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "QUERY", "WEBSOCKET")
)
_FULL = 2  # Starlette's value for a route that matches both the path and the method


def route_of(scope: Scope, app: Any = None) -> str | None:
    """Returns ``METHOD /template``; ``None`` if no route is known.

    The raw path is never used: clients choose it, so each new path would have a full limit. The template
    begins with those of the mounts around the route. ``app`` is the app that a middleware wraps, whose routes
    are searched if the request has not been routed yet.
    """
    matched = _matched_template(scope)
    if matched is not None and not _is_mounted(scope):
        template: str | None = matched
    else:
        template = _matching(_outermost_routes(scope, app), _unmounted(scope))
        if matched is not None and not (template or "").endswith(matched):
            # The app with the matched route does not expose its routes, or the path was rewritten.
            template = (template or "") + matched
    if template is None:
        return None
    # Some routes accept any method, and clients can invent methods.
    method = method_of(scope)
    return f"{method if method in _METHODS else 'OTHER'} {template}"


def _matched_template(scope: Scope) -> str | None:
    """Returns the template of the route that was matched, below all mounts; ``None`` before routing."""
    # FastAPI keeps the whole template of a route in an included router beside the route itself.
    context = scope.get("fastapi", {}).get("effective_route_context")
    route = scope.get("route")
    # A mount is not the route yet.
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
    """Returns the routes of the first router that saw the request, or of the app that a middleware wraps."""
    return getattr(scope.get("router"), "routes", None) or _routes(app) or _routes(scope.get("app")) or ()


def _routes(app: Any) -> Any:
    """Returns the routes of an app; middlewares around it are unwrapped."""
    for _ in range(_MAX_LAYERS):
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
    """Returns the template of the route that the router will choose for the request."""
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
