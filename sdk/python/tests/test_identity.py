"""Which counter a limit in code is charged to: ``vectors/identity.json``, and apps as people write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, Depends, FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Host, Mount, Route

from support.apps import web
from support.stub import ALLOWED, Stub, decided, serve
from support.vectors import cases
from tidegate import InvalidLimit, Limit, Tidegate, TidegateMiddleware, parse_limits
from tidegate.asgi import ASGIApp
from tidegate.fastapi import install, limit, limited
from tidegate.limits import limits_of
from tidegate.local import Charge

pytestmark = pytest.mark.anyio


async def hello(request: Request) -> PlainTextResponse:
    return PlainTextResponse("hello")


def limits_in(given: Any) -> Any:
    return given if isinstance(given, str) else [Limit(**one) for one in given]


def method_and_path(ask: dict[str, Any]) -> tuple[str, str]:
    method, _, path = ask.get("template", f"GET {ask['path']}").partition(" ")
    return method, path


def limiters_of(case: dict[str, Any], client: Tidegate) -> list[ASGIApp]:
    """The limiters, around an app that has the routes which the case knows."""
    known = {method_and_path(ask) for ask in case["asks"] if "template" in ask}
    app = Starlette(routes=[Route(path, hello, methods=[method]) for method, path in sorted(known)])
    return [
        TidegateMiddleware(
            app,
            limits_in(one["limits"]),
            name=one.get("name"),
            key=lambda request: request.headers["x-client"],
            client=client,
        )
        for one in case["limiters"]
    ]


@pytest.mark.parametrize("case", cases("identity"), ids=lambda case: case["name"])
async def test_says_and_counts_what_every_language_does(case: dict[str, Any]) -> None:
    with serve(lambda received: decided(received, lambda _: ALLOWED)) as stub:
        async with Tidegate(stub.url, deadline=30) as client:
            limiters = limiters_of(case, client)
            for ask in case["asks"]:
                async with web(limiters[ask["limiter"]]) as asking:
                    method, _ = method_and_path(ask)
                    await asking.request(method, ask["path"], headers={"x-client": ask["client"]})
    named: dict[str, object] = {}
    for ask, body in zip(case["asks"], stub.bodies("/v1/check"), strict=True):
        [descriptor] = body["descriptors"]
        sent = {
            "entries": [[entry["key"], entry["value"]] for entry in descriptor["entries"]],
            "limits": descriptor["limits"],
        }
        assert sent == ask["sent"]
        limits = limits_of(limits_in(case["limiters"][ask["limiter"]]["limits"]))
        for one, counter in zip(limits, ask["counters"], strict=True):
            key = Charge.of(one, str(sent["entries"]), 1).key
            assert named.setdefault(counter, key) == key, f"{counter} is two counters"
    assert len(set(named.values())) == len(named), "two counters are one"


async def statuses(app: ASGIApp, paths: list[str], base: str = "http://app") -> list[int]:
    transport = httpx.ASGITransport(app=app, client=("203.0.113.7", 4711))
    async with httpx.AsyncClient(transport=transport, base_url=base) as asking:
        return [(await asking.get(path)).status_code for path in paths]


async def test_a_general_and_a_stricter_limit_are_two(caplog: pytest.LogCaptureFixture) -> None:
    """The first example of the README."""
    app = FastAPI()
    async with Tidegate.local() as client:
        app.add_middleware(TidegateMiddleware, limits="100/minute", client=client)

        @app.get("/search", dependencies=[Depends(limit("10/minute;200/hour"))])
        async def search(q: str) -> str:
            return q

        assert await statuses(app, ["/search?q=tides"] * 12) == [200] * 10 + [429] * 2
    assert not caplog.records


def dependency(sub: FastAPI, client: Tidegate) -> None:
    sub.add_api_route("/items/{id}", lambda: "item", dependencies=[Depends(limit("3/hour", client=client))])


def decorator(sub: FastAPI, client: Tidegate) -> None:
    sub.add_api_route("/items/{id}", limited("3/hour", client=client)(lambda: "item"))


def middleware(sub: FastAPI, client: Tidegate) -> None:
    sub.add_api_route("/items/{id}", lambda: "item")
    sub.add_middleware(TidegateMiddleware, limits="3/hour", client=client)


def installed(sub: FastAPI, client: Tidegate) -> None:
    install(sub, client=client)
    router = APIRouter(prefix="/items", dependencies=[Depends(limit("3/hour"))])
    router.add_api_route("/{id}", lambda: "item")
    sub.include_router(router)


LIMITED = [dependency, decorator, middleware, installed]


@pytest.mark.parametrize("limit_it", LIMITED)
@pytest.mark.parametrize("mounts", [["/t/{tenant}"], ["/a/{one}", "/b/{two}"], ["/static", "/t/{tenant}"]])
@pytest.mark.parametrize("root_path", ["", "/behind/a/proxy"])
async def test_a_parameter_of_a_mount_does_not_evade_the_limit(
    limit_it: Callable[[FastAPI, Tidegate], None], mounts: list[str], root_path: str
) -> None:
    async with Tidegate.local() as client:
        app = FastAPI()
        limit_it(app, client)
        for path in reversed(mounts):
            inner, app = app, FastAPI()
            app.mount(path, inner)
        app.root_path = root_path
        paths = [
            root_path + "".join(mount.format(tenant=n, one=n, two=-n) for mount in mounts) + f"/items/{n}"
            for n in range(8)
        ]
        assert await statuses(app, paths) == [200] * 3 + [429] * 5


async def test_apps_under_different_mounts_are_counted_apart(stub: Stub) -> None:
    async with Tidegate(stub.url, deadline=30) as client:
        app = FastAPI()
        for path in ("/v1", "/v2/{tenant}"):
            sub = FastAPI()
            dependency(sub, client)
            app.mount(path, sub)
        await statuses(app, ["/v1/items/7", "/v2/acme/items/7"])
    assert scopes(stub) == ["GET /v1/items/{id}", "GET /v2/{tenant}/items/{id}"]


@pytest.mark.parametrize("around", [True, False])
async def test_a_host_does_not_evade_the_limit(around: bool) -> None:
    async with Tidegate.local() as client:
        sub = FastAPI()
        app: ASGIApp = Starlette(routes=[Host("{tenant}.example.org", app=sub)])
        if around:
            sub.add_api_route("/items/{id}", lambda: "item")
            app = TidegateMiddleware(app, "3/hour", client=client)
        else:
            dependency(sub, client)
        seen = [await statuses(app, [f"/items/{n}"], f"http://t{n}.example.org") for n in range(5)]
        assert seen == [[200]] * 3 + [[429]] * 2


async def test_paths_that_belong_to_no_route_share_a_counter() -> None:
    async with Tidegate.local() as client:
        inner = Starlette(routes=[Route("/known", hello)])
        app = TidegateMiddleware(Starlette(routes=[Mount("/m", inner)]), "3/hour", client=client)
        paths = ["/a", "/m/b", "/c/d", "/e", "/m/f?g"]
        assert await statuses(app, paths) == [404] * 3 + [429] * 2
        assert await statuses(app, ["/m/known"]) == [200]


async def test_an_app_that_hides_its_routes_still_has_their_templates(stub: Stub) -> None:
    async with Tidegate(stub.url, deadline=30) as client:
        inner = FastAPI()
        dependency(inner, client)

        async def hiding(scope: Any, receive: Any, send: Any) -> None:
            await inner(scope, receive, send)

        await statuses(Starlette(routes=[Mount("/t/{tenant}", hiding)]), ["/t/1/items/7", "/t/2/items/8"])
    assert scopes(stub) == ["GET /t/{tenant}/items/{id}"] * 2


async def test_an_invented_method_does_not_evade_the_limit() -> None:
    async def anything(scope: Any, receive: Any, send: Any) -> None:
        await PlainTextResponse("hello")(scope, receive, send)

    async with Tidegate.local() as client:
        app = TidegateMiddleware(Starlette(routes=[Mount("/raw", anything)]), "3/hour", client=client)
        async with web(app) as asking:
            answers = [await asking.request(f"MADE{n}", "/raw/x") for n in range(5)]
            assert [answer.status_code for answer in answers] == [200] * 3 + [429] * 2
            assert (await asking.get("/raw/x")).status_code == 200


async def test_a_mount_within_a_router_does_not_evade_the_limit() -> None:
    async with Tidegate.local() as client:
        sub, router, app = FastAPI(), APIRouter(), FastAPI()
        dependency(sub, client)
        router.mount("/t/{tenant}", sub)
        app.mount("/r/{region}", router)
        assert await statuses(app, [f"/r/{n}/t/{n}/items/{n}" for n in range(5)]) == [200] * 3 + [429] * 2


async def test_a_router_that_is_included_leaves_its_mounts_out() -> None:
    """So FastAPI does; if it ever includes them, the law above is needed for `include_router`, too."""
    async with Tidegate.local() as client:
        sub, router, app = FastAPI(), APIRouter(prefix="/r/{region}"), FastAPI()
        dependency(sub, client)
        router.mount("/t/{tenant}", sub)
        app.include_router(router)
        app.mount("/direct/{region}", sub)
        assert await statuses(app, [f"/r/{n}/t/{n}/items/{n}" for n in range(5)]) == [404] * 5
        assert await statuses(app, [f"/direct/{n}/items/1" for n in range(5)]) == [200] * 3 + [429] * 2


@pytest.fixture
def stub() -> Any:
    with serve(lambda received: decided(received, lambda _: ALLOWED)) as stub:
        yield stub


def scopes(stub: Stub) -> list[str]:
    return [body["descriptors"][0]["entries"][0]["value"] for body in stub.bodies("/v1/check")]


async def test_limits_over_the_same_window_have_separate_counters() -> None:
    async with Tidegate.local() as client:
        asks = [await client.check({"user": "ann"}, limits="3/minute;5/minute;9/hour") for _ in range(4)]
    assert [one.name for one in asks[0].limits] == ["3/minute", "5/minute", "hour"]
    assert [one.remaining for one in asks[2].limits] == [0, 2, 6]
    assert not asks[3].allowed


@pytest.mark.parametrize(
    ("per", "window"),
    [
        ("60s", "minute"),
        ("60m", "hour"),
        ("7d", "week"),
        ("30d", "month"),
        ("365d", "year"),
        ("2d", "48h"),
        ("1h30m", "90m"),
        ("90s", "90s"),
        ("1500ms", "1500ms"),
        ("2000ms", "2s"),
    ],
)
async def test_a_window_has_one_name_however_it_is_written(per: str, window: str) -> None:
    async with Tidegate.local() as client:
        denied = await client.check({"user": "ann"}, limits=Limit(0, per))
    assert [one.name for one in denied.limits] == [window]
    assert f"limit {window} of rule inline allows 0 per {window};" in denied.detail


@pytest.mark.parametrize(
    "same", ["10/minute;10/minute", "10/minute;10/60s", [Limit(5, "hour", name="a")] * 2]
)
def test_the_same_limit_twice_is_refused_at_once(same: Any) -> None:
    with pytest.raises(InvalidLimit, match=r"twice|same name"):
        limits_of(same)


@pytest.mark.parametrize("make", [limits_of, limit, lambda none: TidegateMiddleware(Starlette(), none)])
def test_an_empty_list_of_limits_is_refused_with_a_reason(make: Callable[[Any], object]) -> None:
    empty: list[Any] = [[], (), [[]]]
    for none in empty:
        with pytest.raises(InvalidLimit, match="at least one limit"):
            make(none)


def test_small_limits_are_exact_by_default() -> None:
    small, large = parse_limits("10/minute;11/minute")
    assert (small.applied_algorithm, large.applied_algorithm) == ("sliding_log", "sliding_window")
    assert Limit(5, "minute", algorithm="fixed_window").applied_algorithm == "fixed_window"
    assert Limit(5, "minute", burst=2).applied_algorithm == "token_bucket"
    with pytest.raises(InvalidLimit, match="burst"):
        Limit(5, "minute", algorithm="sliding_log", burst=2)
    with pytest.raises(InvalidLimit, match="sliding_log"):
        Limit(5, "minute", algorithm="magic")


def test_the_old_word_for_a_name_is_refused() -> None:
    with pytest.raises(TypeError, match="route"):
        limit("10/minute", route="search")  # type: ignore[call-arg]
