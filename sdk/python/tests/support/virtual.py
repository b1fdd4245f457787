"""An event loop whose time is virtual: it jumps to the next timer when nothing else is to be done."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from tidegate.clock import Clock

T = TypeVar("T")


class _Jump(selectors.DefaultSelector):
    """Moves the time instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready and timeout:
            self.now_s += timeout
        assert ready or timeout is not None, "everybody waits, and no timer is set"
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Keeps the order of a real loop."""

    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)

    def time(self) -> float:
        return self._jump.now_s

    def clock(self, chance: float = 0.5) -> Clock:
        return Clock(
            monotonic=self.time,
            wall=lambda: 1_700_000_000 + self.time(),
            sleep=asyncio.sleep,
            chance=lambda: chance,
        )


def run(loop: VirtualLoop, task: Coroutine[Any, Any, T]) -> T:
    """Runs a task to its end, and closes the loop."""
    try:
        return loop.run_until_complete(task)
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
