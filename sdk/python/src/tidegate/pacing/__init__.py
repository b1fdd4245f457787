"""Clients that pace themselves: they slow down ahead of a limit, and come back when they are told to.

>>> client = httpx.AsyncClient(transport=PacingTransport())
"""

from .learned import Learned, Policy, delay_ms, is_denial, learn
from .pacer import Pacer
from .retry import RetryPolicy
from .transport import PacingTimeout, PacingTransport, SyncPacingTransport

__all__ = [
    "Learned",
    "Pacer",
    "PacingTimeout",
    "PacingTransport",
    "Policy",
    "RetryPolicy",
    "SyncPacingTransport",
    "delay_ms",
    "is_denial",
    "learn",
]
