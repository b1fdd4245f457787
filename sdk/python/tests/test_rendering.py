"""What the service renders is what a client of the app gets, byte for byte."""

from __future__ import annotations

import asyncio
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

from support.stub import Reply, decided, serve
from support.vectors import cases
from tidegate import Tidegate, TidegateMiddleware
from tidegate.asgi import ASGIApp, Receive, Send
from tidegate.fastapi import install, limit, limited
from tidegate.local import Verdict
from tidegate.render import Told, counted
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


@pytest.mark.parametrize("make", APPS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("batch", [1, 2], ids=["alone", "in a batch"])
@pytest.mark.parametrize("case", CHECKS, ids=lambda case: case["name"])
async def test_the_same_bytes(case: dict[str, Any], batch: int, make: Callable[[Tidegate], ASGIApp]) -> None:
    expect = case["expect"]
    headers = tuple((name, value) for name, value in expect["headers"])
    reply = Reply(expect["status"], expect["body"], headers, expect["content_type"])
    with serve(lambda received: decided(received, lambda _: reply)) as stub:
        async with Tidegate(stub.url, deadline=30) as client:
            transport = httpx.ASGITransport(app=make(client))
            async with httpx.AsyncClient(transport=transport, base_url="http://app") as web:
                answers = await asyncio.gather(*(web.get("/") for _ in range(batch)))
    for answer in answers:
        rendered = [
            (name, value) for name, value in answer.headers.items() if not name.startswith("content-")
        ]
        assert rendered == list(headers)
        if expect["status"] == 200:
            assert answer.text == "hello"
        else:
            assert answer.status_code == expect["status"]
            assert answer.headers["content-type"] == expect["content_type"]
            assert answer.content == expect["body"].encode()


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
    decision = counted(
        [Told("api_key", "steady", body["limit"], "minute", 60_000_000, verdict)], 1_700_000_000
    )
    # The service adds a jitter to the wait, and says where its counters are.
    wait = f"retry in {body['retry_after']} seconds"
    body |= {"source": "local", "detail": body["detail"].replace(wait, "retry in 40 seconds")}
    if body["retry_after"] is not None:
        body["retry_after"] = 40
    assert list(decision.json.items()) == list(body.items())
    kept = [pair for pair in expect["headers"] if pair[0] != "retry-after" and "limit-" not in pair[0][:10]]
    told = [list(pair) for pair in decision.headers if pair[0] != "retry-after"]
    assert [pair for pair in told if pair in kept] == kept
