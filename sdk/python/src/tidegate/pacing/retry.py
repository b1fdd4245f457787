"""Which answers and errors are worth another try, and after how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

IDEMPOTENT = frozenset(("GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"))

FIRST_BACKOFF_S = 0.1
MOST_BACKOFF_S = 10.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and for how long a request is tried."""

    max_retries: int = 3
    deadline_s: float = 30.0

    def __post_init__(self) -> None:
        if self.max_retries < 0:
            raise ValueError(f"max_retries must be 0 or more, got {self.max_retries}")
        if self.deadline_s <= 0:
            raise ValueError(f"deadline must be seconds above 0, got {self.deadline_s}")


def is_idempotent(method: str, headers: Mapping[str, str]) -> bool:
    """Whether doing it twice does no harm."""
    return method.upper() in IDEMPOTENT or "idempotency-key" in headers


def is_worth_retrying(status: int, *, denied: bool, idempotent: bool) -> bool:
    """A denial says that nothing was done; after 502, 503 and 504 nobody knows."""
    return denied or (status in (502, 503, 504) and idempotent)


def wait_s(attempt: int, told_s: float | None, chance: Callable[[], float]) -> float:
    """The wait that was asked for with a little jitter on top, or else a backoff, from attempt 0 on."""
    if told_s is not None:
        return told_s + chance() * max(0.1, min(told_s / 10, 5.0))
    most_s: float = min(MOST_BACKOFF_S, FIRST_BACKOFF_S * 2 ** min(attempt, 16))
    return chance() * most_s
