"""Time and chance, in one place so that tests can hold them."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """Where time, sleep and chance come from."""

    monotonic: Callable[[], float] = time.monotonic
    """Seconds that only go forward."""
    wall: Callable[[], float] = time.time
    """Seconds since the epoch."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    block: Callable[[float], None] = time.sleep
    """Sleep of a thread."""
    chance: Callable[[], float] = random.random
    """A number from 0 up to 1."""


SYSTEM = Clock()
