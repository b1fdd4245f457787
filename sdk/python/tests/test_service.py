"""The real service: alone, in batches, paused, killed and started again."""

from __future__ import annotations

import asyncio
import json

import pytest

from support.service import Service
from tidegate import DecidedBy, Decision, Limit, RequestRefused, SyncTidegate, Tidegate
from tidegate.limits import LimitsLike

pytestmark = pytest.mark.anyio

PATIENCE_S = 30.0


async def test_inline_limits_are_counted_by_the_service(service: Service, client_name: str) -> None:
    async with Tidegate(service.url, deadline=PATIENCE_S) as client:
        entries = {"route": "search", "client": client_name}
        decisions = [await client.check(entries, limits="2/hour;100/day") for _ in range(3)]
    assert [decision.allowed for decision in decisions] == [True, True, False]
    assert {decision.source for decision in decisions} == {"memory"}
    last = decisions[-1]
    assert last.decided_by == DecidedBy("inline", "hour")
    assert [(limit.name, limit.limit, limit.remaining) for limit in last.limits] == [
        ("hour", 2, 0),
        ("day", 100, 98),
    ]
    assert last.retry_after is not None
    assert last.json["violated-policies"] == ["inline:hour"]
    assert last.header("RateLimit-Policy") == '"inline:hour";q=2;w=3600, "inline:day";q=100;w=86400'


async def test_a_batch_and_single_checks_have_the_same_results(service: Service, client_name: str) -> None:
    async with Tidegate(service.url, deadline=PATIENCE_S) as client:
        asked = [{"route": f'größer "{number}" \\', "client": client_name} for number in range(20)]
        for entries in asked:
            await client.check(entries, limits="1/day")
        together = await asyncio.gather(*(client.check(entries, limits="1/day") for entries in asked))
        alone = [await client.check(entries, limits="1/day") for entries in asked]
    assert [shape(decision) for decision in together] == [shape(decision) for decision in alone]
    for decision in together:
        assert decision.body == json.dumps(decision.json, separators=(",", ":"), ensure_ascii=False)
        assert decision.content_type == "application/problem+json"


def shape(decision: Decision) -> tuple[int, str, list[str], list[str]]:
    """What does not depend on the moment."""
    return decision.status, decision.content_type, [name for name, _ in decision.headers], list(decision.json)


async def test_rules_of_the_service_apply_without_limits(service: Service, client_name: str) -> None:
    entries = [("api_key", client_name), ("endpoint", "POST /v1/orders")]
    async with Tidegate(service.url, deadline=PATIENCE_S) as client:
        decisions = [await client.check(entries, domain="api_platform") for _ in range(3)]
    assert [decision.allowed for decision in decisions] == [True, True, False]
    assert decisions[-1].decided_by == DecidedBy("orders", "minute")


async def test_limits_in_a_domain_that_does_not_accept_them_are_an_error(service: Service) -> None:
    async with Tidegate(service.url, deadline=PATIENCE_S) as client:
        with pytest.raises(RequestRefused) as refused:
            await client.check({"api_key": "ann"}, limits="1/day", domain="api_platform")
    assert refused.value.status == 403


def test_threads_ask_the_same(service: Service, client_name: str) -> None:
    with SyncTidegate(service.url, deadline=PATIENCE_S) as client:
        decisions = [client.check({"job": client_name}, limits="2/hour") for _ in range(3)]
    assert [decision.allowed for decision in decisions] == [True, True, False]
    assert decisions[0].source == "memory"


async def until_decided_by(client: Tidegate, source: str, entries: dict[str, str]) -> None:
    async def wait() -> None:
        while (await client.check(entries, limits="1000000/day", cost=0)).source != source:
            await asyncio.sleep(0.01)

    await asyncio.wait_for(wait(), PATIENCE_S)


async def test_a_paused_service_is_left_alone_and_found_again(own_service: Service) -> None:
    async with Tidegate(own_service.url, deadline=0.25) as client:
        entries = {"route": "search", "client": "ann"}
        await until_decided_by(client, "memory", entries)
        own_service.pause()
        made = await asyncio.gather(*(client.check(entries, limits="3/day") for _ in range(10)))
        assert {decision.source for decision in made} == {"local"}
        assert sum(decision.allowed for decision in made) == 3
        own_service.resume()
        await until_decided_by(client, "memory", entries)


async def test_a_service_that_was_killed_is_found_when_it_is_back(own_service: Service) -> None:
    async with Tidegate(own_service.url, fallback="deny") as client:
        entries = {"route": "search", "client": "ann"}
        await until_decided_by(client, "memory", entries)
        own_service.kill()
        denied = await client.check(entries, limits="10/day")
        assert (denied.source, denied.retry_after) == ("deny", 1)
        own_service.start()
        await until_decided_by(client, "memory", entries)


def test_threads_survive_it_too(own_service: Service) -> None:
    with SyncTidegate(own_service.url, fallback="allow") as client:
        assert client.check({"job": "a"}, limits="9/day").source == "memory"
        own_service.kill()
        assert client.check({"job": "a"}, limits="9/day").source == "allow"
        own_service.start()
        for _ in range(100_000):
            if client.check({"job": "a"}, limits="9/day", cost=0).source == "memory":
                break
        else:
            pytest.fail("the service was not found again")


def lists_of_limits() -> list[LimitsLike]:
    return [
        "3/minute",
        "2/minute;5/minute",
        "20/minute",
        "2/hour;100/hour;7/day",
        [Limit(3, "hour", name="slow"), Limit(2, "hour")],
        [Limit(6, "hour", burst=3), "50/hour"],
        Limit(6, "hour", algorithm="leaky_bucket"),
        Limit(4, "hour", algorithm="sub_windows"),
        "30/60s",
        "3/2d;3/24h",
        "20/7d;20/30d;20/36h;20/5400s",
        [Limit(3, "hour", name="minute"), "5/minute"],
        [Limit(20, "day"), Limit(20, "24h", algorithm="gcra", burst=5)],
        [Limit(20, "day", algorithm="gcra"), Limit(20, "day", algorithm="leaky_bucket", burst=9), "20/week"],
        [Limit(20, "day", burst=5), Limit(20, "day", burst=6), Limit(20, "day", name="20/day")],
    ]


@pytest.mark.parametrize("limits", lists_of_limits(), ids=str)
async def test_this_process_counts_as_the_service_does(
    service: Service, client_name: str, limits: LimitsLike
) -> None:
    """Names, numbers and outcomes in decisions are the same from the service and from the fallback."""
    entries = {"route": "search", "client": client_name}
    async with Tidegate(service.url, deadline=PATIENCE_S) as remote, Tidegate.local() as local:
        for _ in range(4):
            there, here = [await client.check(entries, limits=limits) for client in (remote, local)]
            assert (there.source, here.source) == ("memory", "local")
            assert there.allowed == here.allowed
            assert summary(there) == summary(here)
            assert there.header("ratelimit-policy") == here.header("ratelimit-policy")
            assert there.detail.partition(";")[0] == here.detail.partition(";")[0]


def summary(decision: Decision) -> list[tuple[str, int, int]]:
    return [(limit.name, limit.limit, limit.remaining) for limit in decision.limits]


@pytest.mark.parametrize(
    "algorithm",
    ["fixed_window", "sliding_window", "sub_windows", "sliding_log", "token_bucket", "leaky_bucket"],
)
async def test_this_process_changes_a_limit_as_the_service_does(
    service: Service, client_name: str, algorithm: str
) -> None:
    """And its windows end when the service's do."""

    def limit_of(requests: int) -> Limit:
        burst = requests if algorithm.endswith("bucket") else None
        return Limit(requests, "day", name="steady", algorithm=algorithm, burst=burst)

    entries = {"client": client_name}
    async with Tidegate(service.url, deadline=PATIENCE_S) as remote, Tidegate.local() as local:
        for requests, cost in ((20, 15), (5, 0), (5, 1), (20, 0), (20, 5), (40, 9)):
            there, here = [
                await client.check(entries, limits=limit_of(requests), cost=cost)
                for client in (remote, local)
            ]
            assert (there.source, here.source) == ("memory", "local")
            assert there.allowed == here.allowed
            assert summary(there) == summary(here)
            assert times(there) == pytest.approx(times(here), abs=PATIENCE_S)


def times(decision: Decision) -> list[float]:
    return [
        (waited_ms or 0) / 1000
        for limit in decision.limits
        for waited_ms in (limit.retry_after_ms, limit.reset_after_ms)
    ]


async def test_the_service_has_a_counter_for_each_identity(service: Service, client_name: str) -> None:
    """A general and a stricter limit over the same window, of one route and one client."""
    entries = {"route": client_name, "client": "ann"}
    async with Tidegate(service.url, deadline=PATIENCE_S) as client:
        for left in (9, 8, 7):
            general = await client.check(entries, limits="100/minute")
            strict = await client.check(entries, limits="10/minute")
            assert (general.limits[0].remaining, strict.limits[0].remaining) == (left + 90, left)


async def test_a_small_limit_is_exact_and_says_so(service: Service, client_name: str) -> None:
    async with Tidegate(service.url, deadline=PATIENCE_S) as client:
        assert (await client.check({"client": client_name}, limits="1/hour")).allowed
        denied = await client.check({"client": client_name}, limits="1/hour")
    assert denied.retry_after is not None
    assert 3_590 <= denied.limits[0].retry_after_ms / 1000 <= 3_600  # type: ignore[operator]
