"""Slots, held for as long as a block runs."""

from __future__ import annotations

import asyncio
import json

import pytest

from support.clock import FakeClock
from support.service import Service
from support.stub import Received, Reply, denied, serve
from tidegate import PermitLost, RateLimitExceeded, SyncTidegate, Tidegate
from tidegate.permit import parse_grant
from tidegate.response import ServiceResponse

pytestmark = pytest.mark.anyio

EXPIRES = "2026-01-01T00:01:00.123456789Z"
DATE = ("date", "Thu, 01 Jan 2026 00:00:00 GMT")


async def test_the_real_service_has_one_slot(service: Service, client_name: str) -> None:
    async with Tidegate(service.url, deadline=30) as client:
        held = client.acquire({"api_key": client_name}, domain="api_platform")
        async with held as permit:
            assert permit.id
            assert permit.ttl_s is not None
            assert 50 < permit.ttl_s <= 62
            with pytest.raises(RateLimitExceeded) as raised:
                async with client.acquire({"api_key": client_name}, domain="api_platform"):
                    pytest.fail("there is only one slot")
            assert raised.value.decision.json["window"] is None
            await permit.renew()
            await permit.release()
            with pytest.raises(PermitLost):
                await permit.renew()
            assert permit.is_lost
        async with client.acquire({"api_key": client_name}, domain="api_platform"):
            pass


def test_threads_hold_slots_too(service: Service, client_name: str) -> None:
    with SyncTidegate(service.url, deadline=30) as client:
        with client.acquire({"api_key": client_name}, domain="api_platform") as permit:
            permit.renew()
            with (
                pytest.raises(RateLimitExceeded),
                client.acquire({"api_key": client_name}, domain="api_platform"),
            ):
                pytest.fail("there is only one slot")
        with client.acquire({"api_key": client_name}, domain="api_platform") as permit:
            permit.release()
            with pytest.raises(PermitLost):
                permit.renew()


async def test_what_falls_under_no_limit_holds_nothing(service: Service) -> None:
    async with (
        Tidegate(service.url, deadline=30) as client,
        client.acquire({"nothing": "known"}, domain="api_platform") as permit,
    ):
        assert permit.expires_at is None


class Renewing:
    """A service that says how often it was asked to renew."""

    def __init__(self, *, lost_after: int = 100, fails: int = 0) -> None:
        self.renewed = asyncio.Semaphore(0)
        self.loop = asyncio.get_running_loop()
        self.lost_after = lost_after
        self.fails = fails
        self.count = 0

    def answer(self, received: Received) -> Reply:
        if received.path == "/v1/release":
            return Reply(204)
        if received.path == "/v1/renew":
            self.count += 1
            self.loop.call_soon_threadsafe(self.renewed.release)
            if self.count <= self.fails:
                return Reply(500, "oops")
            if self.count > self.lost_after:
                return Reply(404, '{"detail":"the permit is not held any more"}')
        return Reply(body=json.dumps({"permit": "p1", "expires_at": EXPIRES}), headers=(DATE,))


class StandingClock(FakeClock):
    """Sleeps as long as it takes for the other side to see what came before."""

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0.001)


async def test_a_permit_is_renewed_at_a_third_of_its_time_and_released_at_the_end() -> None:
    renewing = Renewing(fails=1)
    clock = StandingClock()
    with serve(renewing.answer) as stub:
        async with Tidegate(stub.url, deadline=30, clock=clock.clock()) as client:
            async with client.acquire({"export": "ann"}, domain="shop"):
                for _ in range(3):
                    await asyncio.wait_for(renewing.renewed.acquire(), 30)
        assert stub.received[-1].path == "/v1/release"
        assert stub.received[-1].body == {"permit": "p1"}
    assert clock.slept[:2] == [pytest.approx(20.04, abs=0.01)] * 2


async def test_a_permit_that_was_lost_says_so_and_is_not_released(caplog: pytest.LogCaptureFixture) -> None:
    renewing = Renewing(lost_after=0)
    with serve(renewing.answer) as stub:
        async with Tidegate(stub.url, deadline=30, clock=StandingClock().clock()) as client:
            async with client.acquire({"export": "ann"}, domain="shop") as permit:
                await asyncio.wait_for(_until(lambda: permit.is_lost), 30)
        assert [one.path for one in stub.received] == ["/v1/acquire", "/v1/renew"]
    assert "a permit was lost" in caplog.text


async def _until(holds: object) -> None:
    while not holds():  # type: ignore[operator]
        await asyncio.sleep(0.001)


async def test_a_denial_raises() -> None:
    with serve(lambda _: denied(7)) as stub:
        async with Tidegate(stub.url, deadline=30) as client:
            with pytest.raises(RateLimitExceeded):
                await client.acquire({"export": "ann"}, domain="shop").__aenter__()


async def test_while_the_service_is_away_only_deny_denies() -> None:
    async with Tidegate("http://127.0.0.1:9", deadline=30) as client:
        async with client.acquire({"export": "ann"}, domain="shop") as permit:
            assert permit.id is None
            await permit.renew()
    async with Tidegate("http://127.0.0.1:9", deadline=30, fallback="deny") as client:
        with pytest.raises(RateLimitExceeded):
            await client.acquire({"export": "ann"}, domain="shop").__aenter__()


@pytest.mark.parametrize(
    ("expires_at", "ttl_s"),
    [("2026-01-01T00:01:00Z", 60), ("2026-01-01T00:01:00.5Z", 60.5), ("2026-01-01T01:01:00+01:00", 60)],
)
def test_times_of_the_service_are_compared_with_its_own_clock(expires_at: str, ttl_s: float) -> None:
    answer = ServiceResponse(200, (DATE,), json.dumps({"permit": "p", "expires_at": expires_at}))
    assert parse_grant(answer, FakeClock().clock()).ttl_s == ttl_s
