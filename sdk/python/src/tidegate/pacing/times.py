"""Parses waits and points in time as servers write them. What cannot be parsed is ``None``."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

_DECIMAL = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?", re.ASCII)
_DURATION = re.compile(r"(?:[0-9]{1,15}(?:\.[0-9]{1,9})?(?:ms|[dhms]))+", re.ASCII)
_DURATION_PART = re.compile(r"([0-9.]+)(ms|[dhms])", re.ASCII)
_RFC_3339 = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?"
    r"(?:[Zz]|([+-][0-9]{2}:[0-9]{2}))",
    re.ASCII,
)
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}

_EPOCH_S_FROM = 1e9
_EPOCH_MS_FROM = 1e12


def decimal(text: str) -> float | None:
    """Returns a number without sign or exponent, such as ``12`` or ``0.5``."""
    return float(text) if _DECIMAL.fullmatch(text) else None


def reset_after_s(text: str, now_s: float) -> float | None:
    """Returns the seconds until a reset, which is written as a number, a duration or a point in time."""
    number = decimal(text)
    if number is None:
        duration_s = _duration_s(text)
        return duration_s if duration_s is not None else _until_s(text, now_s)
    if number >= _EPOCH_MS_FROM:
        return max(0.0, number / 1000 - now_s)
    return max(0.0, number - now_s) if number >= _EPOCH_S_FROM else number


def retry_after_s(seconds: str, milliseconds: str, now_s: float) -> float | None:
    """Returns the seconds of ``retry-after-ms``, which is finer, or else of ``Retry-After``."""
    fine = decimal(milliseconds)
    if fine is not None:
        return fine / 1000
    coarse = decimal(seconds)
    return coarse if coarse is not None else _until_s(seconds, now_s)


def _duration_s(text: str) -> float | None:
    """Parses ``1s``, ``6m0s`` or ``120ms``."""
    if not _DURATION.fullmatch(text):
        return None
    try:
        total_s = sum(float(number) * _UNITS_S[unit] for number, unit in _DURATION_PART.findall(text))
    except ValueError:
        return None
    return round(total_s, 9)


def _until_s(text: str, now_s: float) -> float | None:
    """Parses an HTTP date or an RFC 3339 time; returns the seconds until then, and 0 if it has passed."""
    found = _RFC_3339.fullmatch(text)
    try:
        if found:
            day, time, fraction, offset = found.groups()
            date = datetime.fromisoformat(f"{day}T{time}{offset or '+00:00'}")
            at_s = date.timestamp() + (float(f"0.{fraction}") if fraction else 0.0)
        else:
            date = parsedate_to_datetime(text)
            if date.tzinfo is None:
                date = date.replace(tzinfo=timezone.utc)
            at_s = date.timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return max(0.0, at_s - now_s)
