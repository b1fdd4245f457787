"""What the service renders is what a client of the app gets, byte for byte."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from fastapi import Depends, FastAPI
from fastapi.responses import PlainTextResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from support.clock import FakeClock
from support.stub import Received, Reply, decided, serve
from support.vectors import cases
from tidegate import Tidegate, TidegateMiddleware
from tidegate.asgi import ASGIApp, Receive, Send
from tidegate.decision import PROBLEM_TYPE
from tidegate.fastapi import install, limit, limited
from tidegate.local import Verdict
from tidegate.render import LimitReport, render_counted
from tidegate.request import Scope

pytestmark = pytest.mark.anyio

CHECKS = [case for case in cases("rendering") if case["ask"] == "check"]


async def plain(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"hello"})


def middleware(client: Tidegate) -> ASGIApp:
    return TidegateMiddleware(plain, "10/minute", client=client)


def dependency(client: Tidegate) -> ASGIApp:
    app = FastAPI()
    install(app, client=client)

    @app.get("/", dependencies=[Depends(limit("10/minute"))])
    async def hello() -> PlainTextResponse:
        return PlainTextResponse("hello")

    return app


def dependency_without_install(client: Tidegate) -> ASGIApp:
    app = FastAPI()

    @app.get("/", response_class=PlainTextResponse, dependencies=[Depends(limit("10/minute", client=client))])
    async def hello() -> str:
        return "hello"

    return app


def decorator(client: Tidegate) -> ASGIApp:
    app = FastAPI()

    @app.get("/", response_class=PlainTextResponse)
    @limited("10/minute", client=client)
    def hello() -> str:
        return "hello"

    return app


def decorator_of_starlette(client: Tidegate) -> ASGIApp:
    @limited("10/minute", client=client)
    async def hello(request: Request) -> Response:
        return PlainTextResponse("hello")

    return Starlette(routes=[Route("/", hello)])


APPS = [middleware, dependency, dependency_without_install, decorator, decorator_of_starlette]


def rendered(expect: dict[str, Any], received: Received) -> Reply:
    """The response of the service: a client that accepts a problem, or sends a batch, always gets one."""
    for_programs = isinstance(received.body, list) or PROBLEM_TYPE in received.headers["accept"]
    problem = expect.get("problem") if for_programs else None
    content_type = expect["content_type"] if problem is None else PROBLEM_TYPE
    reply = Reply(
        expect["status"], problem or expect["body"], tuple(map(tuple, expect["headers"])), content_type
    )
    return decided(received, lambda _: reply)


@pytest.mark.parametrize("make", APPS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("batch", [1, 2], ids=["alone", "in a batch"])
@pytest.mark.parametrize("case", CHECKS, ids=lambda case: case["name"])
async def test_the_same_bytes(case: dict[str, Any], batch: int, make: Callable[[Tidegate], ASGIApp]) -> None:
    expect = case["expect"]
    with serve(functools.partial(rendered, expect)) as stub:
        async with Tidegate(stub.url, deadline=30) as client:
            transport = httpx.ASGITransport(app=make(client))
            async with httpx.AsyncClient(transport=transport, base_url="http://app") as web:
                answers = await asyncio.gather(*(web.get("/") for _ in range(batch)))
    for answer in answers:
        told = [[name, value] for name, value in answer.headers.items() if not name.startswith("content-")]
        assert told == expect["headers"]
        if expect["status"] == 200:
            assert answer.text == "hello"
        else:
            assert answer.status_code == expect["status"]
            # A body of the operator's stays with the service: in an app it is the app's.
            assert answer.headers["content-type"] == PROBLEM_TYPE
            assert answer.content == expect.get("problem", expect["body"]).encode()


@pytest.mark.parametrize(
    "name", ["a fixed window denies", "a cost that never fits has no time to retry", "a limit of nothing"]
)
def test_denials_of_the_fallback_have_the_services_shape(name: str) -> None:
    expect = next(case["expect"] for case in CHECKS if case["name"] == name)
    body = pytest.importorskip("json").loads(expect["body"])
    limit_ = body["limits"][0]
    retry_ms = limit_["retry_after_ms"]
    verdict = Verdict(
        False,
        limit_["remaining"],
        limit_["reset_after_ms"] * 1000,
        None if retry_ms is None else retry_ms * 1000,
    )
    decision = render_counted(
        [LimitReport("api_key", "steady", body["limit"], "minute", 60_000_000, verdict)], 1_700_000_000
    )
    # The jitter of the wait is one's own, and so is where the counters are.
    wait = f"retry in {body['retry_after']} seconds"
    own = f"retry in {decision.retry_after} seconds"
    body |= {"source": "local", "detail": body["detail"].replace(wait, own)}
    if body["retry_after"] is not None:
        assert 40 <= (decision.retry_after or 0) <= 44
        body["retry_after"] = decision.retry_after
    assert list(decision.json.items()) == list(body.items())
    kept = [pair for pair in expect["headers"] if pair[0] != "retry-after" and "limit-" not in pair[0][:10]]
    told = [list(pair) for pair in decision.headers if pair[0] != "retry-after"]
    assert [pair for pair in told if pair in kept] == kept


@pytest.mark.parametrize(
    ("wait_us", "least", "most"),
    [
        (1, 1, 1),
        (9_999_999, 10, 10),
        (10_000_000, 10, 11),
        (39_000_001, 40, 43),
        (50_000_000, 50, 55),
        (3_599_500_000, 3600, 3605),
    ],
)
def test_waits_of_the_fallback_are_never_too_short_and_spread_by_key(
    wait_us: int, least: int, most: int
) -> None:
    def wait(name: str, domain: str = "apps", rule: str = "inline") -> int | None:
        verdict = Verdict(False, 0, wait_us, wait_us)
        told = LimitReport(rule, "hour", 5, "hour", 3_600_000_000, verdict, 1, domain, (("client", name),))
        decision = render_counted([told], 1_700_000_000)
        assert dict(decision.headers)["retry-after"] == str(decision.retry_after)
        assert decision.limits[0].retry_after_ms == -(-wait_us // 1000)
        return decision.retry_after

    clients = [f"client {number}" for number in range(200)]
    waits = [wait(name) for name in clients]
    assert set(waits) == set(range(least, most + 1))
    assert [wait(name) for name in clients] == waits
    if most > least:
        assert [wait(name, domain="shop") for name in clients] != waits
        assert [wait(name, rule="local") for name in clients] != waits


async def test_the_fallback_tells_each_client_a_wait_of_its_own() -> None:
    async with Tidegate("http://127.0.0.1:9", clock=FakeClock(now_s=0).clock()) as client:
        waits = set()
        for number in range(50):
            for _ in range(2):
                decision = await client.check({"client": str(number)}, limits="1/hour")
            waits.add(decision.retry_after)
    assert waits == set(range(3600, 3606))
