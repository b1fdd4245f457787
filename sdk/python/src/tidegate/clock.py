"""Time and randomness, which tests can replace."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """The source of time and randomness of a client."""

    monotonic: Callable[[], float] = time.monotonic
    """Returns seconds that never go back."""
    wall: Callable[[], float] = time.time
    """Returns seconds since the epoch."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits in an event loop."""
    block: Callable[[float], None] = time.sleep
    """Waits in a thread."""
    chance: Callable[[], float] = random.random
    """Returns a random number from 0 to below 1."""


SYSTEM = Clock()
