"""The client against a service that misbehaves, each in its own way."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from typing import Any

import pytest

from support.clock import FakeClock
from support.stub import ALLOWED, Received, Reply, Stub, decided, denied, serve
from tidegate import Descriptor, Limit, RateLimitExceeded, RequestRefused, SyncTidegate, Tidegate
from tidegate.check_body import make_check_body
from tidegate.decision import Decision
from tidegate.fallback import FallbackMode

pytestmark = pytest.mark.anyio

PATIENCE_S = 30.0


def always(reply: Reply) -> Any:
    return lambda received: decided(received, lambda _: reply)


async def check(url: str, *, fallback: FallbackMode = "allow", deadline: float = PATIENCE_S) -> Decision:
    """One check by each kind of client; both must decide the same."""
    async with Tidegate(url, fallback=fallback, deadline=deadline) as client:
        decision = await client.check({"user": "ann"}, limits="10/minute")
    with SyncTidegate(url, fallback=fallback, deadline=deadline) as sync:
        same = await asyncio.to_thread(sync.check, {"user": "ann"}, limits="10/minute")
    assert (same.status, same.source, same.retry_after) == (
        decision.status,
        decision.source,
        decision.retry_after,
    )
    return decision


async def test_the_body_of_a_check_is_what_the_service_expects() -> None:
    with serve(always(ALLOWED)) as stub:
        async with Tidegate(stub.url + "/", token="secret") as client:
            await client.check(
                {"route": "search", "client": "ann"},
                Descriptor([("a", "1"), ("a", "2")], limits=Limit(200, "hour", "slow", burst=50), cost=3),
                limits="10/minute;5/30s",
                cost=2,
            )
    assert stub.received[0].path == "/v1/check"
    assert stub.received[0].headers["authorization"] == "Bearer secret"
    assert stub.received[0].headers["content-type"] == "application/json"
    assert "application/problem+json" in stub.received[0].headers["accept"]
    assert stub.received[0].body == {
        "domain": "apps",
        "descriptors": [
            {
                "entries": [{"key": "route", "value": "search"}, {"key": "client", "value": "ann"}],
                "limits": [{"requests": 10, "per": "minute"}, {"requests": 5, "per": "30s"}],
            },
            {
                "entries": [{"key": "a", "value": "1"}, {"key": "a", "value": "2"}],
                "limits": [{"name": "slow", "requests": 200, "per": "hour", "burst": 50}],
                "cost": 3,
            },
        ],
        "cost": 2,
    }


async def test_a_denial_is_a_decision_and_raise_for_denied_raises() -> None:
    with serve(always(denied(7))) as stub:
        decision = await check(stub.url)
    assert (decision.allowed, bool(decision), decision.status, decision.retry_after) == (False, False, 429, 7)
    assert decision.headers == (("retry-after", "7"), ("ratelimit", '"inline:minute";r=0;t=7'))
    with pytest.raises(RateLimitExceeded, match="too much") as raised:
        decision.raise_for_denied()
    assert raised.value.retry_after == 7


@pytest.mark.parametrize("status", [400, 401, 403, 413])
async def test_4xx_is_the_callers_mistake_and_never_a_decision(status: int) -> None:
    reply = Reply(status, '{"type":"about:blank","title":"No","status":403,"detail":"do something else"}')
    with serve(always(reply)) as stub, pytest.raises(RequestRefused, match="do something else") as refused:
        await check(stub.url)
    assert refused.value.status == status


@pytest.mark.parametrize(
    "reply",
    [
        Reply(500, "oops"),
        Reply(503, '{"detail":"no rules"}'),
        Reply(200, "not json"),
        Reply(200, "[]"),
        Reply(200, "{}"),
        Reply(429, "<html>a proxy's own limit</html>"),
        Reply(200, '{"allowed":false}'),
        Reply(raw=b"this is not HTTP at all\r\n\r\n"),
        Reply(raw=b""),
        Reply(raw=b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"),
    ],
    ids=lambda reply: repr(reply.raw if reply.raw is not None else reply.body)[:30],
)
async def test_the_fallback_decides_on_an_invalid_response(reply: Reply) -> None:
    with serve(lambda _: reply) as stub:
        assert (await check(stub.url, fallback="allow")).source == "allow"
        assert (await check(stub.url, fallback="local")).source == "local"
        decision = await check(stub.url, fallback="deny")
    assert (decision.allowed, decision.source, decision.retry_after) == (False, "deny", 1)


async def test_a_connection_that_is_refused_takes_the_fallback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert (await check(f"http://127.0.0.1:{port}", fallback="deny")).source == "deny"


async def test_the_fallback_decides_after_the_deadline() -> None:
    never = threading.Event()

    def hang(_: Received) -> Reply:
        never.wait(PATIENCE_S)
        return ALLOWED

    try:
        with serve(hang) as stub:
            assert (await check(stub.url, fallback="deny", deadline=0.05)).source == "deny"
    finally:
        never.set()


async def test_a_response_that_drips_is_cut_off_at_the_deadline_in_threads_too() -> None:
    done = threading.Event()

    def drip(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
            while not done.wait(0.02):
                try:
                    connection.sendall(b" ")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, args=(server,))
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with SyncTidegate(url, fallback="deny", deadline=0.2) as client:
            # It would take half an hour if every byte counted as a sign of life.
            decision = await asyncio.wait_for(asyncio.to_thread(client.check, {"user": "ann"}), PATIENCE_S)
        done.set()
        thread.join()
    assert decision.source == "deny"


async def test_the_fallback_counts_the_limits_of_the_request() -> None:
    clock = FakeClock()
    client = Tidegate("http://127.0.0.1:9", clock=clock.clock(), deadline=PATIENCE_S)
    sources = [await client.check({"user": "ann"}, limits="2/minute;5/hour", cost=1) for _ in range(3)]
    assert [decision.allowed for decision in sources] == [True, True, False]
    assert {decision.source for decision in sources} == {"local"}
    other = await client.check({"user": "bob"}, limits="2/minute;5/hour")
    assert other.allowed
    await client.aclose()


async def test_without_limits_the_fallback_counts_local_limits_or_lets_pass() -> None:
    async with Tidegate("http://127.0.0.1:9", local_limits="1/minute", deadline=PATIENCE_S) as client:
        decisions = [await client.check({"user": "ann"}, domain="shop") for _ in range(2)]
    assert [decision.allowed for decision in decisions] == [True, False]
    assert decisions[1].json["violated-policies"] == ["local:minute"]
    async with Tidegate("http://127.0.0.1:9", deadline=PATIENCE_S) as client:
        assert (await client.check({"user": "ann"}, domain="shop")).source == "allow"


async def test_concurrent_checks_are_one_request() -> None:
    with serve(always(ALLOWED)) as stub:
        async with Tidegate(stub.url, deadline=PATIENCE_S) as client:
            await asyncio.gather(*(client.check({"user": str(number)}) for number in range(50)))
    assert [len(body) for body in stub.bodies("/v1/check")] == [50]


async def test_one_that_is_refused_does_not_touch_the_others_of_its_batch() -> None:
    def each(asked: Any) -> Reply:
        wrong = asked["descriptors"][0]["entries"][0]["value"] == "wrong"
        return Reply(400, '{"detail":"[1]: no"}') if wrong else ALLOWED

    with serve(lambda received: decided(received, each)) as stub:
        async with Tidegate(stub.url, deadline=PATIENCE_S) as client:
            users = ("ann", "wrong", "bob")
            made = await asyncio.gather(
                *(client.check({"user": user}) for user in users), return_exceptions=True
            )
    assert [type(one) for one in made] == [Decision, RequestRefused, Decision]


async def test_a_batch_that_is_refused_as_a_whole_is_refused_to_each() -> None:
    with serve(lambda _: Reply(401, '{"detail":"a token is needed"}')) as stub:
        async with Tidegate(stub.url, deadline=PATIENCE_S) as client:
            made = await asyncio.gather(
                *(client.check({"user": "a"}) for _ in range(3)), return_exceptions=True
            )
    assert [str(one) for one in made] == ["the service refused the request with 401: a token is needed"] * 3


def test_a_client_outlives_event_loops() -> None:
    with serve(always(ALLOWED)) as stub:
        client = Tidegate(stub.url, deadline=PATIENCE_S)

        async def once() -> Decision:
            return await client.check({"user": "ann"})

        # Nothing is left open by a loop that ends: ResourceWarning is an error in these tests.
        assert [asyncio.run(once()).source for _ in range(3)] == ["memory"] * 3


def test_connections_are_kept() -> None:
    peers = set()

    def note(received: Received) -> Reply:
        peers.add(threading.get_ident())  # the stub has a thread per connection
        return ALLOWED

    with serve(note) as stub, SyncTidegate(stub.url, deadline=PATIENCE_S) as client:
        for _ in range(5):
            client.check({"user": "ann"})
    assert len(peers) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "localhost:8080"}, "http://localhost:8080"),
        ({"deadline": 0}, "deadline"),
        ({"fallback": "maybe"}, "allow, deny or local"),
        ({"max_in_flight": 0}, "max_in_flight"),
        ({"local_limits": "often"}, "10/minute"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Tidegate(**options)


def test_url_and_token_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(always(ALLOWED)) as stub:
        monkeypatch.setenv("TIDEGATE_URL", stub.url)
        monkeypatch.setenv("TIDEGATE_TOKEN", "from-outside")
        with SyncTidegate(deadline=PATIENCE_S) as client:
            client.check({"user": "ann"})
        assert_token(stub)


def assert_token(stub: Stub) -> None:
    assert [one.headers["authorization"] for one in stub.received] == ["Bearer from-outside"]


@pytest.mark.parametrize("entries", [{"user": 7}, [("user", None)]])
def test_values_that_are_not_strings_are_refused(entries: Any) -> None:
    with pytest.raises(TypeError, match="must be strings"):
        Descriptor(entries)


@pytest.mark.parametrize("cost", [-1, 1.5, True, "2"])
async def test_an_invalid_cost_is_an_error_with_and_without_the_service(cost: Any) -> None:
    async with Tidegate("http://127.0.0.1:9") as client:
        with pytest.raises(ValueError, match=re.escape(repr(cost))):
            await client.check({"user": "ann"}, cost=cost, limits="10/minute")
        with pytest.raises(ValueError, match=re.escape(repr(cost))):
            client.reserve({"user": "ann"}, cost=cost, limits="10/minute")
        with pytest.raises(ValueError, match=re.escape(repr(cost))):
            Descriptor({"user": "ann"}, cost=cost)
        async with client.reserve({"user": "ann"}, cost=1, limits="10/minute") as reservation:
            with pytest.raises(ValueError, match=re.escape(repr(cost))):
                reservation.settle(cost)


def test_a_cost_above_2_to_the_53_is_sent_as_2_to_the_53() -> None:
    entries = {"user": "ann"}
    ask = make_check_body([Descriptor(entries, cost=2**60)], domain="apps", limits=None, cost=2**53 + 1)
    assert (ask.cost, ask.descriptors[0].cost) == (2**53, 2**53)


@pytest.mark.parametrize("token", ["secret\n", "secret\r\n", "sec\x01ret", " secret", "s\u00e9cret"])
@pytest.mark.parametrize("kind", [Tidegate, SyncTidegate])
def test_a_token_that_no_header_can_carry_is_refused_at_once(
    kind: type[Tidegate | SyncTidegate], token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=r"strip\(\)") as refused:
        kind("http://127.0.0.1:9", token=token)
    assert token.strip() not in str(refused.value)
    monkeypatch.setenv("TIDEGATE_TOKEN", token)
    with pytest.raises(ValueError, match=r"strip\(\)"):
        kind("http://127.0.0.1:9")
