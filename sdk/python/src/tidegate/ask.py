"""What is asked of the service: descriptors, and what they cost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from .limits import MAX_COUNT, Limit, LimitsLike, limits_of

Entries: TypeAlias = Mapping[str, str] | Sequence[tuple[str, str]]
"""Entries of a descriptor, in order. Pairs may have the same key twice."""

DEFAULT_DOMAIN = "apps"
"""The domain of the quickstart rules that lets requests bring limits of their own."""


def cost_of(cost: int) -> int:
    """A cost as it is charged: what is more than every language holds exactly counts as the most of it."""
    if not isinstance(cost, int) or isinstance(cost, bool) or cost < 0:
        raise ValueError(f"a cost must be a whole number from 0 on, got {cost!r}")
    return min(cost, MAX_COUNT)


@dataclass(frozen=True, slots=True, init=False)
class Descriptor:
    """One aspect of a request, with limits or a cost of its own if need be.

    >>> Descriptor({"user": "bob", "endpoint": "POST /orders"}, cost=2)
    """

    entries: tuple[tuple[str, str], ...]
    limits: tuple[Limit, ...]
    cost: int | None

    def __init__(
        self, entries: Entries, *, limits: LimitsLike | None = None, cost: int | None = None
    ) -> None:
        pairs = entries.items() if isinstance(entries, Mapping) else entries
        object.__setattr__(self, "entries", tuple((key, value) for key, value in pairs))
        object.__setattr__(self, "limits", limits_of(limits))
        object.__setattr__(self, "cost", None if cost is None else cost_of(cost))
        for key, value in self.entries:
            if not isinstance(key, str) or not isinstance(value, str):
                raise TypeError(f"entries of a descriptor are texts, got {key!r}: {value!r}; use str()")

    def to_json(self) -> dict[str, Any]:
        """As the service takes it."""
        members: dict[str, Any] = {"entries": [{"key": key, "value": value} for key, value in self.entries]}
        if self.limits:
            members["limits"] = [limit.to_json() for limit in self.limits]
        if self.cost is not None:
            members["cost"] = self.cost
        return members


DescriptorLike: TypeAlias = Descriptor | Entries
"""A descriptor, or its entries."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request to decide."""

    domain: str
    descriptors: tuple[Descriptor, ...]
    cost: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "cost", cost_of(self.cost))

    def to_json(self) -> dict[str, Any]:
        """As the service takes it."""
        descriptors = [descriptor.to_json() for descriptor in self.descriptors]
        members: dict[str, Any] = {"domain": self.domain, "descriptors": descriptors}
        if self.cost != 1:
            members["cost"] = self.cost
        return members

    def message(self, **more: Any) -> bytes:
        """The body of a request, with further members."""
        return encode(self.to_json() | more)


def ask_of(
    descriptors: Sequence[DescriptorLike], *, domain: str, limits: LimitsLike | None, cost: int
) -> Ask:
    """Puts together what callers give; limits are for descriptors that have none of their own."""
    if not descriptors:
        raise TypeError('give at least one descriptor, such as {"user": "ann"}')
    shared = limits_of(limits)
    return Ask(domain, tuple(_with_limits(one, shared) for one in descriptors), cost)


def _with_limits(one: DescriptorLike, limits: tuple[Limit, ...]) -> Descriptor:
    if not isinstance(one, Descriptor):
        return Descriptor(one, limits=limits or None)
    return Descriptor(one.entries, limits=limits, cost=one.cost) if limits and not one.limits else one


# ASCII only, so that even half a surrogate can be sent (and refused).
_ENCODER = json.JSONEncoder(separators=(",", ":"))


def encode(members: Any) -> bytes:
    """JSON without spaces."""
    return _ENCODER.encode(members).encode("ascii")
