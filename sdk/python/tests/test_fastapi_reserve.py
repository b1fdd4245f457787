"""The dependency that takes an estimate and settles what it really cost."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field

from support.apps import web
from support.stub import Received, Reply, Stub, denied, serve
from tidegate import Reservation, Tidegate, by_header
from tidegate.fastapi import install, reserve

pytestmark = pytest.mark.anyio

HEADERS = (("ratelimit-policy", '"inline:minute";q=10;w=60'), ("ratelimit", '"inline:minute";r=9;t=60'))


def reserving(received: Received) -> Reply:
    if received.path == "/v1/settle":
        return Reply(body=json.dumps({"estimate": 5, "cost": received.body["cost"], "limits": []}))
    body = {"id": "r1", "expires_at": "2026-01-01T00:00:00Z", "allowed": True, "decided_by": None}
    return Reply(200, json.dumps(body | {"source": "memory", "limits": []}), HEADERS)


@pytest.fixture
def stub() -> Iterator[Stub]:
    with serve(reserving) as stub:
        yield stub


class Work(BaseModel):
    most: int = Field(ge=0)


def most(work: Work) -> int:
    return work.most


def app_of(stub: Stub, *, installed: bool = True, **options: Any) -> FastAPI:
    """Settles what the query says, or fails with the status that it says."""
    app = FastAPI()
    client = Tidegate(stub.url, deadline=30)
    options.setdefault("cost", Depends(most))
    if installed:
        install(app, client=client, trusted_proxies=["10.0.0.0/8"])
    else:
        options["client"] = client
    dependency = Depends(reserve("10/minute", **options))

    @app.post("/work/{kind}")
    async def work(work: Work, request: Request, reservation: Reservation = dependency) -> PlainTextResponse:
        if "fail" in request.query_params:
            raise HTTPException(int(request.query_params["fail"]))
        if "used" in request.query_params:
            reservation.settle(int(request.query_params["used"]))
        return PlainTextResponse("done")

    return app


def reserved(stub: Stub) -> list[tuple[str, str, int]]:
    return [
        (*(entry["value"] for entry in body["descriptors"][0]["entries"]), body["cost"])
        for body in stub.bodies("/v1/reserve")
    ]


@pytest.mark.parametrize("installed", [True, False])
async def test_reserves_settles_and_tells(stub: Stub, installed: bool) -> None:
    async with web(app_of(stub, installed=installed)) as client:
        answer = await client.post("/work/long?used=3", json={"most": 5})
    assert answer.text == "done"
    assert reserved(stub) == [("POST /work/{kind}", "203.0.113.7", 5)]
    assert stub.bodies("/v1/settle") == [{"id": "r1", "cost": 3}]
    if installed:  # without it, an answer that the endpoint made itself cannot be reached
        assert [pair for pair in answer.headers.items() if pair[0].startswith("ratelimit")] == list(HEADERS)


async def test_it_is_settled_before_the_response_begins(stub: Stub) -> None:
    app = app_of(stub)
    settled_at_start = []

    async def asking(scope: Any, receive: Any, send: Any) -> None:
        async def noting(message: Any) -> None:
            if message["type"] == "http.response.start":
                settled_at_start.append(len(stub.bodies("/v1/settle")))
            await send(message)

        await app(scope, receive, noting)

    async with web(asking) as client:
        await client.post("/work/long?used=3", json={"most": 5})
    assert settled_at_start == [1]
    assert len(stub.bodies("/v1/settle")) == 1


async def test_counts_under_the_keys_of_the_app(stub: Stub) -> None:
    options: dict[str, Any] = {"key": by_header("x-api-key"), "name": "work", "cost": lambda request: 7}
    async with web(app_of(stub, **options), peer="10.0.0.1") as client:
        for headers in ({"x-api-key": "ann\x7f"}, {"x-api-key": ""}, {}):
            forwarded = {"x-forwarded-for": "198.51.100.1"}
            await client.post("/work/a", json={"most": 5}, headers=headers | forwarded)
    clients = ["ann%7F", "198.51.100.1", "198.51.100.1"]
    assert reserved(stub) == [("work", client, 7) for client in clients]


@pytest.mark.parametrize("body", [{"most": -1}, {"most": "many"}, {}])
async def test_a_request_at_fault_reserves_nothing(stub: Stub, body: dict[str, Any]) -> None:
    async with web(app_of(stub)) as client:
        assert (await client.post("/work/a", json=body)).status_code == 422
    assert not stub.received


@pytest.mark.parametrize(("on_error", "settled"), [("refund", [0]), ("keep", [])])
async def test_an_exception_charges_nothing_unless_on_error_is_keep(
    stub: Stub, on_error: str, settled: list[int]
) -> None:
    async with web(app_of(stub, on_error=on_error)) as client:
        assert (await client.post("/work/a?fail=404", json={"most": 5})).status_code == 404
    assert [body["cost"] for body in stub.bodies("/v1/settle")] == settled


async def test_without_settling_the_estimate_stays_charged(stub: Stub) -> None:
    async with web(app_of(stub)) as client:
        assert (await client.post("/work/a", json={"most": 5})).status_code == 200
    assert stub.bodies("/v1/settle") == []


@pytest.mark.parametrize("installed", [True, False])
async def test_a_denial_is_the_service_s(installed: bool) -> None:
    with serve(lambda _: denied(7)) as stub:
        async with web(app_of(stub, installed=installed)) as client:
            answer = await client.post("/work/a", json={"most": 5})
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.text == denied(7).body


async def test_a_check_that_the_service_refuses_does_not_take_the_app_down(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def forbid(_: Received) -> Reply:
        return Reply(403, '{"detail":"set inline_limits in the rules of the domain"}')

    with serve(forbid) as stub:
        async with web(app_of(stub)) as client:
            statuses = [(await client.post("/work/a", json={"most": 5})).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]  # the fallback counts
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1


async def test_a_reservation_can_be_skipped(stub: Stub) -> None:
    app = app_of(stub, cost=1, skip=lambda request: "x-internal" in request.headers)
    async with web(app) as client:
        answer = await client.post("/work/long?used=3", json={"most": 5}, headers={"x-internal": "1"})
    assert answer.status_code == 200
    assert not stub.received
    assert "ratelimit" not in answer.headers
