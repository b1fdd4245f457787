"""What can go wrong, each as a type of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .decision import Decision


class TidegateError(Exception):
    """Everything that this package raises by itself is one of these."""


class InvalidLimit(TidegateError, ValueError):  # noqa: N818 - it reads as what it is
    """A limit that cannot be read, such as ``"ten/minute"``."""


class RateLimitExceeded(TidegateError):  # noqa: N818 - the name that users of other limiters know
    """A request was denied.

    >>> decision = await client.check({"user": "ann"}, limits="10/minute")
    >>> decision.raise_for_denied()
    Traceback (most recent call last):
    tidegate.RateLimitExceeded: limit minute of rule inline allows 10 per minute; retry in 42 seconds
    """

    def __init__(self, decision: Decision) -> None:
        # Not by super(): among the bases of a subclass may be one that takes other arguments.
        self.args = (decision.detail,)
        self.decision = decision

    @property
    def retry_after(self) -> int | None:
        """Seconds until the same request would pass; ``None`` if it never will."""
        return self.decision.retry_after


class RequestRefused(TidegateError):  # noqa: N818
    """The service refused to decide (4xx other than 429): the request is at fault; ``detail`` says why."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"the service refused the request with {status}: {detail}")
        self.status = status
        self.detail = detail


class ServiceUnavailable(TidegateError):  # noqa: N818
    """The service did not answer in time, could not be reached, or answered 5xx.

    Checks, reservations and permits never raise it: they fall back. Settling and renewing have nothing to
    fall back to.
    """


class ClientClosed(TidegateError, RuntimeError):  # noqa: N818
    """The client was closed. Make another, or enter this one again by ``with``."""

    def __init__(self) -> None:
        super().__init__("the client is closed; make another one, or enter it again by `with`")


class ReservationGone(TidegateError):  # noqa: N818
    """The reservation was settled before, its time is up, or there never was one: it stays charged."""


class PermitLost(TidegateError):  # noqa: N818
    """The permit is not held any more: it was released, or its time-out passed."""
