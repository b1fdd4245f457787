"""Measures how long a decision takes from Python over loopback: one at a time, and a hundred at once.

    TIDEGATE_URL=http://127.0.0.1:8080 python bench/decision.py [--json] [--seconds 3]

The service needs a domain `apps` with `inline_limits`, which a service without rules has. For a hundred
checks at once, `each` is how long one of them waits, and `share` the time of all divided by a hundred.
`plain_httpx` is one request to the same path by httpx's own client, for comparison.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from tidegate import SyncTidegate, Tidegate

AT_ONCE = 100
ENTRIES = {"route": "bench", "client": "203.0.113.7"}
LIMITS = "1000000000/minute"


def summary(times_s: list[float]) -> dict[str, float]:
    ordered = sorted(times_s)
    at = {"p50_us": 0.5, "p99_us": 0.99}
    return {name: round(ordered[int(part * (len(ordered) - 1))] * 1e6, 1) for name, part in at.items()}


async def repeat(seconds: float, once: Callable[[], Awaitable[Any]]) -> list[float]:
    for _ in range(50):  # connections, caches
        await once()
    times_s = []
    end = time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        await once()
        times_s.append(time.perf_counter() - start)
    return times_s


async def check(client: Tidegate) -> None:
    decision = await client.check(ENTRIES, limits=LIMITS)
    if decision.source in ("local", "allow", "deny"):
        raise SystemExit("the service cannot be reached; set TIDEGATE_URL")


async def at_once(client: Tidegate, times_s: list[float]) -> None:
    async def timed() -> None:
        start = time.perf_counter()
        await check(client)
        times_s.append(time.perf_counter() - start)

    await asyncio.gather(*(timed() for _ in range(AT_ONCE)))


async def measure(url: str | None, seconds: float) -> dict[str, dict[str, float]]:
    figures: dict[str, dict[str, float]] = {}
    async with Tidegate(url, deadline=5) as client:
        figures["alone"] = summary(await repeat(seconds, lambda: check(client)))
        each_s: list[float] = []
        whole_s = await repeat(seconds, lambda: at_once(client, each_s))
        figures["each_of_a_hundred"] = summary(each_s)
        figures["share_of_a_hundred"] = summary([time_s / AT_ONCE for time_s in whole_s])
    with SyncTidegate(url, deadline=5) as sync:

        async def in_thread() -> None:
            sync.check(ENTRIES, limits=LIMITS)

        figures["sync_alone"] = summary(await repeat(seconds, in_thread))
    body = json.dumps({"domain": "apps", "descriptor": ENTRIES}).encode()
    async with httpx.AsyncClient(trust_env=False) as plain:
        path = (url or "http://localhost:8080") + "/v1/check"
        headers = {"content-type": "application/json"}
        figures["plain_httpx"] = summary(
            await repeat(seconds, lambda: plain.post(path, content=body, headers=headers))
        )
    return figures


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--url", help="the service; by default TIDEGATE_URL or http://localhost:8080")
    arguments.add_argument("--seconds", type=float, default=3.0, help="for each figure")
    arguments.add_argument("--json", action="store_true", help="print JSON")
    given = arguments.parse_args()
    figures = asyncio.run(measure(given.url, given.seconds))
    if given.json:
        print(json.dumps(figures))
        return
    for name, figure in figures.items():
        print(f"{name:20} p50 {figure['p50_us']:10.1f} µs   p99 {figure['p99_us']:10.1f} µs")


if __name__ == "__main__":
    main()
