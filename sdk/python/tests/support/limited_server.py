"""Servers that limit, written from what ``vectors/README.md`` says of the runs in ``pacing.json``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

_TINY = 1e-9
"""Time is a float here; what is so close is the same moment."""


@dataclass(frozen=True)
class Verdict:
    passes: bool
    left: float
    more_after_s: float


class LimitedServer:
    def __init__(self, kind: str, requests: int, window_s: float, phase_s: float, headers: str) -> None:
        self.requests = requests
        self.window_s = window_s
        self.phase_s = phase_s
        self.headers = headers
        self.denials = 0
        self._decide = getattr(self, f"_{kind}")
        self._stamps: list[float] = []
        self._counts: dict[int, int] = {}
        self._full_at_s = 0.0

    def ask(self, now_s: float) -> tuple[int, dict[str, str]]:
        verdict: Verdict = self._decide(now_s + self.phase_s)
        self.denials += not verdict.passes
        return (200 if verdict.passes else 429), self._told(verdict)

    def _told(self, verdict: Verdict) -> dict[str, str]:
        left, reset_s = math.floor(verdict.left + _TINY), math.ceil(verdict.more_after_s - _TINY)
        told: dict[str, Any] = {}
        if self.headers == "structured":
            told["RateLimit-Policy"] = f'"a";q={self.requests};w={math.ceil(self.window_s)}'
            told["RateLimit"] = f'"a";r={left};t={reset_s}'
        if self.headers == "x-ratelimit":
            told["X-RateLimit-Limit"] = self.requests
            told["X-RateLimit-Remaining"] = left
            told["X-RateLimit-Reset"] = reset_s
        if not verdict.passes:
            told["Retry-After"] = max(1, reset_s)
        return {name: str(value) for name, value in told.items()}

    def _sliding_log(self, at_s: float) -> Verdict:
        self._stamps = [stamp_s for stamp_s in self._stamps if stamp_s + self.window_s > at_s + _TINY]
        if len(self._stamps) >= self.requests:
            return Verdict(False, 0, self._stamps[0] + self.window_s - at_s)
        self._stamps.append(at_s)
        return Verdict(True, self.requests - len(self._stamps), self.window_s)

    def _fixed_window(self, at_s: float) -> Verdict:
        number = math.floor(at_s / self.window_s + _TINY)
        ends_s = (number + 1) * self.window_s - at_s
        if self._counts.get(number, 0) >= self.requests:
            return Verdict(False, 0, ends_s)
        self._counts[number] = self._counts.get(number, 0) + 1
        return Verdict(True, self.requests - self._counts[number], ends_s)

    def _sliding_window(self, at_s: float) -> Verdict:
        number = math.floor(at_s / self.window_s + _TINY)
        ends_s = (number + 1) * self.window_s - at_s
        current, previous = self._counts.get(number, 0), self._counts.get(number - 1, 0)
        left = self.requests - current - previous * ends_s / self.window_s
        if left + _TINY >= 1:
            self._counts[number] = current + 1
            return Verdict(True, left - 1, self.window_s)
        if current < self.requests:
            return Verdict(False, 0, ends_s - (self.requests - current - 1) * self.window_s / previous)
        in_next_s = self.window_s - (self.requests - 1) * self.window_s / current
        return Verdict(False, 0, ends_s + in_next_s)

    def _token_bucket(self, at_s: float) -> Verdict:
        step_s = self.window_s / self.requests
        full_at_s = max(self._full_at_s, at_s) + step_s
        if full_at_s - at_s > self.window_s + _TINY:
            return Verdict(False, 0, full_at_s - self.window_s - at_s)
        self._full_at_s = full_at_s
        return Verdict(True, (self.window_s - (full_at_s - at_s)) / step_s, full_at_s - at_s)
