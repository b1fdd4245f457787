"""Warnings about likely mistakes, each logged once per process and beginning with a code."""

from __future__ import annotations

import contextvars
import logging
import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from .forks import renew_module_after_fork

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_log = logging.getLogger("tidegate")
_lock = threading.Lock()
_warned: set[str] = set()
_created: weakref.WeakSet[Any] = weakref.WeakSet()
"""Clients and middlewares that still exist."""
_wrapped: weakref.WeakSet[Any] = weakref.WeakSet()
"""Apps that a middleware was created around while a request was handled."""
_current_request: contextvars.ContextVar[weakref.ref[Any] | None] = contextvars.ContextVar(
    "tidegate_request", default=None
)

MAX_LIMITERS = 100
WITHIN_S = 60.0
_created_at: deque[float] = deque(maxlen=MAX_LIMITERS)
_now = time.monotonic

SPOOFABLE = frozenset(
    ("x-forwarded-for", "x-real-ip", "forwarded", "x-client-ip", "true-client-ip", "cf-connecting-ip")
)
"""Headers that any client can send."""

TEXTS = {
    "TIDEGATE_TRUST_ALL": (
        "trusted_proxies contains a network of all addresses, so any client can claim any address and escape "
        "its limit; list only the networks of your own proxies"
    ),
    "TIDEGATE_SPOOFABLE_KEY": (
        "the key is taken from the header {}, which any client can send, so a client escapes its limit by "
        "sending another value; remove the key and set trusted_proxies, so that only your own proxies are "
        "believed about the address of the client"
    ),
    "TIDEGATE_DOUBLE_COUNT": (
        "one request was charged twice to the same counter ({}), so clients reach the limit at half of it; "
        "look for a middleware that is added twice, or a dependency with the same limit as the middleware, "
        "and give limiters that should count separately a name each"
    ),
    "TIDEGATE_UNNAMED_TWIN": (
        "several limiters have the same limits and neither a name nor a route, so only the order in which "
        "they are created tells their counters apart; give each limiter a name"
    ),
    "TIDEGATE_NO_ADDRESS": (
        "the connection has no client address (it may be a Unix socket), so all clients share one counter; "
        "behind a proxy set trusted_proxies=1, which takes the last hop of X-Forwarded-For, or set a key"
    ),
    "TIDEGATE_LIMITER_PER_REQUEST": (
        "{}; each has its own connections, batches and local counters, so checks are not batched and local "
        "counters start from zero; create it once when the application starts"
    ),
    "TIDEGATE_IPV6_UNGROUPED": (
        "ipv6_prefix is {}, but one customer usually has a whole /56 or /64 and can use a new address for "
        "every request; set ipv6_prefix to 64 or less"
    ),
}


def warn_once(code: str, about: object = "") -> None:
    """Logs a warning, unless it was logged before. ``about`` is the value that it names."""
    with _lock:
        if code in _warned:
            return
        _warned.add(code)
    _log.warning("%s: %s", code, TEXTS[code].format(about))


def note_request(state: object) -> None:
    """Notes that a request is being handled from here on, for as long as its state exists."""
    _current_request.set(weakref.ref(state))


def note_created(created: object, around: object = None) -> None:
    """Warns if a client, or a middleware ``around`` an app, is created again and again.

    Frameworks create the middlewares of a mounted app with the first request to it. So within requests, only
    another middleware around the same app is a mistake.
    """
    _created.add(created)
    name = type(created).__name__
    now = _now()
    with _lock:
        # Those that were dropped at once count, too: each had connections of its own.
        often = len(_created_at) == MAX_LIMITERS and now - _created_at[0] < WITHIN_S
        _created_at.append(now)
    if is_within_request() and (around is None or _is_wrapped(around)):
        warn_once("TIDEGATE_LIMITER_PER_REQUEST", f"a {name} was created while a request was handled")
    elif len(_created) > MAX_LIMITERS:
        warn_once("TIDEGATE_LIMITER_PER_REQUEST", f"more than {MAX_LIMITERS} clients and middlewares exist")
    elif often:
        warn_once(
            "TIDEGATE_LIMITER_PER_REQUEST",
            f"more than {MAX_LIMITERS} clients and middlewares were created within a minute",
        )


def _is_wrapped(app: object) -> bool:
    """Returns whether it was called with this app before."""
    try:
        known = app in _wrapped
        _wrapped.add(app)
    except TypeError:  # the app has no hash, or cannot be referenced weakly
        return False
    return known


def note_limit_created() -> None:
    """Warns if a dependency or decorator is created within a request; there may be many of them otherwise."""
    if is_within_request():
        warn_once("TIDEGATE_LIMITER_PER_REQUEST", "a limit was created while a request was handled")


def is_within_request() -> bool:
    """Returns whether this code runs while a request is handled."""
    state = _current_request.get()
    return state is not None and state() is not None


def warn_if_spoofable(key: Callable[..., object] | None) -> None:
    """Warns if the code of a key function names a header that any client can send."""
    code = getattr(key, "__code__", None)
    for name in _texts(getattr(code, "co_consts", ())):
        if name.lower() in SPOOFABLE:
            warn_once("TIDEGATE_SPOOFABLE_KEY", name)


def _texts(constants: Iterable[object]) -> Iterable[str]:
    for constant in constants:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, tuple):
            yield from _texts(constant)


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


renew_module_after_fork(_after_fork)


def reset() -> None:
    """Makes every warning appear again, for tests."""
    with _lock:
        _warned.clear()
        _created_at.clear()
    _created.clear()
    _wrapped.clear()
    _current_request.set(None)
