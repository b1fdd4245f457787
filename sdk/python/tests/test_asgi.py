"""The middleware around any app."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI
from starlette.applications import Starlette
from starlette.requests import Request as StarletteRequest
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Mount, Route

from support.apps import hello, web
from support.service import Service
from support.stub import ALLOWED, Received, Reply, Stub, decided, denied, serve
from tidegate import Decision, Descriptor, Request, Tidegate, TidegateMiddleware, by_header
from tidegate.asgi import ASGIApp, Receive, Send
from tidegate.request import Scope

pytestmark = pytest.mark.anyio


@pytest.fixture
def stub() -> Iterator[Stub]:
    """Lets everything pass."""
    with serve(lambda received: decided(received, lambda _: ALLOWED)) as stub:
        yield stub


def limiting(stub: Stub, app: ASGIApp = hello, **options: Any) -> TidegateMiddleware:
    options.setdefault("limits", "10/minute")
    return TidegateMiddleware(app, url=stub.url, deadline=30, **options)


def entries(stub: Stub) -> list[dict[str, str]]:
    """Entries of the first descriptor of each check."""
    return [
        {entry["key"]: entry["value"] for entry in body["descriptors"][0]["entries"]}
        for body in stub.bodies("/v1/check")
    ]


async def test_checks_route_and_address_with_the_limits(stub: Stub) -> None:
    async with web(limiting(stub, limits="10/minute;200/hour")) as client:
        answer = await client.get("/items/7?q=1")
    assert answer.text == "hello"
    assert stub.bodies("/v1/check") == [
        {
            "domain": "apps",
            "descriptors": [
                {
                    "entries": [
                        {"key": "route", "value": "limiter"},
                        {"key": "client", "value": "203.0.113.7"},
                    ],
                    "limits": [{"requests": 10, "per": "minute"}, {"requests": 200, "per": "hour"}],
                }
            ],
        }
    ]


async def test_the_template_of_a_route_is_its_name(stub: Stub) -> None:
    async def item(request: StarletteRequest) -> PlainTextResponse:
        return PlainTextResponse("item")

    inner = [Route("/items/{id}", item), Route("/items", item, methods=["POST"])]
    app = Starlette(routes=[Mount("/v1", routes=inner), Route("/files/{path:path}", item)])
    app.add_middleware(TidegateMiddleware, limits="10/minute", url=stub.url, deadline=30)
    async with web(app) as client:
        for path in ("/v1/items/7", "/files/a/b", "/nowhere"):
            await client.get(path)
        await client.post("/v1/items")
    assert [one["route"] for one in entries(stub)] == [
        "GET /v1/items/{id}",
        "GET /files/{path:path}",
        "limiter",
        "POST /v1/items",
    ]


async def test_templates_of_fastapi_s_routers_are_known_before_routing(stub: Stub) -> None:
    async def user(name: str) -> str:
        return name

    async def item(request: StarletteRequest) -> PlainTextResponse:
        return PlainTextResponse("item")

    app, router = FastAPI(), APIRouter(prefix="/users")
    router.add_api_route("/{name}", user)
    app.include_router(router, prefix="/v1")
    app.mount("/inner", FastAPI(routes=[Route("/deep/{name}", item)]))
    app.add_middleware(TidegateMiddleware, limits="10/minute", url=stub.url, deadline=30)
    async with web(app) as client:
        assert (await client.get("/v1/users/ann")).json() == "ann"
        await client.get("/inner/deep/ann")
    assert [one["route"] for one in entries(stub)] == ["GET /v1/users/{name}", "GET /inner/deep/{name}"]


async def test_templates_are_known_to_a_middleware_around_the_whole_app(stub: Stub) -> None:
    async def item(request: StarletteRequest) -> PlainTextResponse:
        return PlainTextResponse("item")

    inner = limiting(stub, Starlette(routes=[Route("/deep/{name}", item)]), limits="1/day")
    outer = Starlette(routes=[Route("/items/{id}", item), Mount("/inner", inner)])
    async with web(limiting(stub, limiting(stub, outer, limits="5/minute"))) as client:
        assert (await client.get("/items/7")).text == "item"
    async with web(outer) as client:
        assert (await client.get("/inner/deep/7")).text == "item"
    assert [one["route"] for one in entries(stub)] == ["GET /items/{id}"] * 2 + ["GET /inner/deep/{name}"]


async def test_unknown_paths_share_one_counter(service: Service, client_name: str) -> None:
    async with Tidegate(service.url, deadline=30, fallback="deny") as limiter:
        for app in (hello, Starlette(routes=[Route("/known", hello)]), FastAPI()):
            name = f"{client_name} {type(app)}"
            limited = TidegateMiddleware(app, "2/day", client=limiter, key=by_header("x-name"))
            async with web(limited) as client:
                client.headers["x-name"] = name
                found = [(await client.get(f"/nowhere/{number}")).status_code for number in range(4)]
            assert found[2:] == [429, 429]
            assert 429 not in found[:2]


async def test_options_as_values(stub: Stub) -> None:
    app = limiting(stub, name="search", domain="shop", cost=3, key=by_header("X-Api-Key"))
    async with web(app) as client:
        await client.get("/", headers={"x-api-key": "ann"})
        await client.get("/")
    assert entries(stub) == [
        {"route": "search", "client": "ann"},
        {"route": "search", "client": "203.0.113.7"},
    ]
    assert [(body["domain"], body["cost"]) for body in stub.bodies("/v1/check")] == [("shop", 3)] * 2


async def test_options_as_functions_whether_async_or_not(stub: Stub) -> None:
    async def key(request: Request) -> str:
        await asyncio.sleep(0)
        return request.query_params["user"]

    def cost(request: Request) -> int:
        return int(request.headers.get("X-Pages", "1"))

    async def skip(request: Request) -> bool:
        return request.path == "/health"

    def limits(request: Request) -> str:
        return "100/minute" if request.headers.get("x-plan") == "pro" else "10/minute"

    async with web(limiting(stub, limits=limits, key=key, cost=cost, skip=skip)) as client:
        assert (await client.get("/health")).text == "hello"
        await client.post("/?user=ann", headers={"x-pages": "5", "x-plan": "pro"})
    assert entries(stub) == [{"route": "limiter:dynamic", "client": "ann"}]
    body = stub.bodies("/v1/check")[0]
    assert body["cost"] == 5
    assert body["descriptors"][0]["limits"] == [{"requests": 100, "per": "minute"}]


@pytest.mark.parametrize(
    "descriptors",
    [
        [("user", "ann"), ("endpoint", "POST /orders")],
        {"user": "ann", "endpoint": "POST /orders"},
        [Descriptor({"user": "ann", "endpoint": "POST /orders"})],
        lambda request: {"user": "ann", "endpoint": f"{request.method} {request.path}"},
    ],
)
async def test_descriptors_of_the_apps_own_leave_limits_to_the_rules(stub: Stub, descriptors: Any) -> None:
    app = limiting(stub, limits=None, domain="shop", descriptors=descriptors)
    async with web(app) as client:
        await client.post("/orders")
    pairs = [{"key": "user", "value": "ann"}, {"key": "endpoint", "value": "POST /orders"}]
    assert stub.bodies("/v1/check") == [{"domain": "shop", "descriptors": [{"entries": pairs}]}]


async def test_behind_a_trusted_proxy_the_client_is_the_forwarded_address(stub: Stub) -> None:
    app = limiting(stub, trusted_proxies=["10.0.0.0/8"])
    async with web(app, peer="10.0.0.1") as client:
        await client.get("/", headers={"x-forwarded-for": "1.2.3.4, 2001:db8:1:2ff::9"})
    async with web(app, peer="203.0.113.7") as client:
        await client.get("/", headers={"x-forwarded-for": "1.2.3.4"})
    assert [one["client"] for one in entries(stub)] == ["2001:db8:1:200::/56", "203.0.113.7"]


async def test_a_denied_request_never_reaches_the_app() -> None:
    reached = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        reached.append(scope["path"])

    with serve(lambda _: denied(7)) as stub:
        async with web(limiting(stub, app)) as client:
            answer = await client.get("/")
    assert not reached
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")


async def test_the_app_can_respond_to_a_denial_itself() -> None:
    async def on_denied(request: Request, decision: Decision) -> ASGIApp:
        return JSONResponse({"path": request.path, "wait": decision.retry_after}, status_code=503)

    with serve(lambda _: denied(7)) as stub:
        async with web(limiting(stub, on_denied=on_denied)) as client:
            answer = await client.get("/a")
    assert (answer.status_code, answer.json()) == (503, {"path": "/a", "wait": 7})
    assert answer.headers["retry-after"] == "7"


async def test_headers_that_the_app_has_set_stay() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"RateLimit", b"mine"), (b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    headers = (("ratelimit", "theirs"), ("ratelimit-policy", "theirs"))
    with serve(lambda _: Reply(200, ALLOWED.body, headers)) as stub:
        async with web(limiting(stub, app)) as client:
            answer = await client.get("/")
    assert answer.headers.get_list("ratelimit") == ["mine"]
    assert answer.headers["ratelimit-policy"] == "theirs"
    assert answer.headers.get_list("set-cookie") == ["a=1", "b=2"]


async def test_only_headers_about_limits_are_passed_on() -> None:
    headers = (("ratelimit", "x"), ("x-envoy-upstream-service-time", "1"), ("set-cookie", "a=1"))
    with serve(lambda _: Reply(200, ALLOWED.body, headers)) as stub:
        async with web(limiting(stub)) as client:
            answer = await client.get("/")
    assert set(answer.headers) == {"content-type", "ratelimit"}


@pytest.mark.parametrize("kind", ["websocket", "lifespan"])
async def test_events_other_than_http_requests_pass_untouched(stub: Stub, kind: str) -> None:
    seen = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)

    async def nothing(*_: Any) -> Any:
        return {}

    scope: Scope = {"type": kind, "path": "/"}
    await limiting(stub, app)(scope, nothing, nothing)
    assert seen == [scope]
    assert (seen[0]["type"], seen[0]["path"]) == (kind, "/")
    assert not stub.received


async def test_the_app_can_see_the_decision(stub: Stub) -> None:
    seen = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(StarletteRequest(scope).state.tidegate)
        await hello(scope, receive, send)

    async with web(limiting(stub, app)) as client:
        await client.get("/")
    assert [decision.source for decision in seen] == ["memory"]


async def test_a_check_that_the_service_refuses_does_not_take_the_app_down(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def forbid(_: Received) -> Reply:
        return Reply(403, '{"detail":"set inline_limits in the rules of the domain"}')

    with serve(forbid) as stub:
        async with web(limiting(stub, limits="2/minute")) as client:
            statuses = [(await client.get("/")).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]  # the fallback counts
    told = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(told) == 1
    assert "set inline_limits" in told[0].getMessage()


async def test_the_fallback_denies_as_the_service_does() -> None:
    client = Tidegate("http://127.0.0.1:9", fallback="local", deadline=30)
    async with web(TidegateMiddleware(hello, "1/minute", client=client)) as asked:
        first, second = await asked.get("/"), await asked.get("/")
    await client.aclose()
    assert (first.status_code, second.status_code) == (200, 429)
    assert first.headers["ratelimit-policy"] == '"inline:minute";q=1;w=60'
    assert first.headers["x-ratelimit-remaining"] == "0"
    assert second.headers["content-type"] == "application/problem+json"
    assert int(second.headers["retry-after"]) >= 1
    assert list(second.json()) == [
        "type",
        "title",
        "status",
        "detail",
        "violated-policies",
        "retry_after",
        "limit",
        "window",
        "scope",
        "allowed",
        "decided_by",
        "source",
        "limits",
    ]


async def test_values_go_to_the_service_as_it_takes_them(stub: Stub) -> None:
    async with web(limiting(stub, name="a\x07b", key=by_header("x-api-key"))) as client:
        await client.get("/", headers=[(b"x-api-key", b"\x85\tann")])
        await client.get("/", headers=[(b"x-api-key", b"")])
    async with web(limiting(stub, limits=None, descriptors=lambda r: {"key": r.headers["k"]})) as client:
        await client.get("/", headers=[(b"k", b"\x7fann")])
        await client.get("/", headers=[(b"k", b"x" * 257)])
    assert entries(stub) == [
        {"route": "a%07b", "client": "\x85\tann"},
        {"route": "a%07b", "client": "203.0.113.7"},
        {"key": "%7Fann"},
        {"key": "x" * 200 + "~15eb95a462ee20bd91a415ae2d4aed34"},
    ]


@pytest.mark.parametrize("key", ["x" * 70_000, "ann\n", "\x00", "\ud800", "gr\u00f6\u00dfer\x85", "a\tb"])
async def test_whatever_the_key_the_service_limits_it_like_any_other(
    service: Service, client_name: str, key: str
) -> None:
    client = Tidegate(service.url, deadline=30, fallback="allow")
    by_code = TidegateMiddleware(hello, "2/day", client=client, name=client_name, key=lambda _: key)
    by_rules = TidegateMiddleware(
        hello, client=client, domain="api_platform", descriptors=lambda _: {"api_key": key}
    )
    async with client, web(by_code) as asking:
        assert [(await asking.get("/")).status_code for _ in range(3)] == [200, 200, 429]
        async with web(by_rules) as other:
            assert '"api_key:steady"' in (await other.get("/")).headers["ratelimit"]


@pytest.mark.parametrize("cost", [-1, 1.5, True, "2", None])
async def test_an_invalid_cost_is_an_error(stub: Stub, cost: Any) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(cost))):
        limiting(stub, cost=cost)
    async with web(limiting(stub, cost=lambda _: cost)) as client:
        with pytest.raises(ValueError, match=re.escape(repr(cost))):
            await client.get("/")
    assert not stub.received


@pytest.mark.parametrize("options", [{}, {"limits": "1/minute", "descriptors": {"a": "b"}}])
def test_either_limits_or_descriptors_are_needed(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="either limits"):
        TidegateMiddleware(hello, **options)
