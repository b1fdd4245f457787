"""Transports for httpx that keep a client within the rate limits of the servers it calls.

>>> client = httpx.AsyncClient(transport=PacingTransport())
>>> client = httpx.Client(transport=SyncPacingTransport())

They read the rate limit headers of every response, wait before a request would be denied, and retry denied
requests when the server allows it.
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
