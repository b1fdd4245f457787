"""Permits: slots of concurrency limits that are held while a block runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from .check_body import CheckBody, encode_json
from .errors import PermitLost, RequestRefused, TidegateError
from .response import CallFailed, ServiceResponse, parse_decision, raise_for_status, raise_unavailable

if TYPE_CHECKING:
    from types import TracebackType

    from .client import Tidegate
    from .clock import Clock
    from .fallback import Fallback

_log = logging.getLogger("tidegate")

PATH = "/v1/acquire"
RENEW_PATH = "/v1/renew"
RELEASE_PATH = "/v1/release"
NOT_RENEWED = "could not renew a permit"
NOT_RELEASED = "could not release a permit, it expires by itself"
# The shortest interval between renewals, however short the timeout.
_MIN_RENEWAL_S = 0.5
_FRACTION = re.compile(r"\.(\d+)")


@dataclass(frozen=True, slots=True)
class PermitGrant:
    """A permit as the service granted or renewed it."""

    permit: str | None
    """Its ID; ``None`` if the fallback let it pass."""
    expires_at: str | None
    """``None`` if no slot is held."""
    ttl_s: float | None
    """Seconds that the slot is held, from the time of the response."""


_NOTHING = PermitGrant(None, None, None)


def grant_locally(fallback: Fallback) -> PermitGrant:
    """Returns a permit that holds no slot; raises `RateLimitExceeded` if the fallback denies."""
    fallback.decide_permit().raise_for_denied()
    return _NOTHING


def parse_grant(response: ServiceResponse, clock: Clock) -> PermitGrant:
    """Returns the permit that the service granted; raises `RateLimitExceeded` on a denial."""
    if response.status == 429:
        parse_decision(response).raise_for_denied()
    raise_for_status(response)
    members = response.members()
    permit, expires_at = members.get("permit"), members.get("expires_at")
    if not isinstance(permit, str):
        raise CallFailed("the response to acquiring a permit has no permit")
    if expires_at is None:
        return PermitGrant(permit, None, None)
    return PermitGrant(permit, expires_at, max(0.0, _seconds(expires_at) - _service_time(response, clock)))


def _service_time(response: ServiceResponse, clock: Clock) -> float:
    """Returns the time of the response by the service's clock if known: it may differ from ours."""
    date = next((value for name, value in response.headers if name == "date"), None)
    with contextlib.suppress(ValueError, TypeError):
        if date is not None:
            return parsedate_to_datetime(date).timestamp()
    return clock.wall()


def _seconds(text: str) -> float:
    """Returns seconds since the epoch from RFC 3339. Python 3.10 parses neither ``Z`` nor nanoseconds."""
    text = _FRACTION.sub(lambda found: f".{found[1][:6]:0<6}", text.replace("Z", "+00:00"))
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError as error:
        raise CallFailed(f"expires_at is not an RFC 3339 time: {text!r}") from error


def encode_permit(permit: str) -> bytes:
    """Returns the body of a request to renew or release a permit."""
    return encode_json({"permit": permit})


def parse_renewal(response: ServiceResponse, clock: Clock) -> PermitGrant:
    """Returns the renewed permit; raises `PermitLost` if it is no longer held."""
    try:
        return parse_grant(response, clock)
    except RequestRefused as refused:
        if refused.status != 404:
            raise
        raise PermitLost(refused.detail) from refused


def check_released(response: ServiceResponse) -> None:
    """Raises unless the service released the permit."""
    if response.status != 204:
        raise_for_status(response)


class Permit:
    """A slot of a concurrency limit, from `Tidegate.acquire`. It is renewed and released automatically.

    >>> async with client.acquire({"export": "ann"}, domain="shop") as permit:
    ...     for page in pages:
    ...         await export(page)
    ...         if permit.is_lost:
    ...             break
    """

    def __init__(self, client: Tidegate, grant: PermitGrant) -> None:
        self._client = client
        self._grant = grant
        self._is_lost = False

    @property
    def id(self) -> str | None:
        """The ID of the permit at the service; ``None`` if the fallback let it pass."""
        return self._grant.permit

    @property
    def expires_at(self) -> str | None:
        """When the slot is lost unless it is renewed (RFC 3339); ``None`` if no slot is held."""
        return self._grant.expires_at

    @property
    def ttl_s(self) -> float | None:
        """Seconds that the slot is held from the last grant or renewal; ``None`` if no slot is held."""
        return self._grant.ttl_s

    @property
    def is_lost(self) -> bool:
        """Whether the slot was lost, so that another holder may have it. Exclusive work should stop then."""
        return self._is_lost

    async def renew(self) -> None:
        """Holds the slot for another timeout of the rule; raises `PermitLost` if it is too late.

        The block around the permit does so in time; there is no need to call it.
        """
        if self.id is None:
            return
        try:
            with raise_unavailable(NOT_RENEWED):
                response = await self._client._call(RENEW_PATH, encode_permit(self.id))
                self._grant = parse_renewal(response, self._client._settings.clock)
        except PermitLost:
            self._is_lost = True
            raise

    async def release(self) -> None:
        """Returns the slot. Leaving the block does so, too; a second call does nothing."""
        if self.id is None:
            return
        with raise_unavailable(NOT_RELEASED):
            check_released(await self._client._call(RELEASE_PATH, encode_permit(self.id)))


class AcquireContext:
    """The context manager that `Tidegate.acquire` returns."""

    def __init__(self, client: Tidegate, body: CheckBody) -> None:
        self._client = client
        self._body = body
        self._permit: Permit | None = None
        self._renewal: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Permit:
        self._permit = permit = Permit(self._client, await self._acquire())
        if permit.ttl_s is not None:
            self._renewal = asyncio.ensure_future(_keep_renewed(permit, self._client._settings.clock))
        return permit

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._permit is not None:
            # In a task of its own: a caller that is cancelled here still returns the slot.
            await asyncio.shield(asyncio.ensure_future(_end(self._permit, self._renewal)))

    async def _acquire(self) -> PermitGrant:
        settings = self._client._settings
        try:
            return parse_grant(await self._client._call(PATH, self._body.encode()), settings.clock)
        except CallFailed:
            return grant_locally(settings.fallback)


async def _keep_renewed(permit: Permit, clock: Clock) -> None:
    """Renews after a third of the timeout, so that two failures in a row lose nothing."""
    while permit.ttl_s is not None:
        await clock.sleep(max(permit.ttl_s / 3, _MIN_RENEWAL_S))
        try:
            await permit.renew()
        except PermitLost as lost:
            _log.warning("a permit was lost while it was held: %s", lost)
            return
        except TidegateError as error:
            _log.warning("a permit was not renewed, retrying: %s", error)


async def _end(permit: Permit, renewal: asyncio.Task[None] | None) -> None:
    if renewal is not None:
        renewal.cancel()
        await asyncio.wait({renewal})
    if permit.is_lost:
        return
    try:
        await permit.release()
    except TidegateError as error:
        _log.warning("%s", error)
