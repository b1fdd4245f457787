"""The errors of this package."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .decision import Decision


class TidegateError(Exception):
    """The base class of all errors of this package.

    >>> try:
    ...     client.check({"user": "ann"}, limits="10/minute").raise_for_denied()
    ... except TidegateError as error:
    ...     print(error)
    """


class InvalidLimit(TidegateError, ValueError):  # noqa: N818 - named by what it is about
    """A limit in code cannot be parsed, such as ``"ten/minute"``, or is listed twice."""


class RateLimitExceeded(TidegateError):  # noqa: N818 - the name that users of other limiters know
    """A request was denied. ``decision`` is the denial.

    >>> decision = await client.check({"user": "ann"}, limits="10/minute")
    >>> decision.raise_for_denied()
    Traceback (most recent call last):
    tidegate.RateLimitExceeded: limit minute of rule inline allows 10 per minute; retry in 42 seconds
    """

    def __init__(self, decision: Decision) -> None:
        # Without super(): another base class of a subclass may expect other arguments.
        self.args = (decision.detail,)
        self.decision = decision

    @property
    def retry_after(self) -> int | None:
        """Seconds until the same request would pass; ``None`` if it never would."""
        return self.decision.retry_after


class RequestRefused(TidegateError):  # noqa: N818
    """The service rejected a request as invalid (4xx other than 429); retrying does not help.

    ``status`` is the HTTP status and ``detail`` the reason that the service gave, such as an unknown domain,
    a limit that the domain does not allow, or a wrong token.
    """

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"the service refused the request with {status}: {detail}")
        self.status = status
        self.detail = detail


class ServiceUnavailable(TidegateError):  # noqa: N818
    """The service could not be reached, was too slow, or responded with 5xx.

    Checks, reservations and permits never raise it, because the fallback decides then. Settling a
    reservation and renewing or releasing a permit by hand do.
    """


class ClientClosed(TidegateError, RuntimeError):  # noqa: N818
    """The client is closed. Create another one, or enter it again by ``with`` or ``async with``."""

    def __init__(self) -> None:
        super().__init__("the client is closed; create another one, or enter it again by `with`")


class ReservationGone(TidegateError):  # noqa: N818
    """A reservation cannot be settled: it was settled before, or has expired. The charge stays."""


class PermitLost(TidegateError):  # noqa: N818
    """A permit cannot be renewed: it was released, or its timeout has passed."""
