"""Giving back what was charged, for work that was then not done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .answer import Answer, Unanswered, refuse
from .decision import LimitStatus, limit_statuses

if TYPE_CHECKING:
    from .ask import Ask
    from .fallback import Fallback

PATH = "/v1/refund"
"""A request to it is never sent twice."""


def left_of(answer: Answer) -> tuple[LimitStatus, ...]:
    """How each limit stands afterwards, as the service says."""
    refuse(answer)
    members = answer.members()
    if answer.status != 200 or not isinstance(members.get("limits"), list):
        raise Unanswered(f"the answer (status {answer.status}) to a refund has no limits")
    return limit_statuses(members["limits"])


def refund_here(fallback: Fallback, ask: Ask, why: Unanswered) -> tuple[LimitStatus, ...]:
    """Gives back to what this process counts; nothing is told of it.

    What was sent may have been done: given back here as well, it would be twice what was taken.
    """
    if not why.sent:
        fallback.refund(ask)
    return ()
