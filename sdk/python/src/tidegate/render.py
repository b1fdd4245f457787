"""Renders decisions of this process as HTTP, in the form in which the service renders its own."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from .decision import JSON_TYPE, PROBLEM_TYPE, Decision
from .local import Verdict

QUOTA_EXCEEDED = "https://iana.org/assignments/http-problem-types#quota-exceeded"

_MAX_INTEGER = 999_999_999_999_999  # the largest of a structured field
_JITTER_DIVISOR = 10  # a tenth of the wait
_MAX_JITTER_S = 5
_UNQUOTED_IN_RULES = " !#$&'()*+-./:<=>?@[]^_`{|}~"
_UNQUOTED_IN_NAMES = _UNQUOTED_IN_RULES.replace(":", "").replace("#", "")


@dataclass(frozen=True, slots=True)
class LimitReport:
    """A limit with its verdict, as it appears in headers and bodies."""

    rule: str
    name: str
    requests: int
    per: str
    window_us: int
    verdict: Verdict
    nth: int = 1
    """Its number among those of the same name: several descriptors may have the same limit."""
    domain: str = ""
    entries: tuple[tuple[str, str], ...] = ()

    @property
    def policy(self) -> str:
        """The name of the policy in headers."""
        nth = "" if self.nth == 1 else f"#{self.nth}"
        rule = quote(self.rule, safe=_UNQUOTED_IN_RULES)
        return f"{rule}:{quote(self.name, safe=_UNQUOTED_IN_NAMES)}{nth}"

    @property
    def window_s(self) -> int:
        """The window in whole seconds, rounded up so that the reported rate is never too high."""
        return ceil_s(self.window_us)

    @property
    def more_after_us(self) -> int:
        """Microseconds until more units are available."""
        if self.verdict.retry_after_us is not None:
            return self.verdict.retry_after_us
        return min(self.verdict.reset_after_us, self.window_us)

    @property
    def retry_after_s(self) -> int | None:
        """Seconds until a retry, rounded up, plus jitter so that clients denied together return apart.

        The jitter is a hash of the rule and the key, so that the same decision renders to the same bytes.
        """
        wait_us = self.verdict.retry_after_us
        if wait_us is None:
            return None
        max_s = min(wait_us // 1_000_000 // _JITTER_DIVISOR, _MAX_JITTER_S)
        who = json.dumps([self.domain, self.rule, self.entries]).encode("ascii")
        stable = int.from_bytes(hashlib.sha256(who).digest()[:8], "big")
        return ceil_s(wait_us) + stable % (max_s + 1)

    def to_json(self) -> dict[str, Any]:
        """Returns the element of ``limits`` in the body of a decision."""
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


def render_counted(reports: list[LimitReport], wall_s: float) -> Decision:
    """Returns the decision by counters of this process."""
    deciding = min(reports, key=_restriction)
    allowed = deciding.verdict.allowed
    common = {
        "allowed": allowed,
        "decided_by": {"rule": deciding.rule, "name": deciding.name},
        "source": "local",
        "limits": [report.to_json() for report in reports],
    }
    headers = _headers(reports, deciding, wall_s)
    if allowed:
        return _decision(200, headers, common)
    retry_s = deciding.retry_after_s
    if retry_s is not None:
        headers.append(("retry-after", str(retry_s)))
    problem = {
        **_problem(_detail(deciding, retry_s)),
        "violated-policies": [report.policy for report in reports if not report.verdict.allowed],
        "retry_after": retry_s,
        "limit": deciding.requests,
        "window": deciding.window_s,
        "scope": deciding.rule,
    }
    return _decision(429, headers, problem | common)


def render_uncounted(*, allowed: bool, source: str) -> Decision:
    """Returns a decision without counters: every request passes, or none does."""
    common: dict[str, Any] = {"allowed": allowed, "decided_by": None, "source": source, "limits": []}
    if allowed:
        return _decision(200, [], common)
    problem = {
        **_problem(
            "the rate limit service cannot be reached, and requests are denied meanwhile; retry in 1 second"
        ),
        "violated-policies": [],
        "retry_after": 1,
        "limit": None,
        "window": None,
        "scope": None,
    }
    return _decision(429, [("retry-after", "1")], problem | common)


def ceil_s(us: int) -> int:
    """Returns whole seconds, rounded up and at least 1, so that no client returns at once."""
    return max(1, -(-us // 1_000_000))


def _restriction(report: LimitReport) -> tuple[bool, float]:
    """Sort key, the most restrictive first: denials by the longest wait, then what has least left."""
    verdict = report.verdict
    if verdict.allowed:
        return True, verdict.remaining
    return False, float("-inf") if verdict.retry_after_us is None else -verdict.retry_after_us


def _headers(reports: list[LimitReport], deciding: LimitReport, wall_s: float) -> list[tuple[str, str]]:
    policies = [f'"{one.policy}";q={min(one.requests, _MAX_INTEGER)};w={one.window_s}' for one in reports]
    left = [
        f'"{one.policy}";r={min(one.verdict.remaining, _MAX_INTEGER)};t={-(-one.more_after_us // 1_000_000)}'
        for one in reports
    ]
    reset_us = int(wall_s * 1_000_000) + deciding.more_after_us
    return [
        ("ratelimit-policy", ", ".join(policies)),
        ("ratelimit", ", ".join(left)),
        ("x-ratelimit-limit", str(deciding.requests)),
        ("x-ratelimit-remaining", str(deciding.verdict.remaining)),
        ("x-ratelimit-reset", str(-(-reset_us // 1_000_000))),
    ]


def _problem(detail: str) -> dict[str, Any]:
    return {"type": QUOTA_EXCEEDED, "title": "Quota Exceeded", "status": 429, "detail": detail}


def _detail(deciding: LimitReport, retry_s: int | None) -> str:
    detail = f"limit {deciding.name} of rule {deciding.rule} allows {deciding.requests} per {deciding.per}; "
    if retry_s is not None:
        return detail + f"retry in {retry_s} second{'' if retry_s == 1 else 's'}"
    if deciding.requests == 0:
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
