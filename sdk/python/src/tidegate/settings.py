"""What a client is told when it is made."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .breaker import Breaker
from .clock import SYSTEM, Clock
from .fallback import Fallback, FallbackMode
from .wire import Target

if TYPE_CHECKING:
    import ssl

    from .limits import LimitsLike

DEFAULT_URL = "http://localhost:8080"
DEFAULT_DEADLINE_S = 0.25


@dataclass(frozen=True, slots=True)
class Settings:
    """The parts that both kinds of client have."""

    target: Target
    deadline_s: float
    fallback: Fallback
    breaker: Breaker
    context: ssl.SSLContext | None
    clock: Clock


def settings_of(
    *,
    url: str | None,
    token: str | None,
    deadline: float,
    fallback: FallbackMode,
    local_limits: LimitsLike | None,
    ssl_context: ssl.SSLContext | None,
    clock: Clock | None,
) -> Settings:
    """Settings from arguments; what is not given is taken from the environment."""
    if deadline <= 0:
        raise ValueError(f"deadline must be seconds above 0, got {deadline}")
    clock = clock or SYSTEM
    return Settings(
        target=Target(
            url or os.environ.get("TIDEGATE_URL") or DEFAULT_URL, token or os.environ.get("TIDEGATE_TOKEN")
        ),
        deadline_s=deadline,
        fallback=Fallback(fallback, local_limits, clock),
        # Twice the deadline is longer than any trial takes.
        breaker=Breaker(clock, patience_s=2 * deadline + 1),
        context=ssl_context,
        clock=clock,
    )
