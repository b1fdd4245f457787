"""What a response says about limits, and how long the next request had better wait. Pure functions."""

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
"""What the APIs of language models count. A request takes one of the first, and some of the others."""

LITTLE_OF_UNKNOWN = 10
"""Where no limit is told, less than this is little. What is left is spread as if it were at least this."""

SPREAD_FROM_S = 30.0
"""What is left is spread only over a time this long or longer: one that is shorter can be waited for."""


@dataclass(frozen=True, slots=True)
class Policy:
    """One limit of several."""

    name: str
    limit: int | None
    window_s: int | None
    remaining: int | None
    reset_after_s: float | None


@dataclass(frozen=True, slots=True)
class Learned:
    """What one response told."""

    limit: int | None = None
    remaining: int | None = None
    reset_after_s: float | None = None
    retry_after_s: float | None = None
    policies: tuple[Policy, ...] = ()

    @property
    def window_s(self) -> int | None:
        """The window of the policy that ``limit``, ``remaining`` and ``reset_after_s`` are from."""
        for policy in self.policies:
            if (policy.limit, policy.remaining, policy.reset_after_s) == self._numbers:
                return policy.window_s
        return None

    @property
    def _numbers(self) -> tuple[int | None, int | None, float | None]:
        return self.limit, self.remaining, self.reset_after_s


def learn(status: int, headers: Iterable[tuple[str, str]], now_s: float) -> Learned:
    """Reads every family of headers; ``now_s`` is the time of the response since the epoch.

    The status is part of the contract between languages; nothing depends on it so far.
    """
    lines: dict[str, list[str]] = {}
    for name, value in headers:
        lines.setdefault(name.lower(), []).append(value)
    retry_after_s = times.retry_after_s(_line(lines, "retry-after"), _line(lines, "retry-after-ms"), now_s)
    learned = _structured(lines) or _members(lines) or _family(lines, now_s) or _resources(lines, now_s)
    return replace(learned or Learned(), retry_after_s=retry_after_s)


def is_denial(status: int, learned: Learned) -> bool:
    """Whether the response says that nothing was done because of a limit, so that any method can be retried.

    GitHub denies with 403, and tells either how long to wait or that nothing is left.
    """
    if status == 403:
        return learned.retry_after_s is not None or learned.remaining == 0
    return status == 429 or (status == 503 and learned.retry_after_s is not None)


def delay_ms(learned: Learned, elapsed_ms: float) -> int:
    """Returns how long a request waits that comes so long after the response."""
    told_s = told_wait_s(learned)
    wait_s = spread_s(learned) if told_s is None else told_s
    return max(0, math.ceil(round(wait_s * 1000 - elapsed_ms, 6)))


def told_wait_s(learned: Learned) -> float | None:
    """Returns the wait that the response asks for: ``Retry-After``, or the reset if nothing is left."""
    if learned.retry_after_s is not None:
        return learned.retry_after_s
    return learned.reset_after_s if learned.remaining == 0 else None


def spread_s(learned: Learned) -> float:
    """Returns how far apart requests start because little is left for a long time; 0 if they need not be."""
    left, reset_s = learned.remaining, learned.reset_after_s
    if not left or reset_s is None or reset_s < SPREAD_FROM_S:
        return 0.0
    little = left < LITTLE_OF_UNKNOWN if learned.limit is None else left * 5 < learned.limit
    return reset_s / max(left, LITTLE_OF_UNKNOWN) if little else 0.0


def _structured(lines: dict[str, list[str]]) -> Learned | None:
    """Draft 11: what ``RateLimit-Policy`` names in its order, then what only ``RateLimit`` does."""
    left = _named(lines.get("ratelimit", []))
    if not left:
        return None
    quotas = _named(lines.get("ratelimit-policy", []))
    policies = tuple(_policy(name, quotas.get(name), left.get(name)) for name in quotas | left)
    told = [policy for policy in policies if policy.remaining is not None]
    tightest = min(told, key=lambda policy: (policy.remaining, -(policy.reset_after_s or 0)), default=None)
    return _by(tightest, policies)


def _by(policy: Policy | None, policies: tuple[Policy, ...]) -> Learned:
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
    """Draft 07: ``limit=100, remaining=5, reset=10``."""
    members: dict[str, int | None] = {}
    for part in ",".join(lines.get("ratelimit", [])).split(","):
        name, _, value = part.partition("=")
        members[name.strip(" \t")] = _first(value)
    learned = Learned(members.get("limit"), members.get("remaining"), members.get("reset"))
    return learned if learned != Learned() else None


def _family(lines: dict[str, list[str]], now_s: float) -> Learned | None:
    """Three headers; the first family of which anything can be read."""
    for family in _FAMILIES:
        limit, remaining, reset = (_line(lines, family + name) for name in ("limit", "remaining", "reset"))
        learned = Learned(_first(limit), _whole(remaining), times.reset_after_s(reset, now_s))
        if learned != Learned():
            return learned
    return None


def _resources(lines: dict[str, list[str]], now_s: float) -> Learned | None:
    """Reads what OpenAI and Anthropic tell: requests and tokens, each with three headers of its own."""
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
            return _by(longest or requests, tuple(found))
    return None


def _line(lines: dict[str, list[str]], name: str) -> str:
    return lines.get(name, [""])[0].strip(" \t")


def _first(text: str) -> int | None:
    found = _FIRST.match(text)
    return int(found[1]) if found else None


def _whole(text: str) -> int | None:
    return int(text) if _WHOLE.fullmatch(text) else None
