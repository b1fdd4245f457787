"""Estimates, and what becomes of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.clock import FakeClock
from support.service import Service
from support.stub import Received, Reply, Stub, denied, serve
from tidegate import (
    RateLimitExceeded,
    ReservationGone,
    ServiceUnavailable,
    Settlement,
    SyncTidegate,
    Tidegate,
    TidegateError,
)
from tidegate.estimate import parse_settlement

pytestmark = pytest.mark.anyio

USER = {"user": "ann"}
LIMIT = {"rule": "inline", "name": "minute", "limit": 1000, "remaining": 0, "reset_after_ms": 1}
LIMIT |= {"retry_after_ms": None, "shadow": False}


def reserving(received: Received) -> Reply:
    """As the contract has it."""
    if received.path == "/v1/reserve":
        body = {"id": "r1", "expires_at": "2026-01-01T00:00:00Z", "allowed": True, "decided_by": None}
        return Reply(body=json.dumps(body | {"source": "memory", "limits": [LIMIT]}))
    assert received.path == "/v1/settle"
    cost = received.body["cost"]
    if cost == 410:
        return Reply(410, '{"type":"about:blank","title":"Gone","status":410,"detail":"it is settled"}')
    if cost == 500:
        return Reply(500, "oops")
    return Reply(body=json.dumps({"estimate": 500, "cost": cost, "limits": [LIMIT]}))


@pytest.fixture
def stub() -> Iterator[Stub]:
    with serve(reserving) as stub:
        yield stub


@pytest.fixture
def client(stub: Stub) -> Tidegate:
    return Tidegate(stub.url, deadline=30)


def settled(stub: Stub) -> list[Any]:
    return [body["cost"] for body in stub.bodies("/v1/settle")]


async def test_reserves_the_estimate_and_settles_when_the_block_is_left(stub: Stub, client: Tidegate) -> None:
    async with client.reserve(USER, cost=500, limits="1000/minute", ttl=90) as reservation:
        assert (reservation.id, reservation.estimate) == ("r1", 500)
        assert reservation.expires_at == "2026-01-01T00:00:00Z"
        assert reservation.decision.limits[0].limit == 1000
        reservation.settle(7)
        assert settled(stub) == []
        reservation.settle(8)
    assert stub.bodies("/v1/reserve") == [
        {
            "domain": "apps",
            "descriptors": [
                {
                    "entries": [{"key": "user", "value": "ann"}],
                    "limits": [{"requests": 1000, "per": "minute"}],
                }
            ],
            "cost": 500,
            "ttl_ms": 90_000,
        }
    ]
    assert stub.bodies("/v1/settle") == [{"id": "r1", "cost": 8}]


async def test_an_estimate_of_1_is_sent_too(stub: Stub, client: Tidegate) -> None:
    async with client.reserve(USER, cost=1):
        pass
    assert stub.bodies("/v1/reserve")[0]["cost"] == 1


async def test_await_settles_at_once(stub: Stub, client: Tidegate) -> None:
    async with client.reserve(USER, cost=500) as reservation:
        outcome = await reservation.settle(7)
        assert isinstance(outcome, Settlement)
        assert (outcome.estimate, outcome.cost, outcome.limits[0].name) == (500, 7, "minute")
        with pytest.raises(ReservationGone):
            await reservation.settle(8)
    assert settled(stub) == [7]


async def test_without_settling_the_estimate_stays_charged(stub: Stub, client: Tidegate) -> None:
    async with client.reserve(USER, cost=500):
        pass
    assert settled(stub) == []


async def test_an_exception_gives_everything_back_unless_on_error_is_keep(
    stub: Stub, client: Tidegate
) -> None:
    with pytest.raises(KeyError):
        async with client.reserve(USER, cost=500):
            raise KeyError
    assert settled(stub) == [0]
    with pytest.raises(KeyError):
        async with client.reserve(USER, cost=500, on_error="keep"):
            raise KeyError
    assert settled(stub) == [0]


async def test_what_was_settled_before_an_exception_counts(stub: Stub, client: Tidegate) -> None:
    with pytest.raises(KeyError):
        async with client.reserve(USER, cost=500) as reservation:
            reservation.settle(3)
            raise KeyError
    assert settled(stub) == [3]


async def test_a_cancelled_block_gives_everything_back(stub: Stub, client: Tidegate) -> None:
    entered = asyncio.Event()

    async def work() -> None:
        async with client.reserve(USER, cost=500):
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert settled(stub) == [0]


async def test_a_denial_raises_on_entering() -> None:
    with serve(lambda _: denied(7)) as stub:
        async with Tidegate(stub.url, deadline=30) as client:
            with pytest.raises(RateLimitExceeded) as raised:
                async with client.reserve(USER, cost=500):
                    pytest.fail("it was denied")
    assert raised.value.retry_after == 7


@pytest.mark.parametrize(("cost", "error"), [(410, ReservationGone), (500, ServiceUnavailable)])
async def test_a_failed_settlement_raises_if_awaited_and_is_logged_otherwise(
    client: Tidegate, caplog: pytest.LogCaptureFixture, cost: int, error: type[TidegateError]
) -> None:
    async with client.reserve(USER, cost=500) as reservation:
        with pytest.raises(error):
            await reservation.settle(cost)
    async with client.reserve(USER, cost=500) as reservation:
        reservation.settle(cost)
    assert "a reservation was not settled" in caplog.text


def faltering(*statuses: int) -> Callable[[Received], Reply]:
    """Settles only after so many failures; a status of 0 settles, and its answer is lost."""
    left = list(statuses)
    gone = Reply(410, '{"type":"about:blank","title":"Gone","status":410,"detail":"it is settled"}')
    settled = False

    def answer(received: Received) -> Reply:
        nonlocal settled
        if received.path == "/v1/settle" and left:
            status = left.pop(0)
            settled = settled or status == 0
            return Reply(status, "oops") if status else Reply(raw=b"")
        return gone if received.path == "/v1/settle" and settled else reserving(received)

    return answer


async def test_a_settlement_that_failed_may_be_tried_again() -> None:
    with serve(faltering(503, 500)) as stub:
        async with Tidegate(stub.url, deadline=30) as client:
            async with client.reserve(USER, cost=500) as reservation:
                for _ in range(2):
                    with pytest.raises(ServiceUnavailable):
                        await reservation.settle(7)
                assert (await reservation.settle(7)).cost == 7
                with pytest.raises(ReservationGone):
                    await reservation.settle(7)
        assert settled(stub) == [7, 7, 7]
    with serve(faltering(503)) as stub, SyncTidegate(stub.url, deadline=30) as sync:
        with sync.reserve(USER, cost=500) as sync_reservation:
            sync_reservation.settle(7)
            with pytest.raises(ServiceUnavailable):
                sync_reservation.send()
        assert settled(stub) == [7, 7]


@pytest.mark.parametrize("times", [1, 2])
async def test_a_settlement_that_arrived_without_its_response_is_settled(times: int) -> None:
    with serve(faltering(*[0] * times)) as stub:
        # Over a kept connection one loss is made good unseen; after two the service counts as away.
        async with Tidegate(stub.url, deadline=30, clock=FakeClock(chance=0).clock()) as client:
            async with client.reserve(USER, cost=500) as reservation:
                if times == 2:
                    with pytest.raises(ServiceUnavailable):
                        await reservation.settle(7)
                assert await reservation.settle(7) == Settlement(500, 7, ())
        assert settled(stub) == [7] * (times + 1)


async def test_after_the_block_it_is_retried_until_the_service_responds() -> None:
    clock = FakeClock()
    with serve(faltering(500, 500, 503)) as stub:
        async with Tidegate(stub.url, deadline=30, clock=clock.clock()) as client:
            async with client.reserve(USER, cost=500) as reservation:
                reservation.settle(7)
            await asyncio.wait_for(gather_background(client), 30)
            assert not reservation.is_pending
        assert settled(stub) == [7] * 4
    assert clock.slept == [0.05, 0.1, 0.2]


async def test_an_expired_reservation_is_not_retried(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    with serve(faltering(*[500] * 1000)) as stub:
        async with Tidegate(stub.url, deadline=30, clock=clock.clock()) as client:
            async with client.reserve(USER, cost=500, ttl=60) as reservation:
                reservation.settle(7)
            await asyncio.wait_for(gather_background(client), 30)
    assert 50 < sum(clock.slept) < 60
    assert "expired before it was settled" in caplog.text


async def test_closing_the_client_does_not_wait_for_pending_settlements() -> None:
    clock = FakeClock(chance=0)  # time stands still
    with serve(faltering(*[500] * 100_000)) as stub:
        async with Tidegate(stub.url, deadline=30, clock=clock.clock()) as client:
            async with client.reserve(USER, cost=500) as reservation:
                reservation.settle(7)
    assert reservation.is_pending


async def gather_background(client: Tidegate) -> None:
    await asyncio.gather(*client._loop_state().tasks)


async def test_a_service_that_paused_has_settled_in_the_end(own_service: Service, client_name: str) -> None:
    async with Tidegate(own_service.url) as client:
        user = {"user": client_name}
        async with client.reserve(user, cost=900, limits="1000/day") as reservation:
            assert reservation.id
            own_service.pause()
            with pytest.raises(ServiceUnavailable):
                await reservation.settle(100)
        own_service.resume()
        await asyncio.wait_for(gather_background(client), 30)
        assert not reservation.is_pending
    left = own_service.post(
        "/v1/check",
        {
            "domain": "apps",
            "descriptors": [
                {
                    "entries": [{"key": "user", "value": client_name}],
                    "limits": [{"requests": 1000, "per": "day"}],
                }
            ],
            "cost": 0,
        },
    )
    assert left.json()["limits"][0]["remaining"] == 900


async def test_while_the_service_is_away_the_fallback_reserves_and_settles() -> None:
    async with Tidegate("http://127.0.0.1:9", deadline=30) as client:
        async with client.reserve(USER, cost=900, limits="1000/minute") as reservation:
            assert (reservation.id, reservation.decision.source) == (None, "local")
            with pytest.raises(RateLimitExceeded):
                async with client.reserve(USER, cost=900, limits="1000/minute"):
                    pytest.fail("the estimate was taken")
            reservation.settle(100)
        decision = await client.check(USER, cost=0, limits="1000/minute")
        assert decision.limits[0].remaining == 900
    async with Tidegate("http://127.0.0.1:9", deadline=30, fallback="deny") as client:
        with pytest.raises(RateLimitExceeded):
            await client.reserve(USER, cost=1).__aenter__()


def test_nonsense_is_refused(client: Tidegate) -> None:
    with pytest.raises(ValueError, match="refund or keep"):
        client.reserve(USER, cost=1, on_error="never")  # type: ignore[arg-type]


def test_the_same_in_threads(stub: Stub) -> None:
    with SyncTidegate(stub.url, deadline=30) as client:
        with client.reserve(USER, cost=500) as reservation:
            reservation.settle(8)
        with client.reserve(USER, cost=500) as reservation:
            reservation.settle(9)
            assert reservation.send().cost == 9
            with pytest.raises(ReservationGone):
                reservation.send()
        with client.reserve(USER, cost=500):
            pass
        with pytest.raises(KeyError), client.reserve(USER, cost=500):
            raise KeyError
        with pytest.raises(KeyError), client.reserve(USER, cost=500, on_error="keep"):
            raise KeyError
        with pytest.raises(TidegateError), client.reserve(USER, cost=500) as reservation:
            reservation.send()
    assert settled(stub) == [8, 9, 0, 0]


def test_the_fallback_in_threads() -> None:
    with SyncTidegate("http://127.0.0.1:9", deadline=30) as client:
        with client.reserve(USER, cost=900, limits="1000/minute") as reservation:
            reservation.settle(100)
        assert client.check(USER, cost=0, limits="1000/minute").limits[0].remaining == 900


async def test_the_service_gives_back_what_was_not_used(reserving_service: Service, client_name: str) -> None:
    async with Tidegate(reserving_service.url, deadline=30) as client:
        user = {"user": client_name}
        async with client.reserve(user, cost=900, limits="1000/hour") as reservation:
            assert reservation.id
            assert reservation.decision.source == "memory"
            with pytest.raises(RateLimitExceeded):
                await client.reserve(user, cost=200, limits="1000/hour").__aenter__()
            outcome = await reservation.settle(100)
        assert (outcome.estimate, outcome.cost, outcome.limits[0].remaining) == (900, 100, 900)
        again = json.dumps({"id": reservation.id, "cost": 1}).encode()
        with pytest.raises(ReservationGone):
            parse_settlement(await client._call("/v1/settle", again))


async def test_the_service_takes_an_overrun_into_debt(reserving_service: Service, client_name: str) -> None:
    async with Tidegate(reserving_service.url, deadline=30) as client:
        user = {"user": client_name}
        async with client.reserve(user, cost=10, limits="100/hour") as reservation:
            reservation.settle(150)
        assert not await client.check(user, limits="100/hour")


async def test_parallel_reservations_never_overshoot_the_budget(
    reserving_service: Service, client_name: str
) -> None:
    async with Tidegate(reserving_service.url, deadline=30) as client:

        async def work() -> int:
            try:
                async with client.reserve({"user": client_name}, cost=10, limits="100/day") as reservation:
                    reservation.settle(10)
                    return 10
            except RateLimitExceeded:
                return 0

        spent = await asyncio.gather(*(work() for _ in range(50)))
    assert sum(spent) == 100
