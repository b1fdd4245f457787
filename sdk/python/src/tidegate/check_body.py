"""The body of a check: descriptors, their limits and their cost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from .limits import MAX_COUNT, Limit, LimitsLike, limits_of

Entries: TypeAlias = Mapping[str, str] | Sequence[tuple[str, str]]
"""Entries of a descriptor, in order. A list of pairs may have the same key twice."""

DEFAULT_DOMAIN = "apps"
"""The rule domain for limits in code. A service without rules has it built in; `tidegate init` writes it."""


def checked_cost(cost: int) -> int:
    """Returns a cost as it is sent, at most 2^53; raises `ValueError` unless it is a whole number >= 0."""
    if not isinstance(cost, int) or isinstance(cost, bool) or cost < 0:
        raise ValueError(f"a cost must be a whole number, 0 or more, got {cost!r}")
    return min(cost, MAX_COUNT)


@dataclass(frozen=True, slots=True, init=False)
class Descriptor:
    """Ordered ``key=value`` entries that describe one aspect of a request.

    >>> orders = Descriptor({"user": "bob", "endpoint": "POST /orders"}, limits="10/minute", cost=2)
    >>> decision = await client.check(orders, {"user": "bob"}, limits="100/minute")

    Where a check has several descriptors, each may have ``limits`` and a ``cost`` of its own. Without them,
    those of the check apply. A plain dict stands for a descriptor that has neither.
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
        object.__setattr__(self, "cost", None if cost is None else checked_cost(cost))
        for key, value in self.entries:
            if not isinstance(key, str) or not isinstance(value, str):
                raise TypeError(f"entries of a descriptor must be strings, got {key!r}: {value!r}; use str()")

    def to_json(self) -> dict[str, Any]:
        """Returns the descriptor as the service expects it in JSON."""
        members: dict[str, Any] = {"entries": [{"key": key, "value": value} for key, value in self.entries]}
        if self.limits:
            members["limits"] = [limit.to_json() for limit in self.limits]
        if self.cost is not None:
            members["cost"] = self.cost
        return members


DescriptorLike: TypeAlias = Descriptor | Entries
"""A descriptor, or only its entries."""


@dataclass(frozen=True, slots=True)
class CheckBody:
    """One check, as it is sent to the service and as the fallback counts it."""

    domain: str
    descriptors: tuple[Descriptor, ...]
    cost: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "cost", checked_cost(self.cost))

    def to_json(self) -> dict[str, Any]:
        """Returns the check as the service expects it in JSON."""
        descriptors = [descriptor.to_json() for descriptor in self.descriptors]
        members: dict[str, Any] = {"domain": self.domain, "descriptors": descriptors}
        if self.cost != 1:
            members["cost"] = self.cost
        return members

    def encode(self, **more: Any) -> bytes:
        """Returns the body of a request as bytes, with further members."""
        return encode_json(self.to_json() | more)


def make_check_body(
    descriptors: Sequence[DescriptorLike], *, domain: str, limits: LimitsLike | None, cost: int
) -> CheckBody:
    """Returns a check of these descriptors; ``limits`` are for those that have none of their own."""
    if not descriptors:
        raise TypeError('give at least one descriptor, such as {"user": "ann"}')
    shared = limits_of(limits)
    return CheckBody(domain, tuple(_with_limits(descriptor, shared) for descriptor in descriptors), cost)


def _with_limits(descriptor: DescriptorLike, limits: tuple[Limit, ...]) -> Descriptor:
    if not isinstance(descriptor, Descriptor):
        return Descriptor(descriptor, limits=limits or None)
    if not limits or descriptor.limits:
        return descriptor
    return Descriptor(descriptor.entries, limits=limits, cost=descriptor.cost)


# ASCII only, so that even half of a surrogate pair can be sent (and is refused by the service).
_ENCODER = json.JSONEncoder(separators=(",", ":"))


def encode_json(members: Any) -> bytes:
    """Returns JSON without spaces."""
    return _ENCODER.encode(members).encode("ascii")
