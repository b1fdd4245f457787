"""Builds the check of an app's request, for the middleware, the dependency and the decorator."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar, cast

from .check_body import DEFAULT_DOMAIN, CheckBody, Descriptor, DescriptorLike, checked_cost, make_check_body
from .limits import LimitsLike, limits_of
from .request import RequestLike
from .scope import LimiterScope
from .value import sanitize_value
from .warnings import warn_if_spoofable

R = TypeVar("R", bound=RequestLike)
T = TypeVar("T")

MaybeAwaitable: TypeAlias = T | Awaitable[T]
"""The result of a function that may be async."""
ValueOrFunction: TypeAlias = T | Callable[[R], MaybeAwaitable[T]]
"""A value, or a function of the request that returns it; the function may be async."""

Descriptors: TypeAlias = DescriptorLike | Sequence[Descriptor]


class CheckBuilder(Generic[R]):
    """Builds the check of each request from the options of one limiter.

    With ``limits`` the check has one descriptor, whose entries are ``route`` (the limiter's scope) and
    ``client`` (the key), and the limits. With ``descriptors`` it has those, and the rules of the service
    apply.
    """

    def __init__(
        self,
        limits: ValueOrFunction[LimitsLike, R] | None,
        *,
        domain: str = DEFAULT_DOMAIN,
        name: str | None = None,
        key: Callable[[R], MaybeAwaitable[str | None]] | None = None,
        cost: ValueOrFunction[int, R] = 1,
        skip: Callable[[R], MaybeAwaitable[bool]] | None = None,
        descriptors: ValueOrFunction[Descriptors, R] | None = None,
        app: Any = None,
        eager: bool = False,
    ) -> None:
        if (limits is None) == (descriptors is None):
            raise TypeError(
                'give either limits, such as "10/minute", or descriptors that the rules of the service match'
            )
        if name is not None and descriptors is not None:
            raise TypeError("name is for limits in code; leave it out, the descriptors tell counters apart")
        if not callable(limits) and limits is not None:
            limits = limits_of(limits)
        warn_if_spoofable(key)
        self._limits = limits
        self._domain = domain
        fixed = None if callable(limits) or limits is None else limits
        self._scope = LimiterScope(name, fixed, app=app, eager=eager and descriptors is None)
        self._key = key
        self._cost = cost if callable(cost) else checked_cost(cost)
        self._skip = skip
        self._descriptors = descriptors

    async def build(
        self, request: R, client_key: Callable[[], str], cost: int | None = None
    ) -> CheckBody | None:
        """Returns the check of a request; ``None`` if the request is skipped.

        ``client_key`` is called if there is no other key. ``cost`` replaces the limiter's own.
        """
        if self._skip is not None and await _resolve(self._skip, request):
            return None
        if cost is None:
            cost = cast("int", await _resolve(self._cost, request))
        if self._descriptors is not None:
            descriptors: Descriptors = await _resolve(self._descriptors, request)
            sanitized = [_sanitize(descriptor) for descriptor in _as_list(descriptors)]
            return make_check_body(sanitized, domain=self._domain, limits=None, cost=cost)
        limits: LimitsLike = await _resolve(self._limits, request)
        key: str | None = await _resolve(self._key, request)
        entries = (
            ("route", self._scope.route_of(request.scope)),
            ("client", key or client_key()),
        )
        return make_check_body([_sanitize(entries)], domain=self._domain, limits=limits, cost=cost)


def _sanitize(like: DescriptorLike) -> Descriptor:
    """Returns a descriptor whose values the service accepts, whatever a client has sent."""
    descriptor = like if isinstance(like, Descriptor) else Descriptor(like)
    entries = tuple((key, sanitize_value(value)) for key, value in descriptor.entries)
    if entries == descriptor.entries:
        return descriptor
    return Descriptor(entries, limits=descriptor.limits or None, cost=descriptor.cost)


async def _resolve(option: Any, request: RequestLike) -> Any:
    """Returns the value of an option, which may be a function of the request, async or not."""
    if not callable(option):
        return option
    value = option(request)
    return await value if inspect.isawaitable(value) else value


def _as_list(descriptors: Descriptors) -> Sequence[DescriptorLike]:
    # An empty list is one descriptor without entries, which the service refuses with a reason.
    if isinstance(descriptors, Sequence) and descriptors and isinstance(descriptors[0], Descriptor):
        return cast("Sequence[Descriptor]", descriptors)
    return [cast("DescriptorLike", descriptors)]
