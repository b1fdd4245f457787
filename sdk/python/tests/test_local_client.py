"""Clients without a service, clients that are switched off, and clients that are closed."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest
from fastapi import Depends, FastAPI

from support.apps import hello, web
from support.clock import FakeClock
from support.stub import ALLOWED, decided, serve
from tidegate import (
    ClientClosed,
    Limit,
    RateLimitExceeded,
    SyncTidegate,
    Tidegate,
    TidegateMiddleware,
    warnings,
)
from tidegate.fastapi import install, limit

pytestmark = pytest.mark.anyio

ANN = {"user": "ann"}


async def test_a_local_client_counts_without_a_service(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    async with Tidegate.local(clock=clock.clock()) as client:
        decisions = [await client.check(ANN, limits="2/minute") for _ in range(3)]
        assert [decision.allowed for decision in decisions] == [True, True, False]
        assert decisions[2].source == "local"
        assert decisions[2].retry_after is not None
        assert decisions[0].header("ratelimit") == '"inline:minute";r=1;t=60'
        clock.advance(60)
        assert (await client.check(ANN, limits="2/minute")).allowed
        assert (await client.check(ANN)).allowed, "there is no limit to count"
    assert not caplog.records


async def test_what_only_clients_of_a_service_could_do_works_here_too() -> None:
    async with Tidegate.local() as client:
        async with client.reserve(ANN, cost=8, limits="10/hour") as reservation:
            reservation.settle(3)
        assert (await client.check(ANN, limits="10/hour", cost=0)).limits[0].remaining == 7
        await client.refund(ANN, limits="10/hour", cost=2)
        assert (await client.check(ANN, limits="10/hour", cost=0)).limits[0].remaining == 9
        with pytest.raises(RateLimitExceeded):
            async with client.reserve(ANN, cost=10, limits="10/hour"):
                pass
        async with client.acquire(ANN, domain="shop") as permit:
            assert permit.id is None


def test_threads_have_the_same() -> None:
    with SyncTidegate.local(local_limits="1/hour") as client:
        assert client.check(ANN).allowed
        assert not client.check(ANN).allowed
        client.reset()
        assert client.check(ANN).allowed
        with client.reserve(ANN, cost=4, limits="10/hour") as reservation:
            reservation.settle(1)
        assert client.check(ANN, limits="10/hour", cost=0).limits[0].remaining == 9


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        (Limit(10, "10s", algorithm="fixed_window"), 10),
        (Limit(10, "10s", algorithm="sub_windows"), 10),
        (Limit(10, "10s"), 10),
        (Limit(60, "minute", burst=3), 3),
        (Limit(60, "minute", algorithm="leaky_bucket"), 1),
    ],
)
async def test_every_algorithm_that_code_can_name_counts_here(given: Limit, passed: int) -> None:
    async with Tidegate.local(clock=FakeClock(now_s=1_000).clock()) as client:
        decisions = [await client.check(ANN, limits=given) for _ in range(12)]
    assert sum(decision.allowed for decision in decisions) == passed


async def test_lowering_a_named_bucket_never_makes_anybody_wait_longer_than_its_window() -> None:
    clock = FakeClock()
    async with Tidegate.local(clock=clock.clock()) as client:
        await client.check(ANN, limits=Limit(100, "minute", name="steady", burst=100), cost=50)
        lowered = Limit(5, "minute", name="steady", burst=5)
        denied = await client.check(ANN, limits=lowered)
        assert [one.retry_after_ms for one in denied.limits] == [12_000]
        clock.advance(12)
        assert (await client.check(ANN, limits=lowered)).allowed, "the denial counts by the new rate already"
        raised = await client.check(ANN, limits=Limit(100, "minute", name="steady", burst=100), cost=0)
        assert [one.remaining for one in raised.limits] == [95]


async def test_a_bucket_that_was_overdrawn_owes_it_all_under_a_lower_limit_too() -> None:
    clock = FakeClock()
    async with Tidegate.local(clock=clock.clock()) as client:
        async with client.reserve(
            ANN, limits=Limit(60, "minute", name="steady", burst=60), cost=1
        ) as reservation:
            reservation.settle(90)
        denied = await client.check(ANN, limits=Limit(30, "minute", name="steady", burst=30))
        assert [one.retry_after_ms for one in denied.limits] == [122_000]


@pytest.mark.parametrize("algorithm", ["fixed_window", "sliding_window"])
async def test_windows_begin_when_the_services_do(algorithm: str) -> None:
    """The monotonic clock begins anywhere; windows are aligned to the epoch."""
    fake = FakeClock(now_s=7)
    clock = dataclasses.replace(fake.clock(), wall=lambda: 1_700_000_030 + fake.now_s - 7)
    async with Tidegate.local(clock=clock) as client:
        last = Limit(20, "minute", algorithm=algorithm)
        first = await client.check(ANN, limits=last, cost=20)
        window_ms = 0 if algorithm == "fixed_window" else 60_000
        assert [one.reset_after_ms for one in first.limits] == [10_000 + window_ms]
        fake.advance(9.999)
        assert not (await client.check(ANN, limits=last)).allowed
        fake.advance(0.001 + window_ms / 1000)
        assert (await client.check(ANN, limits=last, cost=20)).allowed


async def test_a_reservation_is_settled_in_the_window_it_was_made_in() -> None:
    fake = FakeClock(now_s=7)
    clock = dataclasses.replace(fake.clock(), wall=lambda: 1_700_000_030 + fake.now_s - 7)
    last = Limit(20, "minute", algorithm="fixed_window")
    async with Tidegate.local(clock=clock) as client:
        async with client.reserve(ANN, cost=20, limits=last) as reservation:
            fake.advance(9)
            reservation.settle(5)
        assert [one.remaining for one in (await client.check(ANN, limits=last, cost=0)).limits] == [15]
        async with client.reserve(ANN, cost=15, limits=last) as reservation:
            fake.advance(2)
            assert (await client.check(ANN, limits=last, cost=20)).allowed, "the next window"
            reservation.settle(0)
        assert [one.remaining for one in (await client.check(ANN, limits=last, cost=0)).limits] == [0]


async def test_setting_the_wall_clock_changes_no_counter() -> None:
    fake, set_by_s = FakeClock(), 0.0
    clock = dataclasses.replace(fake.clock(), wall=lambda: 1_700_000_000 + fake.now_s + set_by_s)
    async with Tidegate.local(clock=clock) as client:
        assert (await client.check(ANN, limits="1/hour")).allowed
        set_by_s = 86_400.0
        assert not (await client.check(ANN, limits="1/hour")).allowed


async def test_a_reset_makes_every_limit_whole_again() -> None:
    app = FastAPI()
    client = Tidegate.local()
    install(app, client=client)

    @app.get("/", dependencies=[Depends(limit("1/hour"))])
    async def index() -> str:
        return "hello"

    async with web(app) as asking:
        for _ in range(3):
            assert [(await asking.get("/")).status_code for _ in range(2)] == [200, 429]
            client.reset()


async def test_a_disabled_client_lets_every_request_pass_without_a_service() -> None:
    with serve(lambda received: decided(received, lambda _: ALLOWED)) as stub:
        client = Tidegate(stub.url, enabled=False, fallback="deny")
        decisions = [await client.check(ANN, limits="1/hour") for _ in range(3)]
        assert [decision.allowed for decision in decisions] == [True] * 3
        assert {decision.source for decision in decisions} == {"disabled"}
        async with client.reserve(ANN, cost=100, limits="1/hour") as reservation:
            reservation.settle(100)
        async with client.acquire(ANN, domain="shop"):
            pass
        assert SyncTidegate(stub.url, enabled=False).check(ANN, limits="0/hour").allowed
        async with web(TidegateMiddleware(hello, "1/hour", url=stub.url, enabled=False)) as asking:
            answers = [await asking.get("/") for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200] * 3
        assert "ratelimit" not in answers[0].headers
        assert not stub.received


async def test_many_local_clients_are_no_mistake(caplog: pytest.LogCaptureFixture) -> None:
    clients = [Tidegate.local() for _ in range(2 * warnings.MAX_LIMITERS)]
    assert len({id(client) for client in clients}) == len(clients)
    assert not caplog.records


async def test_a_closed_client_says_so() -> None:
    with serve(lambda received: decided(received, lambda _: ALLOWED)) as stub:
        client = Tidegate(stub.url, deadline=30)
        sync = SyncTidegate(stub.url, deadline=30)
        await client.check(ANN)
        await asyncio.to_thread(sync.check, ANN)
        await client.aclose()
        sync.close()
        sync.close()
        for ask in (client.check(ANN), client.refund(ANN), client.reserve(ANN, cost=1).__aenter__()):
            with pytest.raises(ClientClosed, match="closed"):
                await ask
        for call in (sync.check, sync.refund):
            with pytest.raises(ClientClosed, match="closed"):
                call(ANN)
        assert len(stub.received) == 2
        async with client:  # as an app does that is started again
            assert (await client.check(ANN)).allowed
        with sync:
            assert (await asyncio.to_thread(sync.check, ANN)).allowed
