"""Refunds: gives back what was charged, for work that was then not done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .decision import LimitStatus, limit_statuses
from .response import CallFailed, ServiceResponse, raise_for_status

if TYPE_CHECKING:
    from .check_body import CheckBody
    from .fallback import Fallback

PATH = "/v1/refund"
"""The path of refunds. A request to it is never sent twice."""


def parse_refund(response: ServiceResponse) -> tuple[LimitStatus, ...]:
    """Returns the state of each limit after a refund."""
    raise_for_status(response)
    members = response.members()
    if response.status != 200 or not isinstance(members.get("limits"), list):
        raise CallFailed(f"the response (status {response.status}) to a refund has no limits")
    return limit_statuses(members["limits"])


def refund_locally(fallback: Fallback, body: CheckBody, failure: CallFailed) -> tuple[LimitStatus, ...]:
    """Gives back to the counters of this process, unless the service may have received the refund.

    Given back in both places, it would be twice what was taken.
    """
    if not failure.sent:
        fallback.refund(body)
    return ()
