"""Pure functions: what a response says about limits, and how long the next request should wait."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from . import times
from .structured import Item, parse_list

_WHOLE = re.compile(r"[0-9]{1,15}", re.ASCII)
_FIRST = re.compile(r"[ \t]*([0-9]{1,15})[ \t]*(?:[,;]|$)", re.ASCII)

_FAMILIES = ("ratelimit-", "x-ratelimit-", "x-rate-limit-")

_RESOURCES = ("requests", "tokens", "input-tokens", "output-tokens")
"""What the APIs of language models count. A request costs one of the first, and some of the others."""

LITTLE_OF_UNKNOWN = 10
"""Without a known limit, less than this is little. What is left is spread as if it were at least this."""

SPREAD_FROM_S = 30.0
"""Requests are spread only over a reset at least this far away; a nearer reset is waited for."""


@dataclass(frozen=True, slots=True)
class Policy:
    """One of the limits that a response reports; ``None`` is what it does not report."""

    name: str
    limit: int | None
    """Units per window."""
    window_s: int | None
    """Seconds per window."""
    remaining: int | None
    """Units left."""
    reset_after_s: float | None
    """Seconds until more units are available."""


@dataclass(frozen=True, slots=True)
class Learned:
    """What one response says about limits; ``None`` is what it does not say.

    >>> transport.state("api.example.com")
    Learned(limit=100, remaining=12, reset_after_s=30.0, retry_after_s=None, policies=())
    """

    limit: int | None = None
    """Units per window, of the tightest policy."""
    remaining: int | None = None
    """Units left, of the tightest policy."""
    reset_after_s: float | None = None
    """Seconds until more units are available, from the time of the response."""
    retry_after_s: float | None = None
    """Seconds of ``Retry-After``."""
    policies: tuple[Policy, ...] = ()
    """All limits that the response reports by name."""

    @property
    def window_s(self) -> int | None:
        """The window of the policy that ``limit``, ``remaining`` and ``reset_after_s`` are from, if known."""
        for policy in self.policies:
            if (policy.limit, policy.remaining, policy.reset_after_s) == self._numbers:
                return policy.window_s
        return None

    @property
    def _numbers(self) -> tuple[int | None, int | None, float | None]:
        return self.limit, self.remaining, self.reset_after_s


def learn(status: int, headers: Iterable[tuple[str, str]], now_s: float) -> Learned:
    """Returns what a response says about limits, from any of the common families of headers.

    >>> learn(429, [("retry-after", "7")], time.time()).retry_after_s
    7.0

    ``now_s`` is the time of the response in seconds since the epoch. Headers that cannot be parsed are
    ignored. The status makes no difference so far.
    """
    lines: dict[str, list[str]] = {}
    for name, value in headers:
        lines.setdefault(name.lower(), []).append(value)
    retry_after_s = times.retry_after_s(_line(lines, "retry-after"), _line(lines, "retry-after-ms"), now_s)
    learned = _structured(lines) or _members(lines) or _family(lines, now_s) or _resources(lines, now_s)
    return replace(learned or Learned(), retry_after_s=retry_after_s)


def is_denial(status: int, learned: Learned) -> bool:
    """Returns whether a response denies a request because of a limit, so that any method can be retried.

    >>> is_denial(429, Learned())
    True

    That is 429, 503 with ``Retry-After``, and 403 with ``Retry-After`` or with nothing left, as GitHub sends.
    """
    if status == 403:
        return learned.retry_after_s is not None or learned.remaining == 0
    return status == 429 or (status == 503 and learned.retry_after_s is not None)


def delay_ms(learned: Learned, elapsed_ms: float) -> int:
    """Returns the milliseconds that a request should wait, ``elapsed_ms`` after the response.

    >>> delay_ms(Learned(retry_after_s=7), elapsed_ms=2000)
    5000
    """
    requested_s = requested_wait_s(learned)
    wait_s = spread_s(learned) if requested_s is None else requested_s
    return max(0, math.ceil(round(wait_s * 1000 - elapsed_ms, 6)))


def requested_wait_s(learned: Learned) -> float | None:
    """Returns the wait that a response requests: ``Retry-After``, or the reset if nothing is left."""
    if learned.retry_after_s is not None:
        return learned.retry_after_s
    return learned.reset_after_s if learned.remaining == 0 else None


def spread_s(learned: Learned) -> float:
    """Returns the seconds between requests if little is left for a long time; 0 otherwise."""
    left, reset_s = learned.remaining, learned.reset_after_s
    if not left or reset_s is None or reset_s < SPREAD_FROM_S:
        return 0.0
    little = left < LITTLE_OF_UNKNOWN if learned.limit is None else left * 5 < learned.limit
    return reset_s / max(left, LITTLE_OF_UNKNOWN) if little else 0.0


def _structured(lines: dict[str, list[str]]) -> Learned | None:
    """Parses draft 11: the policies of ``RateLimit-Policy``, then those that only ``RateLimit`` has."""
    left = _named(lines.get("ratelimit", []))
    if not left:
        return None
    quotas = _named(lines.get("ratelimit-policy", []))
    policies = tuple(_policy(name, quotas.get(name), left.get(name)) for name in quotas | left)
    known = [policy for policy in policies if policy.remaining is not None]
    tightest = min(known, key=lambda policy: (policy.remaining, -(policy.reset_after_s or 0)), default=None)
    return _learned_by(tightest, policies)


def _learned_by(policy: Policy | None, policies: tuple[Policy, ...]) -> Learned:
    if policy is None:
        return Learned(policies=policies)
    return Learned(policy.limit, policy.remaining, policy.reset_after_s, policies=policies)


def _named(lines: list[str]) -> dict[str, Item]:
    items = parse_list(", ".join(lines)) or []
    return {item.value: item for item in items if isinstance(item.value, str)}


def _policy(name: str, quota: Item | None, left: Item | None) -> Policy:
    return Policy(
        name=name,
        limit=quota.count("q") if quota else None,
        window_s=quota.count("w") if quota else None,
        remaining=left.count("r") if left else None,
        reset_after_s=left.count("t") if left else None,
    )


def _members(lines: dict[str, list[str]]) -> Learned | None:
    """Parses draft 07: ``limit=100, remaining=5, reset=10``."""
    members: dict[str, int | None] = {}
    for part in ",".join(lines.get("ratelimit", [])).split(","):
        name, _, value = part.partition("=")
        members[name.strip(" \t")] = _first(value)
    learned = Learned(members.get("limit"), members.get("remaining"), members.get("reset"))
    return learned if learned != Learned() else None


def _family(lines: dict[str, list[str]], now_s: float) -> Learned | None:
    """Parses the first family of three headers of which anything can be parsed."""
    for family in _FAMILIES:
        limit, remaining, reset = (_line(lines, family + name) for name in ("limit", "remaining", "reset"))
        learned = Learned(_first(limit), _whole(remaining), times.reset_after_s(reset, now_s))
        if learned != Learned():
            return learned
    return None


def _resources(lines: dict[str, list[str]], now_s: float) -> Learned | None:
    """Parses the headers of OpenAI and Anthropic: three for requests, and three for each kind of token."""
    for openai in (True, False):
        found: list[Policy] = []
        for resource in _RESOURCES:
            names = ("limit", "remaining", "reset")
            if openai:
                texts = [_line(lines, f"x-ratelimit-{name}-{resource}") for name in names]
            else:
                texts = [_line(lines, f"anthropic-ratelimit-{resource}-{name}") for name in names]
            limit, remaining = _whole(texts[0]), _whole(texts[1])
            reset_s = times.reset_after_s(texts[2], now_s)
            if (limit, remaining, reset_s) != (None, None, None):
                found.append(Policy(resource, limit, None, remaining, reset_s))
        if found:
            used_up = [policy for policy in found if policy.remaining == 0]
            longest = max(used_up, key=lambda policy: policy.reset_after_s or 0, default=None)
            requests = next((policy for policy in found if policy.name == "requests"), None)
            return _learned_by(longest or requests, tuple(found))
    return None


def _line(lines: dict[str, list[str]], name: str) -> str:
    return lines.get(name, [""])[0].strip(" \t")


def _first(text: str) -> int | None:
    found = _FIRST.match(text)
    return int(found[1]) if found else None


def _whole(text: str) -> int | None:
    return int(text) if _WHOLE.fullmatch(text) else None
