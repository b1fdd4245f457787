"""A clock that tests hold."""

from __future__ import annotations

import asyncio

from tidegate.clock import Clock


class FakeClock:
    """Time moves when somebody sleeps, or when a test says so."""

    def __init__(self, now_s: float = 1_000.0, chance: float = 1.0) -> None:
        self.now_s = now_s
        self.chance = chance
        self.slept: list[float] = []

    def advance(self, seconds: float) -> None:
        self.now_s += seconds

    async def sleep(self, seconds: float) -> None:
        self.block(seconds)
        await asyncio.sleep(0)

    def block(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds

    def clock(self) -> Clock:
        def now() -> float:
            return self.now_s

        return Clock(
            monotonic=now,
            wall=lambda: 1_700_000_000 + self.now_s,
            sleep=self.sleep,
            block=self.block,
            chance=lambda: self.chance,
        )
