"""Settings of a client, from its arguments and the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .breaker import Breaker
from .clock import SYSTEM, Clock
from .fallback import Fallback, FallbackMode
from .target import Target

if TYPE_CHECKING:
    import ssl

    from .limits import LimitsLike

DEFAULT_URL = "http://localhost:8080"
DEFAULT_DEADLINE_S = 0.25


@dataclass(frozen=True, slots=True)
class Settings:
    """What both kinds of client are made of."""

    target: Target
    deadline_s: float
    fallback: Fallback
    breaker: Breaker
    context: ssl.SSLContext | None
    clock: Clock
    uses_service: bool = True
    """Whether there is a service; if not, the fallback decides everything."""


def make_settings(
    *,
    url: str | None,
    token: str | None,
    deadline: float,
    fallback: FallbackMode,
    enabled: bool,
    local_limits: LimitsLike | None,
    ssl_context: ssl.SSLContext | None = None,
    clock: Clock | None = None,
) -> Settings:
    """Returns the settings of a client of the service; a missing url or token comes from the environment."""
    if deadline <= 0:
        raise ValueError(f"deadline must be more than 0 seconds, got {deadline}")
    clock = clock or SYSTEM
    return Settings(
        target=Target(
            url or os.environ.get("TIDEGATE_URL") or DEFAULT_URL, token or os.environ.get("TIDEGATE_TOKEN")
        ),
        uses_service=enabled,
        deadline_s=deadline,
        fallback=Fallback(fallback if enabled else "disabled", local_limits, clock),
        # Twice the deadline is longer than any probe takes.
        breaker=Breaker(clock, probe_timeout_s=2 * deadline + 1),
        context=ssl_context,
        clock=clock,
    )


def local_settings(*, local_limits: LimitsLike | None, clock: Clock | None) -> Settings:
    """Returns the settings of a client that counts in this process and uses no service."""
    clock = clock or SYSTEM
    return Settings(
        target=Target(DEFAULT_URL, None),
        deadline_s=DEFAULT_DEADLINE_S,
        fallback=Fallback("local", local_limits, clock),
        breaker=Breaker(clock, probe_timeout_s=1.0),
        context=None,
        clock=clock,
        uses_service=False,
    )


def environment_settings() -> Settings:
    """Returns the settings of a client that is created without arguments."""
    return make_settings(
        url=None,
        token=None,
        deadline=DEFAULT_DEADLINE_S,
        fallback="local",
        enabled=True,
        local_limits=None,
    )
