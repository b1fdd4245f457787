"""Mistakes that are worth a line in the log, once per process; each text begins with a code."""

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
_given: set[str] = set()
_made: weakref.WeakSet[Any] = weakref.WeakSet()
_wrapped: weakref.WeakSet[Any] = weakref.WeakSet()
"""Apps that a middleware was created around while a request was handled."""
_handled: contextvars.ContextVar[weakref.ref[Any] | None] = contextvars.ContextVar(
    "tidegate_request", default=None
)

MOST_LIMITERS = 100
WITHIN_S = 60.0
_made_at: deque[float] = deque(maxlen=MOST_LIMITERS)
_now = time.monotonic

SPOOFABLE = frozenset(
    ("x-forwarded-for", "x-real-ip", "forwarded", "x-client-ip", "true-client-ip", "cf-connecting-ip")
)
"""Headers that any client can write."""

TEXTS = {
    "TIDEGATE_TRUST_ALL": (
        "trusted_proxies has a network of all addresses, so every client can claim any address and escape "
        "its limit; name the networks of your own proxies instead"
    ),
    "TIDEGATE_SPOOFABLE_KEY": (
        "the key is taken from the header {}, which any client can write, so a client escapes its limit by "
        "sending another value; leave the key out and set trusted_proxies, and the client's address is found "
        "safely"
    ),
    "TIDEGATE_DOUBLE_COUNT": (
        "one request was charged twice to the same counter ({}), so clients get half of what you mean; see "
        "whether the middleware is added twice, or stands beside a dependency with the same limit, and give "
        "limiters that are to count apart a name"
    ),
    "TIDEGATE_UNNAMED_TWIN": (
        "several limiters have the same limits and neither a name nor a route, so only the order in which "
        "they are created tells their counters apart; give each a name"
    ),
    "TIDEGATE_NO_ADDRESS": (
        "the connection has no address (a Unix socket, say), so all clients share one counter; say which "
        "proxies stand in between (trusted_proxies=1 takes the last hop of X-Forwarded-For), or give a key"
    ),
    "TIDEGATE_LIMITER_PER_REQUEST": (
        "{}; each has connections, a fallback and batches of its own, so none of them works as it should; "
        "create it once when the application starts"
    ),
    "TIDEGATE_IPV6_UNGROUPED": (
        "ipv6_prefix is {}, but a single customer usually has a whole /56 or /64 and can take a new address "
        "for every request; set ipv6_prefix to 64 or less"
    ),
}


def warn_once(code: str, about: object = "") -> None:
    """Tells of a mistake, unless it has been told."""
    with _lock:
        if code in _given:
            return
        _given.add(code)
    _log.warning("%s: %s", code, TEXTS[code].format(about))


def handling(marks: object) -> None:
    """A request is being handled from here on, for as long as its marks live."""
    _handled.set(weakref.ref(marks))


def made(what: object, around: object = None) -> None:
    """A client was created, or a middleware ``around`` an app.

    Frameworks create the middlewares of a mounted app with the first request to it. So within requests, only
    another middleware around the same app is a mistake.
    """
    _made.add(what)
    name = type(what).__name__
    now = _now()
    with _lock:
        # Those that were dropped at once count too: they had connections of their own all the same.
        often = len(_made_at) == MOST_LIMITERS and now - _made_at[0] < WITHIN_S
        _made_at.append(now)
    if is_handling() and (around is None or _is_wrapped(around)):
        warn_once("TIDEGATE_LIMITER_PER_REQUEST", f"a {name} was created while a request was handled")
    elif len(_made) > MOST_LIMITERS:
        warn_once("TIDEGATE_LIMITER_PER_REQUEST", f"more than {MOST_LIMITERS} clients and middlewares exist")
    elif often:
        warn_once(
            "TIDEGATE_LIMITER_PER_REQUEST",
            f"more than {MOST_LIMITERS} clients and middlewares were created within a minute",
        )


def _is_wrapped(app: object) -> bool:
    """Returns whether it was called with this app before."""
    try:
        known = app in _wrapped
        _wrapped.add(app)
    except TypeError:  # without a hash or weak references nothing is known of it
        return False
    return known


def made_limit() -> None:
    """A dependency or decorator was created; there may be many, but not within a request."""
    if is_handling():
        warn_once("TIDEGATE_LIMITER_PER_REQUEST", "a limit was created while a request was handled")


def is_handling() -> bool:
    """Whether this runs within a request."""
    marks = _handled.get()
    return marks is not None and marks() is not None


def look_at_key(key: Callable[..., object] | None) -> None:
    """Warns if a key function names a header that any client can write."""
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


def forget() -> None:
    """Tells everything anew, for tests."""
    with _lock:
        _given.clear()
        _made_at.clear()
    _made.clear()
    _wrapped.clear()
    _handled.set(None)
