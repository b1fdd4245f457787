"""The runs of ``vectors/pacing.json``: how fast a client gets through a limit, and how often it is denied."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import httpx
import pytest

from support.limited_server import LimitedServer
from support.vectors import load
from support.virtual import VirtualLoop, run
from tidegate.pacing import PacingTransport


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
TOGETHER = [case for case in RUNS if case["concurrent"] > 1]


@pytest.mark.parametrize("case", RUNS, ids=lambda case: case["name"])
def test_gets_through_a_limit_nearly_as_fast_as_it_allows(case: dict[str, Any]) -> None:
    took_s, denials = take(case)
    assert took_s <= case["expect"]["most_s"]
    assert denials <= case["expect"]["most_denials"]


@pytest.mark.parametrize("case", TOGETHER, ids=lambda case: case["name"])
def test_is_not_misled_by_responses_that_overtake_each_other(case: dict[str, Any]) -> None:
    took_s, denials = take(case, jitter=0.4)
    assert took_s <= case["expect"]["most_s"]
    assert denials <= case["expect"]["most_denials"]
