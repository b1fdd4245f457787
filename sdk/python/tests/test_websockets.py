"""Websockets are limited like requests: they pass, or are closed with 1008 and a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fastapi import Depends, FastAPI
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from tidegate import Reservation, Tidegate, TidegateMiddleware, by_header
from tidegate.asgi import ASGIApp
from tidegate.fastapi import install, limit, limited, reserve


async def echo(websocket: WebSocket) -> None:
    await websocket.accept(websocket.headers.get("sec-websocket-protocol"))
    await websocket.send_text("hello")
    await websocket.close()


def of_the_whole_app(client: Tidegate) -> ASGIApp:
    app = FastAPI(dependencies=[Depends(limit("2/hour", client=client))])
    app.add_api_websocket_route("/ws/{room}", echo)
    return app


def of_the_route(client: Tidegate) -> ASGIApp:
    app = FastAPI()
    install(app, client=client)
    app.add_api_websocket_route("/ws/{room}", echo, dependencies=[Depends(limit("2/hour"))])
    return app


def by_reservation(client: Tidegate) -> ASGIApp:
    app = FastAPI()
    tokens = reserve("2/hour", cost=1, client=client)

    @app.websocket("/ws/{room}")
    async def work(websocket: WebSocket, reservation: Reservation = Depends(tokens)) -> None:  # noqa: B008
        reservation.settle(1)
        await echo(websocket)

    return app


def by_decorator(client: Tidegate) -> ASGIApp:
    app = FastAPI()
    app.add_api_websocket_route("/ws/{room}", limited("2/hour", client=client)(echo))
    return app


def by_decorator_of_starlette(client: Tidegate) -> ASGIApp:
    return Starlette(routes=[WebSocketRoute("/ws/{room}", limited("2/hour", client=client)(echo))])


def by_middleware(client: Tidegate) -> ASGIApp:
    app = Starlette(routes=[WebSocketRoute("/ws/{room}", echo)])
    return TidegateMiddleware(app, "2/hour", client=client, websockets=True)


WAYS = [
    of_the_whole_app,
    of_the_route,
    by_reservation,
    by_decorator,
    by_decorator_of_starlette,
    by_middleware,
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("protocols", [None, ["chat", "superchat"]])
def test_a_websocket_passes_or_is_closed_with_a_reason(
    way: Callable[[Tidegate], ASGIApp], protocols: list[str] | None
) -> None:
    asking = TestClient(way(Tidegate.local()))
    for number in range(2):
        with asking.websocket_connect(f"/ws/{number}") as websocket:
            assert websocket.receive_text() == "hello"
    with asking.websocket_connect("/ws/2", subprotocols=protocols) as websocket:
        assert websocket.accepted_subprotocol == (protocols[0] if protocols else None)
        with pytest.raises(WebSocketDisconnect) as closed:
            websocket.receive_text()
    assert closed.value.code == 1008
    assert "allows 2 per hour; retry in" in closed.value.reason


@pytest.mark.parametrize("way", ["dependency", "decorator", "reservation"])
def test_a_websocket_that_was_accepted_before_is_closed_with_a_reason(way: str) -> None:
    """A dependency before it may have accepted the connection, to read a token from a message, say."""
    client = Tidegate.local()

    async def accept(websocket: WebSocket) -> None:
        await websocket.accept()

    async def work(websocket: WebSocket) -> None:
        await websocket.send_text("hello")
        await websocket.close()

    app = FastAPI()
    dependencies = [Depends(accept)]
    if way == "dependency":
        dependencies.append(Depends(limit("1/hour", client=client)))
    if way == "reservation":
        dependencies.append(Depends(reserve("1/hour", cost=1, client=client)))
    endpoint = limited("1/hour", client=client)(work) if way == "decorator" else work
    app.add_api_websocket_route("/ws", endpoint, dependencies=dependencies)
    asking = TestClient(app)
    with asking.websocket_connect("/ws") as websocket:
        assert websocket.receive_text() == "hello"
    with asking.websocket_connect("/ws") as websocket, pytest.raises(WebSocketDisconnect) as closed:
        websocket.receive_text()
    assert closed.value.code == 1008
    assert "allows 1 per hour; retry in" in closed.value.reason


def test_requests_and_websockets_of_one_app_are_limited_together() -> None:
    """With one dependency for all, as `FastAPI(dependencies=…)` has it, and by a key of both."""
    everything = limit("3/hour", client=Tidegate.local(), name="app", key=by_header("x-api-key"))
    app = FastAPI(dependencies=[Depends(everything)])
    app.add_api_websocket_route("/ws", echo)

    @app.get("/")
    async def hello() -> str:
        return "hello"

    asking = TestClient(app, headers={"x-api-key": "ann"})
    assert asking.get("/").status_code == 200
    with asking.websocket_connect("/ws") as websocket:
        assert websocket.receive_text() == "hello"
    assert asking.get("/").status_code == 200
    assert asking.get("/").status_code == 429
    with asking.websocket_connect("/ws") as websocket, pytest.raises(WebSocketDisconnect):
        websocket.receive_text()


def test_a_middleware_limits_websockets_only_if_enabled() -> None:
    app = Starlette(routes=[WebSocketRoute("/ws", echo)])
    asking = TestClient(TidegateMiddleware(app, "1/hour", client=Tidegate.local()))
    for _ in range(3):
        with asking.websocket_connect("/ws") as websocket:
            assert websocket.receive_text() == "hello"


def test_a_websocket_that_passes_gets_the_headers() -> None:
    asking = TestClient(by_middleware(Tidegate.local()))
    with asking.websocket_connect("/ws/1") as websocket:
        headers: dict[str, Any] = {
            name.decode(): value.decode() for name, value in websocket.extra_headers or ()
        }
    assert headers["ratelimit"] == '"inline:hour";r=1;t=3600'
