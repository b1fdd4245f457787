"""Which responses and errors are retried, and after how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

IDEMPOTENT = frozenset(("GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"))

MIN_BACKOFF_S = 0.1
MAX_BACKOFF_S = 10.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and for how long a request is retried.

    >>> RetryPolicy(max_retries=5, deadline_s=60.0)
    """

    max_retries: int = 3
    deadline_s: float = 30.0

    def __post_init__(self) -> None:
        if self.max_retries < 0:
            raise ValueError(f"max_retries must be 0 or more, got {self.max_retries}")
        if self.deadline_s <= 0:
            raise ValueError(f"deadline must be more than 0 seconds, got {self.deadline_s}")


def is_idempotent(method: str, headers: Mapping[str, str]) -> bool:
    """Returns whether sending a request twice has the effect of sending it once."""
    return method.upper() in IDEMPOTENT or "idempotency-key" in headers


def is_worth_retrying(status: int, *, denied: bool, idempotent: bool) -> bool:
    """Returns whether to retry: after a denial nothing was done; after 502, 503 and 504 it may have been."""
    return denied or (status in (502, 503, 504) and idempotent)


def wait_s(attempt: int, requested_s: float | None, chance: Callable[[], float]) -> float:
    """Returns the wait that the server requested, plus jitter, or else a backoff; the first attempt is 0."""
    if requested_s is not None:
        return requested_s + chance() * max(0.1, min(requested_s / 10, 5.0))
    max_s: float = min(MAX_BACKOFF_S, MIN_BACKOFF_S * 2 ** min(attempt, 16))
    return chance() * max_s
