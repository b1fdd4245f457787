"""The runs of ``vectors/pacing.json``: how fast a client gets through a limit, and how often it is denied."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import httpx
import pytest

from support.clock import FakeClock
from support.limited_server import LimitedServer
from support.vectors import load
from support.virtual import VirtualLoop, run
from tidegate.pacing import PacingTransport, SyncPacingTransport


class Wire(httpx.AsyncBaseTransport):
    """A network on virtual time; with jitter, requests and responses overtake each other."""

    def __init__(self, loop: VirtualLoop, server: LimitedServer, round_trip_s: float, jitter: float) -> None:
        self._loop = loop
        self._server = server
        self._round_trip_s = round_trip_s
        self._random = random.Random(1)
        self._jitter = jitter

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await self._half()
        status, headers = self._server.ask(self._loop.time())
        await self._half()
        return httpx.Response(status, headers=headers)

    async def _half(self) -> None:
        await asyncio.sleep(self._round_trip_s / 2 * (1 + self._jitter * self._random.random()))


class SyncConnectionPool(httpx.BaseTransport):
    """A network that moves a clock."""

    def __init__(self, clock: FakeClock, server: LimitedServer, round_trip_s: float) -> None:
        self._clock = clock
        self._server = server
        self._round_trip_s = round_trip_s

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self._clock.advance(self._round_trip_s / 2)
        status, headers = self._server.ask(self._clock.now_s)
        self._clock.advance(self._round_trip_s / 2)
        return httpx.Response(status, headers=headers)


def take_one_after_the_other(case: dict[str, Any]) -> tuple[float, int]:
    """Returns when the last request of a thread passed, and how many were denied."""
    clock = FakeClock(now_s=0, chance=0.5)
    server = LimitedServer(**case["server"])
    wire = SyncConnectionPool(clock, server, case["round_trip_ms"] / 1000)
    transport = SyncPacingTransport(wire, clock=clock.clock(), deadline=60)
    with httpx.Client(transport=transport, trust_env=False) as client:
        for _ in range(case["requests"]):
            assert client.get("http://api/").status_code == 200
    return clock.now_s, server.denials


def take(case: dict[str, Any], jitter: float = 0.0) -> tuple[float, int]:
    """Returns when the last request passed, and how many were denied."""
    loop = VirtualLoop()
    server = LimitedServer(**case["server"])
    wire = Wire(loop, server, case["round_trip_ms"] / 1000, jitter)

    async def client() -> float:
        transport = PacingTransport(wire, clock=loop.clock(), deadline=60)
        slots = asyncio.Semaphore(case["concurrent"])

        async def one(client: httpx.AsyncClient) -> None:
            async with slots:
                assert (await client.get("http://api/")).status_code == 200

        async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
            await asyncio.gather(*(one(client) for _ in range(case["requests"])))
        return loop.time()

    return run(loop, client()), server.denials


RUNS: list[dict[str, Any]] = load("pacing")["runs"]
ALONE = [case for case in RUNS if case["concurrent"] == 1]
TOGETHER = [case for case in RUNS if case["concurrent"] > 1]


@pytest.mark.parametrize("case", RUNS, ids=lambda case: case["name"])
def test_gets_through_a_limit_nearly_as_fast_as_it_allows(case: dict[str, Any]) -> None:
    took_s, denials = take(case)
    assert took_s <= case["expect"]["most_s"]
    assert denials <= case["expect"]["most_denials"]


@pytest.mark.parametrize("case", ALONE, ids=lambda case: case["name"])
def test_threads_get_through_a_limit_nearly_as_fast_as_it_allows(case: dict[str, Any]) -> None:
    took_s, denials = take_one_after_the_other(case)
    assert took_s <= case["expect"]["most_s"]
    assert denials <= case["expect"]["most_denials"]


def test_there_are_runs_of_both_kinds() -> None:
    assert len(ALONE) >= 3
    assert len(TOGETHER) >= 3


@pytest.mark.parametrize("case", TOGETHER, ids=lambda case: case["name"])
def test_is_not_misled_by_responses_that_overtake_each_other(case: dict[str, Any]) -> None:
    took_s, denials = take(case, jitter=0.4)
    assert took_s <= case["expect"]["most_s"]
    assert denials <= case["expect"]["most_denials"]
