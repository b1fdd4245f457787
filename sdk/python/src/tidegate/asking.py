"""From a request to what is asked about it, for the middleware, the dependency and the decorator."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar, cast

from .ask import DEFAULT_DOMAIN, Ask, Descriptor, DescriptorLike, ask_of, cost_of
from .limits import LimitsLike, limits_of
from .request import RequestLike
from .scope import LimiterScope
from .value import sendable
from .warnings import look_at_key

R = TypeVar("R", bound=RequestLike)
T = TypeVar("T")

Maybe: TypeAlias = T | Awaitable[T]
Given: TypeAlias = T | Callable[[R], Maybe[T]]
"""A value, or a function of the request that gives it now or later."""

Descriptors: TypeAlias = DescriptorLike | Sequence[Descriptor]


class Asking(Generic[R]):
    """What to ask about a request.

    By default one descriptor, ``route`` (the scope) and ``client``, with the limits that were given; with
    ``descriptors`` these instead, and then the rules of the service apply.
    """

    def __init__(
        self,
        limits: Given[LimitsLike, R] | None,
        *,
        domain: str = DEFAULT_DOMAIN,
        name: str | None = None,
        key: Callable[[R], Maybe[str | None]] | None = None,
        cost: Given[int, R] = 1,
        skip: Callable[[R], Maybe[bool]] | None = None,
        descriptors: Given[Descriptors, R] | None = None,
        app: Any = None,
        eager: bool = False,
    ) -> None:
        if (limits is None) == (descriptors is None):
            raise TypeError(
                'give either limits, such as "10/minute", or descriptors that rules of the service are about'
            )
        if name is not None and descriptors is not None:
            raise TypeError("name is for limits in code; descriptors say themselves what is counted together")
        if not callable(limits) and limits is not None:
            limits = limits_of(limits)
        look_at_key(key)
        self._limits = limits
        self._domain = domain
        given = None if callable(limits) or limits is None else limits
        self._scope = LimiterScope(name, given, app=app, eager=eager and descriptors is None)
        self._key = key
        self._cost = cost if callable(cost) else cost_of(cost)
        self._skip = skip
        self._descriptors = descriptors

    async def ask(self, request: R, client_key: Callable[[], str], cost: int | None = None) -> Ask | None:
        """What to ask; ``None`` if the request is not limited. A cost that is known already goes first."""
        if self._skip is not None and await _value(self._skip, request):
            return None
        if cost is None:
            cost = cast("int", await _value(self._cost, request))
        if self._descriptors is not None:
            found: Descriptors = await _value(self._descriptors, request)
            clean = [_clean(one) for one in _several(found)]
            return ask_of(clean, domain=self._domain, limits=None, cost=cost)
        limits: LimitsLike = await _value(self._limits, request)
        key: str | None = await _value(self._key, request)
        entries = (
            ("route", self._scope.of(request.scope)),
            ("client", key or client_key()),
        )
        return ask_of([_clean(entries)], domain=self._domain, limits=limits, cost=cost)


def _clean(given: DescriptorLike) -> Descriptor:
    """With values that the service takes, whatever a client has sent."""
    one = given if isinstance(given, Descriptor) else Descriptor(given)
    entries = tuple((key, sendable(value)) for key, value in one.entries)
    return one if entries == one.entries else Descriptor(entries, limits=one.limits or None, cost=one.cost)


async def _value(given: Any, request: RequestLike) -> Any:
    """A value, or what a function says, whether it is async or not."""
    if not callable(given):
        return given
    said = given(request)
    return await said if inspect.isawaitable(said) else said


def _several(found: Descriptors) -> Sequence[DescriptorLike]:
    if isinstance(found, Sequence) and found and all(isinstance(one, Descriptor) for one in found):
        return cast("Sequence[Descriptor]", found)
    return [cast("DescriptorLike", found)]
