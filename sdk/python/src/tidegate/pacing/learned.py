"""What an answer says about limits, and how long the next request had better wait. Pure functions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timezone
from email.utils import parsedate_to_datetime

from .structured import Item, parse_list

_WHOLE = re.compile(r"[0-9]{1,15}", re.ASCII)
_DECIMAL = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?", re.ASCII)
_FIRST = re.compile(r"[ \t]*([0-9]{1,15})[ \t]*(?:[,;]|$)", re.ASCII)

_FAMILIES = ("ratelimit-", "x-ratelimit-", "x-rate-limit-")

LITTLE_OF_UNKNOWN = 10
"""Where no limit is told, less than this is little."""


@dataclass(frozen=True, slots=True)
class Policy:
    """One limit of several."""

    name: str
    limit: int | None
    window_s: int | None
    remaining: int | None
    reset_after_s: int | None


@dataclass(frozen=True, slots=True)
class Learned:
    """What one answer told."""

    limit: int | None = None
    remaining: int | None = None
    reset_after_s: float | None = None
    retry_after_s: float | None = None
    policies: tuple[Policy, ...] = ()


def learn(status: int, headers: Iterable[tuple[str, str]], now_s: float) -> Learned:
    """Reads every family of headers; ``now_s`` is the time of the answer since the epoch.

    The status is part of the contract between languages; nothing depends on it so far.
    """
    lines: dict[str, list[str]] = {}
    for name, value in headers:
        lines.setdefault(name.lower(), []).append(value)
    retry_after_s = _retry_after(lines.get("retry-after", []), now_s)
    policies = _policies(lines)
    if policies:
        by = _least_left(policies)
        if by is None:
            return Learned(retry_after_s=retry_after_s, policies=policies)
        return Learned(by.limit, by.remaining, by.reset_after_s, retry_after_s, policies)
    limit, remaining, reset_after_s = _members(lines) or _family(lines, now_s)
    return Learned(limit, remaining, reset_after_s, retry_after_s)


def delay_ms(learned: Learned, elapsed_ms: float) -> int:
    """How long a request waits that comes so long after the answer was learnt from."""
    waits_s = [learned.retry_after_s or 0.0]
    reset_s = learned.reset_after_s
    if learned.remaining is not None and reset_s is not None:
        if learned.remaining == 0:
            waits_s.append(reset_s)
        elif is_little(learned):
            waits_s.append(reset_s / learned.remaining)
    return max(0, math.ceil(max(waits_s) * 1000 - elapsed_ms))


def is_little(learned: Learned) -> bool:
    """Whether so little is left that it is spread over the time until there is more."""
    if learned.remaining is None:
        return False
    if learned.limit is None:
        return learned.remaining < LITTLE_OF_UNKNOWN
    return learned.remaining * 5 < learned.limit


def _policies(lines: dict[str, list[str]]) -> tuple[Policy, ...]:
    """Draft 11: what ``RateLimit-Policy`` names in its order, then what only ``RateLimit`` does."""
    left = _named(lines.get("ratelimit", []))
    if not left:
        return ()
    quotas = _named(lines.get("ratelimit-policy", []))
    return tuple(_policy(name, quotas.get(name), left.get(name)) for name in quotas | left)


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


def _least_left(policies: tuple[Policy, ...]) -> Policy | None:
    told = [policy for policy in policies if policy.remaining is not None]
    return min(told, key=lambda policy: (policy.remaining, -(policy.reset_after_s or 0)), default=None)


def _members(lines: dict[str, list[str]]) -> tuple[int | None, int | None, float | None] | None:
    """Draft 07: ``limit=100, remaining=5, reset=10``."""
    members: dict[str, int | None] = {}
    for part in ",".join(lines.get("ratelimit", [])).split(","):
        name, _, value = part.partition("=")
        members[name.strip(" \t")] = _first(value)
    found = members.get("limit"), members.get("remaining"), members.get("reset")
    return found if any(value is not None for value in found) else None


def _family(lines: dict[str, list[str]], now_s: float) -> tuple[int | None, int | None, float | None]:
    """Three headers; the first family of which anything can be read."""
    for family in _FAMILIES:
        limit, remaining, reset = (_line(lines, family + name) for name in ("limit", "remaining", "reset"))
        found = _first(limit), _whole(remaining), _reset_after(reset, now_s)
        if any(value is not None for value in found):
            return found
    return None, None, None


def _line(lines: dict[str, list[str]], name: str) -> str:
    return lines.get(name, [""])[0].strip(" \t")


def _first(text: str) -> int | None:
    found = _FIRST.match(text)
    return int(found[1]) if found else None


def _whole(text: str) -> int | None:
    return int(text) if _WHOLE.fullmatch(text) else None


def _reset_after(text: str, now_s: float) -> float | None:
    """Seconds from now. Large numbers are times: in milliseconds, or in seconds since the epoch."""
    if not _DECIMAL.fullmatch(text):
        return None
    value = float(text)
    if value >= 1e12:
        return max(0.0, value / 1000 - now_s)
    return max(0.0, value - now_s) if value >= 1e9 else value


def _retry_after(lines: list[str], now_s: float) -> float | None:
    text = lines[0].strip(" \t") if lines else ""
    if _DECIMAL.fullmatch(text):
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=timezone.utc)
    return max(0.0, date.timestamp() - now_s)
