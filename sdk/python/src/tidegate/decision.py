"""The outcome of a request."""

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
    """What one limit says after a decision."""

    rule: str
    name: str
    limit: int
    remaining: int
    reset_after_ms: int
    retry_after_ms: int | None
    shadow: bool


@dataclass(frozen=True, slots=True)
class DecidedBy:
    """The limit that denied, or came closest to it."""

    rule: str
    name: str


@dataclass(frozen=True)
class Decision:
    """Whether a request may pass, and the answer that says so over HTTP.

    ``status``, ``headers``, ``content_type`` and ``body`` are as the service rendered them: pass them on to
    your own client, or let a middleware do it.
    """

    allowed: bool
    status: int
    headers: tuple[tuple[str, str], ...]
    content_type: str
    body: str

    @cached_property
    def json(self) -> dict[str, Any]:
        """The body, read."""
        body = json.loads(self.body)
        return body if isinstance(body, dict) else {}

    @property
    def source(self) -> str:
        """Where the counters are.

        ``memory``, ``shared`` or ``fallback`` as the service says; ``local``, ``allow`` or ``deny`` when this
        process decided because the service did not answer.
        """
        return str(self.json.get("source", ""))

    @cached_property
    def limits(self) -> tuple[LimitStatus, ...]:
        """Every limit that was looked at."""
        return limit_statuses(self.json.get("limits"))

    @cached_property
    def decided_by(self) -> DecidedBy | None:
        """The limit that denied, or came closest to it; ``None`` if no limit applies."""
        by = self.json.get("decided_by")
        return DecidedBy(by["rule"], by["name"]) if by else None

    @cached_property
    def retry_after(self) -> int | None:
        """Seconds to wait, of a denial; ``None`` if it passes, or never will."""
        value = self.header("retry-after")
        return int(value) if value is not None and value.isdecimal() else None

    @property
    def detail(self) -> str:
        """What to tell a person."""
        return str(self.json.get("detail") or ("allowed" if self.allowed else "denied"))

    @property
    def content(self) -> bytes:
        """The body as bytes."""
        return self.body.encode()

    def header(self, name: str) -> str | None:
        """The value of a header, by its name in any case."""
        name = name.lower()
        return next((value for found, value in self.headers if found == name), None)

    def raise_for_denied(self) -> Decision:
        """Raises `RateLimitExceeded` if it was denied, else gives the decision back."""
        if not self.allowed:
            raise RateLimitExceeded(self)
        return self

    def __bool__(self) -> bool:
        """So that ``if not await client.check(...)`` means what it says."""
        return self.allowed


def limit_statuses(limits: Any) -> tuple[LimitStatus, ...]:
    """Reads ``limits`` of an answer; members that a newer service adds are passed over."""
    fields = LimitStatus.__dataclass_fields__
    return tuple(LimitStatus(**{name: limit.get(name) for name in fields}) for limit in limits or ())
