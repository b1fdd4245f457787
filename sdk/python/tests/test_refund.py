"""Giving back: to the service, and while it is away to the counters of this process."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

import pytest

from support.clock import FakeClock
from support.service import Service
from support.stub import ALLOWED, Received, Reply, decided, serve
from tidegate import Limit, RequestRefused, SyncTidegate, Tidegate
from tidegate.check_body import make_check_body

pytestmark = pytest.mark.anyio

PATIENCE_S = 30.0


async def test_what_was_taken_comes_back_and_never_more(service: Service, client_name: str) -> None:
    entries = {"route": "search", "client": client_name}
    async with Tidegate(service.url, deadline=PATIENCE_S) as client:
        await client.check(entries, limits="10/hour;100/day", cost=10)
        assert not (await client.check(entries, limits="10/hour;100/day")).allowed
        left = await client.refund(entries, limits="10/hour;100/day", cost=4)
        assert [(one.name, one.remaining) for one in left] == [("hour", 4), ("day", 94)]
        left = await client.refund(entries, limits="10/hour;100/day", cost=1000)
        assert [one.remaining for one in left] == [10, 100]


def test_threads_give_back_by_the_rules_too(service: Service, client_name: str) -> None:
    with SyncTidegate(service.url, deadline=PATIENCE_S) as client:
        client.check({"api_key": client_name}, domain="api_platform", cost=3)
        left = client.refund({"api_key": client_name}, domain="api_platform", cost=2)
    assert [(one.rule, one.name, one.remaining) for one in left] == [("api_key", "steady", 99)]


async def test_what_the_service_refuses_is_an_error(service: Service) -> None:
    async with Tidegate(service.url, deadline=PATIENCE_S) as client:
        with pytest.raises(RequestRefused) as refused:
            await client.refund({"api_key": "ann"}, limits="1/day", domain="api_platform")
    assert refused.value.status == 403
    with pytest.raises(ValueError, match="-1"):
        await client.refund({"api_key": "ann"}, cost=-1)


async def test_without_a_service_the_counters_of_this_process_get_it() -> None:
    clock = FakeClock()
    async with Tidegate("http://127.0.0.1:9", clock=clock.clock(), deadline=PATIENCE_S) as client:
        assert (await client.check({"user": "ann"}, limits="3/minute", cost=3)).allowed
        assert await client.refund({"user": "ann"}, limits="3/minute", cost=2) == ()
        made = [await client.check({"user": "ann"}, limits="3/minute") for _ in range(3)]
    assert [decision.allowed for decision in made] == [True, True, False]


async def test_without_a_service_it_comes_back_from_the_window_before_too() -> None:
    clock = FakeClock(now_s=6_000)  # where a minute begins
    async with Tidegate("http://127.0.0.1:9", clock=clock.clock(), deadline=PATIENCE_S) as client:
        limits = Limit(3, "minute", algorithm="sliding_window")
        assert (await client.check({"user": "ann"}, limits=limits, cost=3)).source == "local"
        clock.advance(60)
        assert await client.refund({"user": "ann"}, limits=limits, cost=2) == ()
        made = [await client.check({"user": "ann"}, limits=limits) for _ in range(3)]
    assert [decision.allowed for decision in made] == [True, True, False]


@pytest.mark.parametrize(
    "reply", [Reply(200, "{}"), Reply(200, "<html>"), Reply(429, "{}"), Reply(503, "{}")]
)
async def test_an_invalid_response_to_a_refund_counts_as_no_response(reply: Reply) -> None:
    with serve(lambda _: reply) as stub:
        async with Tidegate(stub.url, deadline=PATIENCE_S) as client:
            assert await client.refund({"user": "ann"}) == ()
        with SyncTidegate(stub.url, deadline=PATIENCE_S) as sync:
            assert await asyncio.to_thread(sync.refund, {"user": "ann"}) == ()
    assert [one.path for one in stub.received] == ["/v1/refund"] * 2


def test_threads_send_it_once_even_if_the_connection_ends_before_the_response() -> None:
    def answer(received: Received) -> Reply:
        return Reply(raw=b"") if received.path == "/v1/refund" else decided(received, lambda _: ALLOWED)

    with serve(answer) as stub, SyncTidegate(stub.url, deadline=PATIENCE_S) as client:
        assert client.check({"user": "ann"}).source == "memory"
        assert client.refund({"user": "ann"}) == ()
    assert [one.path for one in stub.received] == ["/v1/check", "/v1/refund"]


@pytest.mark.parametrize(
    "reply",
    [None, Reply(raw=b""), Reply(503), Reply(200, "{}"), Reply(403)],
    ids=["late", "lost", "failed", "senseless", "refused"],
)
async def test_what_was_sent_is_not_given_back_in_this_process_as_well(reply: Reply | None) -> None:
    ended = threading.Event()

    def answer(received: Received) -> Reply:
        if received.path != "/v1/refund":
            return Reply(503)
        if reply is None:
            ended.wait(PATIENCE_S)
        return reply or Reply(503)

    deadline = 0.3 if reply is None else PATIENCE_S
    ask = make_check_body([{"user": "ann"}], domain="apps", limits="3/year", cost=3)
    with serve(answer) as stub:
        async with Tidegate(stub.url, deadline=deadline) as client:
            assert client._settings.fallback.decide(ask).allowed
            with suppress(RequestRefused):
                assert await client.refund({"user": "ann"}, limits="3/year") == ()
            assert not (await client.check({"user": "ann"}, limits="3/year")).allowed
        with SyncTidegate(stub.url, deadline=deadline) as sync:
            assert sync._settings.fallback.decide(ask).allowed
            with suppress(RequestRefused):
                assert await asyncio.to_thread(sync.refund, {"user": "ann"}, limits="3/year") == ()
            assert not (await asyncio.to_thread(sync.check, {"user": "ann"}, limits="3/year")).allowed
        ended.set()
    assert [one.path for one in stub.received].count("/v1/refund") == 2
