"""Decisions of this process as HTTP, in the shape that the service gives its own."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from .decision import JSON_TYPE, PROBLEM_TYPE, Decision
from .local import Verdict

QUOTA_EXCEEDED = "https://iana.org/assignments/http-problem-types#quota-exceeded"

_MAX_INTEGER = 999_999_999_999_999  # of a structured field
_JITTER_PART = 10  # a tenth of the wait
_JITTER_MOST_S = 5
_IN_RULES = " !#$&'()*+-./:<=>?@[]^_`{|}~"
_IN_NAMES = _IN_RULES.replace(":", "").replace("#", "")


@dataclass(frozen=True, slots=True)
class Told:
    """A limit, and what it says."""

    rule: str
    name: str
    requests: int
    per: str
    window_us: int
    verdict: Verdict
    nth: int = 1
    """Which one of its name it is: several descriptors may fall under one limit."""
    domain: str = ""
    entries: tuple[tuple[str, str], ...] = ()

    @property
    def policy(self) -> str:
        """Its name in headers."""
        nth = "" if self.nth == 1 else f"#{self.nth}"
        return f"{quote(self.rule, safe=_IN_RULES)}:{quote(self.name, safe=_IN_NAMES)}{nth}"

    @property
    def window_s(self) -> int:
        """Rounded up, so that the rate is never told too high."""
        return ceil_s(self.window_us)

    @property
    def more_after_us(self) -> int:
        """Until there is more."""
        if self.verdict.retry_after_us is not None:
            return self.verdict.retry_after_us
        return min(self.verdict.reset_after_us, self.window_us)

    @property
    def retry_after_s(self) -> int | None:
        """Whole seconds, never too few, and some more so that those denied together do not return together.

        How many more is a function of who was denied by what: the same decision is told in the same bytes.
        """
        wait_us = self.verdict.retry_after_us
        if wait_us is None:
            return None
        most_s = min(wait_us // 1_000_000 // _JITTER_PART, _JITTER_MOST_S)
        who = json.dumps([self.domain, self.rule, self.entries]).encode("ascii")
        stable = int.from_bytes(hashlib.sha256(who).digest()[:8], "big")
        return ceil_s(wait_us) + stable % (most_s + 1)

    def to_json(self) -> dict[str, Any]:
        """As in ``limits``."""
        retry_us = self.verdict.retry_after_us
        return {
            "rule": self.rule,
            "name": self.name,
            "limit": self.requests,
            "remaining": self.verdict.remaining,
            "reset_after_ms": -(-self.verdict.reset_after_us // 1000),
            "retry_after_ms": None if retry_us is None else -(-retry_us // 1000),
            "shadow": False,
        }


def counted(told: list[Told], wall_s: float) -> Decision:
    """A decision by counters."""
    by = min(told, key=_restriction)
    allowed = by.verdict.allowed
    common = {
        "allowed": allowed,
        "decided_by": {"rule": by.rule, "name": by.name},
        "source": "local",
        "limits": [one.to_json() for one in told],
    }
    headers = _headers(told, by, wall_s)
    if allowed:
        return _decision(200, headers, common)
    retry_s = by.retry_after_s
    if retry_s is not None:
        headers.append(("retry-after", str(retry_s)))
    problem = {
        **_problem(_detail(by, retry_s)),
        "violated-policies": [one.policy for one in told if not one.verdict.allowed],
        "retry_after": retry_s,
        "limit": by.requests,
        "window": by.window_s,
        "scope": by.rule,
    }
    return _decision(429, headers, problem | common)


def uncounted(*, allowed: bool, source: str) -> Decision:
    """A decision without counters: everything passes, or nothing does."""
    common: dict[str, Any] = {"allowed": allowed, "decided_by": None, "source": source, "limits": []}
    if allowed:
        return _decision(200, [], common)
    problem = {
        **_problem("the rate limit service does not answer, and nothing passes meanwhile; retry in 1 second"),
        "violated-policies": [],
        "retry_after": 1,
        "limit": None,
        "window": None,
        "scope": None,
    }
    return _decision(429, [("retry-after", "1")], problem | common)


def ceil_s(us: int) -> int:
    """Whole seconds, rounded up, at least 1: nobody comes back at once."""
    return max(1, -(-us // 1_000_000))


def _restriction(told: Told) -> tuple[bool, float]:
    """Denials first, those that take longest before others; then whoever has least left."""
    verdict = told.verdict
    if verdict.allowed:
        return True, verdict.remaining
    return False, float("-inf") if verdict.retry_after_us is None else -verdict.retry_after_us


def _headers(told: list[Told], by: Told, wall_s: float) -> list[tuple[str, str]]:
    policies = [f'"{one.policy}";q={min(one.requests, _MAX_INTEGER)};w={one.window_s}' for one in told]
    left = [
        f'"{one.policy}";r={min(one.verdict.remaining, _MAX_INTEGER)};t={-(-one.more_after_us // 1_000_000)}'
        for one in told
    ]
    reset_us = int(wall_s * 1_000_000) + by.more_after_us
    return [
        ("ratelimit-policy", ", ".join(policies)),
        ("ratelimit", ", ".join(left)),
        ("x-ratelimit-limit", str(by.requests)),
        ("x-ratelimit-remaining", str(by.verdict.remaining)),
        ("x-ratelimit-reset", str(-(-reset_us // 1_000_000))),
    ]


def _problem(detail: str) -> dict[str, Any]:
    return {"type": QUOTA_EXCEEDED, "title": "Quota Exceeded", "status": 429, "detail": detail}


def _detail(by: Told, retry_s: int | None) -> str:
    detail = f"limit {by.name} of rule {by.rule} allows {by.requests} per {by.per}; "
    if retry_s is not None:
        return detail + f"retry in {retry_s} second{'' if retry_s == 1 else 's'}"
    if by.requests == 0:
        return detail + "nothing passes"
    return detail + "a request of this cost never passes, lower its cost"


def _decision(status: int, headers: list[tuple[str, str]], body: dict[str, Any]) -> Decision:
    return Decision(
        allowed=status == 200,
        status=status,
        headers=tuple(headers),
        content_type=JSON_TYPE if status == 200 else PROBLEM_TYPE,
        body=json.dumps(body, separators=(",", ":"), ensure_ascii=False),
    )
