"""Slots of concurrency limits, held for as long as a block runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from .answer import Answer, Unanswered, decision_of, or_unavailable, refuse
from .ask import Ask, encode
from .errors import PermitLost, RequestRefused, TidegateError

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
NOT_RELEASED = "could not release a permit, it runs out by itself"
# However short the time-out: renewing more often than this is no use to anybody.
_MOST_OFTEN_S = 0.5
_FRACTION = re.compile(r"\.(\d+)")


@dataclass(frozen=True, slots=True)
class Held:
    """What an answer says of a permit."""

    permit: str | None
    """``None`` where the service did not answer and the fallback let it pass."""
    expires_at: str | None
    """``None`` if it holds nothing."""
    ttl_s: float | None
    """How long it is held."""


_NOTHING = Held(None, None, None)


def held_here(fallback: Fallback) -> Held:
    """Holds nothing, as the service does not answer; raises `RateLimitExceeded` if nothing passes then."""
    fallback.hold().raise_for_denied()
    return _NOTHING


def held_of(answer: Answer, clock: Clock) -> Held:
    """Reads the answer to an acquisition; raises `RateLimitExceeded` on a denial."""
    if answer.status == 429:
        decision_of(answer).raise_for_denied()
    refuse(answer)
    members = answer.members()
    permit, expires_at = members.get("permit"), members.get("expires_at")
    if not isinstance(permit, str):
        raise Unanswered("the answer to an acquisition has no permit")
    if expires_at is None:
        return Held(permit, None, None)
    return Held(permit, expires_at, max(0.0, _seconds(expires_at) - _told_now(answer, clock)))


def _told_now(answer: Answer, clock: Clock) -> float:
    """The service's own time if it tells it: its clock and ours may differ."""
    date = next((value for name, value in answer.headers if name == "date"), None)
    with contextlib.suppress(ValueError, TypeError):
        if date is not None:
            return parsedate_to_datetime(date).timestamp()
    return clock.wall()


def _seconds(text: str) -> float:
    """RFC 3339 to seconds since the epoch. Python 3.10 knows neither ``Z`` nor nanoseconds."""
    text = _FRACTION.sub(lambda found: f".{found[1][:6]:0<6}", text.replace("Z", "+00:00"))
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError as error:
        raise Unanswered(f"expires_at is no time: {text!r}") from error


def message_of(permit: str) -> bytes:
    """What is sent to renew or release one."""
    return encode({"permit": permit})


def renewed_of(answer: Answer, clock: Clock) -> Held:
    """Reads the answer to a renewal; raises `PermitLost` if it came too late."""
    try:
        return held_of(answer, clock)
    except RequestRefused as refused:
        if refused.status != 404:
            raise
        raise PermitLost(refused.detail) from refused


def expect_released(answer: Answer) -> None:
    """Reads the answer to a release."""
    if answer.status != 204:
        refuse(answer)


class Permit:
    """A slot that is held."""

    def __init__(self, client: Tidegate, held: Held) -> None:
        self._client = client
        self._held = held
        self._is_lost = False

    @property
    def id(self) -> str | None:
        """Its name at the service; ``None`` if the fallback let it pass."""
        return self._held.permit

    @property
    def expires_at(self) -> str | None:
        """When it is lost unless renewed (RFC 3339); ``None`` if it holds nothing."""
        return self._held.expires_at

    @property
    def ttl_s(self) -> float | None:
        """How long it was held from when the service said so."""
        return self._held.ttl_s

    @property
    def is_lost(self) -> bool:
        """Whether the service has given the slot to somebody else. Work that must be alone should look."""
        return self._is_lost

    async def renew(self) -> None:
        """Keeps it for another time-out. Happens by itself; raises `PermitLost` if it is too late."""
        if self.id is None:
            return
        try:
            with or_unavailable(NOT_RENEWED):
                answer = await self._client.call(RENEW_PATH, message_of(self.id))
                self._held = renewed_of(answer, self._client.clock)
        except PermitLost:
            self._is_lost = True
            raise

    async def release(self) -> None:
        """Gives the slot back. Happens by itself; may be repeated."""
        if self.id is None:
            return
        with or_unavailable(NOT_RELEASED):
            expect_released(await self._client.call(RELEASE_PATH, message_of(self.id)))


class AcquireContext:
    """What `Tidegate.acquire` gives: enter it to take a slot."""

    def __init__(self, client: Tidegate, ask: Ask) -> None:
        self._client = client
        self._ask = ask
        self._permit: Permit | None = None
        self._renewal: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Permit:
        self._permit = permit = Permit(self._client, await self._acquire())
        if permit.ttl_s is not None:
            self._renewal = asyncio.ensure_future(_keep(permit, self._client.clock))
        return permit

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._permit is not None:
            # By a task of its own: whoever is cancelled here still gives the slot back.
            await asyncio.shield(asyncio.ensure_future(_end(self._permit, self._renewal)))

    async def _acquire(self) -> Held:
        try:
            return held_of(await self._client.call(PATH, self._ask.message()), self._client.clock)
        except Unanswered:
            return held_here(self._client.fallback)


async def _keep(permit: Permit, clock: Clock) -> None:
    """Renews at a third of the time, so that two failures in a row lose nothing."""
    while permit.ttl_s is not None:
        await clock.sleep(max(permit.ttl_s / 3, _MOST_OFTEN_S))
        try:
            await permit.renew()
        except PermitLost as lost:
            _log.warning("a permit was lost while it was held: %s", lost)
            return
        except TidegateError as error:
            _log.warning("a permit was not renewed, trying again: %s", error)


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
