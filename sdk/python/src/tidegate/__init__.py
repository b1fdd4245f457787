"""Rate limits for FastAPI, Starlette and any ASGI app, decided by a Tidegate service.

>>> app.add_middleware(TidegateMiddleware, limits="100/minute")

`TidegateMiddleware` limits a whole app, `tidegate.fastapi` has a dependency and a decorator for single
routes, `Tidegate` and `SyncTidegate` ask the service directly, and `tidegate.pacing` keeps httpx within the
limits of other servers.
"""

from .asgi import TidegateMiddleware
from .check_body import Descriptor
from .client import Tidegate
from .client_ip import ClientAddress, ClientIp
from .decision import DecidedBy, Decision, LimitStatus
from .errors import (
    ClientClosed,
    InvalidLimit,
    PermitLost,
    RateLimitExceeded,
    RequestRefused,
    ReservationGone,
    ServiceUnavailable,
    TidegateError,
)
from .estimate import Settlement
from .limits import Limit, parse_limits
from .permit import Permit
from .request import Request, by_header
from .reservation import Reservation
from .sync import SyncPermit, SyncReservation, SyncTidegate

__version__ = "0.1.0"

__all__ = [
    "ClientAddress",
    "ClientClosed",
    "ClientIp",
    "DecidedBy",
    "Decision",
    "Descriptor",
    "InvalidLimit",
    "Limit",
    "LimitStatus",
    "Permit",
    "PermitLost",
    "RateLimitExceeded",
    "Request",
    "RequestRefused",
    "Reservation",
    "ReservationGone",
    "ServiceUnavailable",
    "Settlement",
    "SyncPermit",
    "SyncReservation",
    "SyncTidegate",
    "Tidegate",
    "TidegateError",
    "TidegateMiddleware",
    "by_header",
    "parse_limits",
]
