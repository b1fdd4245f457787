"""Decisions: the outcome of a check."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .errors import RateLimitExceeded

PROBLEM_TYPE = "application/problem+json"
JSON_TYPE = "application/json"


@dataclass(frozen=True, slots=True)
class LimitStatus:
    """The state of one limit after a decision.

    >>> for limit in decision.limits:
    ...     print(limit.name, limit.remaining, "of", limit.limit)
    """

    rule: str
    """The rule of the service, or ``inline`` for limits in code."""
    name: str
    """The name of the limit; by default its window."""
    limit: int
    """Units per window."""
    remaining: int
    """Units left."""
    reset_after_ms: int
    """Milliseconds until the limit is full again."""
    retry_after_ms: int | None
    """Milliseconds until the same request would pass; ``None`` if this limit lets it pass, or never would."""
    shadow: bool
    """Whether the limit is only evaluated, and never enforced."""


@dataclass(frozen=True, slots=True)
class DecidedBy:
    """The limit that denied a request, or that has the least left if it was allowed."""

    rule: str
    """The rule of the service, or ``inline`` for limits in code."""
    name: str
    """The name of the limit."""


@dataclass(frozen=True)
class Decision:
    """The outcome of a check: whether a request may pass, and the HTTP response to it.

    >>> decision = await client.check({"user": "ann"}, limits="10/minute")
    >>> if not decision.allowed:
    ...     return Response(decision.content, decision.status, dict(decision.headers))

    It is true in a condition if the request may pass. ``status``, ``headers``, ``content_type`` and ``body``
    are as the service rendered them, to be passed on to your own client; the middleware does so.
    """

    allowed: bool
    """Whether the request may pass."""
    status: int
    """200, or 429 for a denial."""
    headers: tuple[tuple[str, str], ...]
    """Headers about limits, with names in lower case."""
    content_type: str
    """The content type of ``body``."""
    body: str
    """JSON; of a denial a problem as in RFC 9457, unless the operator of the service has set another body."""

    @cached_property
    def json(self) -> dict[str, Any]:
        """The parsed body."""
        body = json.loads(self.body)
        return body if isinstance(body, dict) else {}

    @property
    def source(self) -> str:
        """Where the decision was made.

        ``memory``, ``redis`` or ``fallback`` if the service decided: in its memory, in its shared store, or
        without that store. ``local``, ``allow`` or ``deny`` if the fallback of this process decided.
        ``disabled`` for a client with ``enabled=False``.
        """
        return str(self.json.get("source", ""))

    @cached_property
    def limits(self) -> tuple[LimitStatus, ...]:
        """The state of every limit that applies."""
        return limit_statuses(self.json.get("limits"))

    @cached_property
    def decided_by(self) -> DecidedBy | None:
        """The limit that denied the request, or that has the least left; ``None`` if no limit applies."""
        by = self.json.get("decided_by")
        return DecidedBy(by["rule"], by["name"]) if by else None

    @cached_property
    def retry_after(self) -> int | None:
        """Seconds until the same request would pass; ``None`` if it passes now, or never would."""
        value = self.header("retry-after")
        return int(value) if value is not None and value.isdecimal() else None

    @property
    def detail(self) -> str:
        """A sentence for people: of a denial, which limit it was and when to retry."""
        return str(self.json.get("detail") or ("allowed" if self.allowed else "denied"))

    @property
    def content(self) -> bytes:
        """The body as bytes."""
        return self.body.encode()

    def header(self, name: str) -> str | None:
        """Returns the value of a header, or ``None``; the name may be in any case."""
        name = name.lower()
        return next((value for found, value in self.headers if found == name), None)

    def raise_for_denied(self) -> Decision:
        """Raises `RateLimitExceeded` if the request was denied; returns the decision itself otherwise.

        >>> (await client.check({"user": "ann"}, limits="10/minute")).raise_for_denied()
        """
        if not self.allowed:
            raise RateLimitExceeded(self)
        return self

    def __bool__(self) -> bool:
        """Returns ``allowed``, so that ``if not await client.check(...)`` works."""
        return self.allowed


def limit_statuses(limits: Any) -> tuple[LimitStatus, ...]:
    """Returns the limits in a response; members that a newer service adds are ignored."""
    fields = LimitStatus.__dataclass_fields__
    return tuple(LimitStatus(**{name: limit.get(name) for name in fields}) for limit in limits or ())
