"""The dependency and the decorator, in apps as people write them."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from fastapi.testclient import TestClient
from starlette.applications import Starlette
from starlette.routing import Route

from support.apps import under_uvicorn, web
from support.service import Service
from support.stub import ALLOWED, Reply, Stub, decided, denied, serve
from tidegate import Decision, RateLimitExceeded, Tidegate, TidegateMiddleware, by_header
from tidegate.decider import Decider
from tidegate.fastapi import install, limit, limited

pytestmark = pytest.mark.anyio

HEADERS = (("ratelimit-policy", '"inline:minute";q=10;w=60'), ("ratelimit", '"inline:minute";r=9;t=60'))


@pytest.fixture
def stub() -> Iterator[Stub]:
    """Lets everything pass, with headers."""
    with serve(lambda received: decided(received, lambda _: Reply(200, ALLOWED.body, HEADERS))) as stub:
        yield stub


@pytest.fixture
def client(stub: Stub) -> Tidegate:
    return Tidegate(stub.url, deadline=30)


def asked(stub: Stub) -> list[tuple[str, str]]:
    """Route and client of each check."""
    bodies = [
        one for body in stub.bodies("/v1/check") for one in (body if isinstance(body, list) else [body])
    ]
    return [tuple(entry["value"] for entry in body["descriptors"][0]["entries"]) for body in bodies]


async def test_one_line_is_enough(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.client._shared", Tidegate(stub.url, deadline=30))
    app = FastAPI()

    @app.get("/items/{number}", dependencies=[Depends(limit("10/minute"))])
    async def item(number: int) -> dict[str, int]:
        return {"id": number}

    async with web(app) as asking:
        answer = await asking.get("/items/7")
    assert answer.json() == {"id": 7}
    assert answer.headers["ratelimit"] == HEADERS[1][1]
    assert asked(stub) == [("GET /items/{number}", "203.0.113.7")]


async def test_options_of_the_dependency(stub: Stub, client: Tidegate) -> None:
    app = FastAPI()
    install(app, client=client, trusted_proxies=["203.0.113.0/24"])

    async def pages(request: Request) -> int:
        return int(request.query_params.get("pages", 1))

    reports = limit("10/minute;200/hour", cost=pages, key=by_header("x-api-key"), name="reports")

    @app.post("/reports")
    async def report(decision: Decision = Depends(reports)) -> dict[str, str]:  # noqa: B008 - FastAPI's way
        return {"source": decision.source}

    async with web(app) as asking:
        headers = {"x-forwarded-for": "198.51.100.1"}
        answer = await asking.post("/reports?pages=3", headers=headers)
        await asking.post("/reports", headers={"x-api-key": "ann"})
    assert answer.json() == {"source": "memory"}
    assert asked(stub) == [("reports", "198.51.100.1"), ("reports", "ann")]
    assert [body.get("cost", 1) for body in stub.bodies("/v1/check")] == [3, 1]


async def test_routers_and_mounted_apps_have_their_whole_template(stub: Stub, client: Tidegate) -> None:
    app, inner = FastAPI(), FastAPI()
    install(app, client=client)
    router = APIRouter(prefix="/users", dependencies=[Depends(limit("10/minute"))])

    @router.get("/{name}")
    @inner.get("/deep/{name}", dependencies=[Depends(limit("10/minute"))])
    async def user(name: str) -> str:
        return name

    app.include_router(router, prefix="/v1")
    app.mount("/inner", inner)
    async with web(app) as asking:
        assert (await asking.get("/v1/users/ann")).json() == "ann"
        assert (await asking.get("/inner/deep/ann")).json() == "ann"
    assert [route for route, _ in asked(stub)] == ["GET /v1/users/{name}", "GET /inner/deep/{name}"]


async def test_skip_leaves_a_request_alone(stub: Stub, client: Tidegate) -> None:
    app = FastAPI()
    internal = limit("10/minute", client=client, skip=lambda request: "x-internal" in request.headers)

    @app.get("/", dependencies=[Depends(internal)])
    async def hello() -> str:
        return "hello"

    async with web(app) as asking:
        assert (await asking.get("/", headers={"x-internal": "1"})).status_code == 200
    assert not stub.received


async def test_endpoints_that_make_their_own_response_get_headers_too(client: Tidegate) -> None:
    app = FastAPI()
    install(app, client=client)

    @app.get("/", dependencies=[Depends(limit("10/minute"))])
    async def hello() -> JSONResponse:
        return JSONResponse("hello", headers={"ratelimit": "mine"})

    async with web(app) as asking:
        answer = await asking.get("/")
    assert answer.headers.get_list("ratelimit") == ["mine"]
    assert answer.headers["ratelimit-policy"] == HEADERS[0][1]


async def test_the_decorator_needs_no_request_parameter(stub: Stub, client: Tidegate) -> None:
    app = FastAPI()

    @app.get("/plain")
    @limited("10/minute", client=client)
    def plain(q: str, page: int = 1) -> dict[str, Any]:
        """In a thread of its own, as FastAPI does with such functions."""
        return {"q": q, "page": page}

    @app.get("/own/{name}")
    @limited("10/minute", client=client, name="own")
    async def own(name: str, request: Request, response: Response) -> str:
        response.headers["x-mine"] = request.method
        return name

    @app.get("/made")
    @limited("10/minute", client=client)
    async def made(**_: Any) -> PlainTextResponse:
        return PlainTextResponse("made")

    async with web(app) as asking:
        first = await asking.get("/plain?q=a&page=2")
        second = await asking.get("/own/ann")
        third = await asking.get("/made?_=1")
        refused = await asking.get("/plain")
    assert first.json() == {"q": "a", "page": 2}
    assert (second.json(), second.headers["x-mine"]) == ("ann", "GET")
    assert third.status_code in (200, 422)
    assert refused.status_code == 422
    for answer in (first, second):
        assert answer.headers["ratelimit"] == HEADERS[1][1]
    assert [route for route, _ in asked(stub)][:2] == ["GET /plain", "own"]
    assert "tidegate" not in str(app.openapi())


def stacked(app: FastAPI, client: Tidegate, *, own_request: bool, in_thread: bool) -> None:
    """An endpoint with three limits, with and without a parameter for the request."""

    async def plain(q: str = "") -> str:
        return q

    def threaded(q: str = "") -> str:
        return q

    async def with_request(request: Request, response: Response, q: str = "") -> str:
        response.headers["x-mine"] = request.method
        return q

    def threaded_with_request(request: Request, response: Response, q: str = "") -> str:
        response.headers["x-mine"] = request.method
        return q

    endpoints: dict[tuple[bool, bool], Any] = {
        (False, False): plain,
        (False, True): threaded,
        (True, False): with_request,
        (True, True): threaded_with_request,
    }
    endpoint = endpoints[own_request, in_thread]
    for limits in ("2/minute", "5/hour", "100/day"):
        endpoint = limited(limits, client=client)(endpoint)
    app.add_api_route("/search", endpoint)


@pytest.mark.parametrize("own_request", [True, False])
@pytest.mark.parametrize("in_thread", [True, False])
async def test_decorators_may_be_stacked(own_request: bool, in_thread: bool) -> None:
    app = FastAPI()
    stacked(app, Tidegate.local(), own_request=own_request, in_thread=in_thread)
    async with web(app) as asking:
        answers = [await asking.get("/search?q=a") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[0].json() == "a"
    assert answers[0].headers.get("x-mine") == ("GET" if own_request else None)
    assert answers[0].headers["ratelimit"] == '"inline:minute";r=1;t=60'
    assert "tidegate" not in str(app.openapi())


async def test_decorators_may_be_stacked_on_endpoints_of_starlette() -> None:
    client = Tidegate.local()

    @limited("100/hour", client=client)
    @limited("2/minute", client=client)
    async def search(request: Request) -> PlainTextResponse:
        return PlainTextResponse("found")

    app = Starlette(routes=[Route("/search", search)])
    async with web(app) as asking:
        assert [(await asking.get("/search")).status_code for _ in range(3)] == [200, 200, 429]


async def test_the_default_client_causes_no_warning(
    stub: Stub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tidegate.client._shared", None)
    monkeypatch.setattr("tidegate.decider._default", Decider())
    monkeypatch.setenv("TIDEGATE_URL", stub.url)
    app = FastAPI()

    @app.get("/", dependencies=[Depends(limit("10/minute"))])
    async def hello() -> str:
        return "hello"

    async with web(app) as asking:
        assert (await asking.get("/")).status_code == 200
    assert len(asked(stub)) == 1
    assert not caplog.records


@pytest.mark.parametrize("trusted", [(), ["10.0.0.0/8"], 1])
async def test_connections_without_an_address_are_warned_of(
    caplog: pytest.LogCaptureFixture, trusted: Any
) -> None:
    """As behind a Unix socket."""
    app = FastAPI()
    install(app, client=Tidegate.local(), trusted_proxies=trusted)
    app.add_api_route("/", lambda: "hello", dependencies=[Depends(limit("1/hour"))])
    transport = httpx.ASGITransport(app=app, client=None)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://app") as asking:
        headers = [{"x-forwarded-for": f"1.1.1.1, 198.51.100.{n}"} for n in range(2)]
        seen = [(await asking.get("/", headers=one)).status_code for one in headers]
    assert seen == ([200, 200] if trusted == 1 else [200, 429])
    told = [record.getMessage().split(":")[0] for record in caplog.records]
    assert told == ([] if trusted == 1 else ["TIDEGATE_NO_ADDRESS"])


async def test_a_handler_of_the_apps_own_is_respected() -> None:
    app = FastAPI()

    @app.exception_handler(RateLimitExceeded)
    async def slow_down(request: Request, error: RateLimitExceeded) -> JSONResponse:
        return JSONResponse({"wait": error.retry_after}, status_code=420)

    with serve(lambda _: denied(7)) as stub:
        client = Tidegate(stub.url, deadline=30)

        @app.get("/", dependencies=[Depends(limit("10/minute", client=client))])
        async def hello() -> str:
            return "hello"

        async with web(app) as asking, client:
            answer = await asking.get("/")
    assert (answer.status_code, answer.json()) == (420, {"wait": 7})


async def test_middleware_and_dependency_go_together(stub: Stub, client: Tidegate) -> None:
    app = FastAPI()
    app.add_middleware(TidegateMiddleware, limits="100/minute", name="app", client=client)

    @app.get("/search", dependencies=[Depends(limit("10/minute"))])
    async def search() -> str:
        return "found"

    async with web(app) as asking:
        await asking.get("/search")
    # The dependency asks with the middleware's client.
    assert asked(stub) == [("app", "203.0.113.7"), ("GET /search", "203.0.113.7")]


def test_the_test_client_with_its_many_loops_works(client: Tidegate, stub: Stub) -> None:
    app = FastAPI()
    install(app, client=client)

    @app.get("/", dependencies=[Depends(limit("10/minute"))])
    async def hello() -> str:
        return "hello"

    asking = TestClient(app)
    for _ in range(3):
        assert asking.get("/").status_code == 200
    assert [route for route, _ in asked(stub)] == ["GET /"] * 3


def test_a_real_app_under_uvicorn(service: Service, client_name: str) -> None:
    app = FastAPI()
    client = Tidegate(service.url, deadline=30)
    install(app, client=client, trusted_proxies=["127.0.0.1/32"])

    @app.get("/search", dependencies=[Depends(limit("5/hour", name=client_name))])
    async def search(q: str) -> dict[str, list[str]]:
        return {"results": []}

    with under_uvicorn(app) as url, httpx.Client(base_url=url, trust_env=False) as asking:

        def ask(client_ip: str) -> httpx.Response:
            return asking.get("/search?q=a", headers={"x-forwarded-for": client_ip})

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(ask, ["198.51.100.1"] * 20))
        other = ask("198.51.100.2")
    statuses = [answer.status_code for answer in answers]
    assert statuses.count(200) == 5
    assert statuses.count(429) == 15
    assert other.status_code == 200
    assert other.headers["ratelimit-policy"] == '"inline:hour";q=5;w=3600'
    denial = next(answer for answer in answers if answer.status_code == 429)
    assert denial.headers["content-type"] == "application/problem+json"
    assert denial.json()["retry_after"] == int(denial.headers["retry-after"])
    assert denial.json()["source"] == "memory"


def inner_dependency(app: FastAPI) -> None:
    @app.get("/", dependencies=[Depends(limit("10/minute"))])
    async def index() -> str:
        return "hello"


def inner_decorators(app: FastAPI) -> None:
    @app.get("/")
    @limited("50/minute")
    @limited("10/minute")
    async def index() -> str:
        return "hello"


def inner_without_limits(app: FastAPI) -> None:
    @app.get("/", dependencies=[Depends(limit("10/minute")), Depends(limit(descriptors={"no": "rule"}))])
    async def index() -> str:
        return "hello"


@pytest.mark.parametrize("add_route", [inner_dependency, inner_decorators, inner_without_limits])
async def test_the_response_shows_the_innermost_limit(add_route: Any) -> None:
    app = FastAPI(dependencies=[Depends(limit("100/minute"))])
    client = Tidegate.local()
    install(app, client=client)
    app.add_middleware(TidegateMiddleware, limits="1000/minute", client=client)
    add_route(app)
    async with web(app) as asking:
        answer = await asking.get("/")
    assert answer.headers.get_list("ratelimit-policy") == ['"inline:minute";q=10;w=60']
    assert answer.headers.get_list("x-ratelimit-remaining") == ["9"]
