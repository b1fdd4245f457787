"""Likely mistakes are logged once, with a code and what to do."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from fastapi import Depends, FastAPI

from support.apps import hello, web
from support.clock import FakeClock
from support.stub import ALLOWED, decided, serve
from tidegate import ClientIp, Request, Tidegate, TidegateMiddleware, by_header, warnings
from tidegate.fastapi import install, limit

pytestmark = pytest.mark.anyio


def codes(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage().split(":")[0] for record in caplog.records if record.name == "tidegate"]


@pytest.mark.parametrize("network", ["0.0.0.0/0", "::/0", "::ffff:0:0/96"])
def test_trusting_everybody(caplog: pytest.LogCaptureFixture, network: str) -> None:
    for _ in range(2):
        ClientIp(["10.0.0.0/8", network])
    assert codes(caplog) == ["TIDEGATE_TRUST_ALL"]


def test_trusting_one_s_own_proxies_is_fine(caplog: pytest.LogCaptureFixture) -> None:
    ClientIp(["10.0.0.0/8", "fd00::/8"])
    by_header("x-api-key")
    Tidegate("http://127.0.0.1:9")
    assert codes(caplog) == []


def test_version_6_without_groups(caplog: pytest.LogCaptureFixture) -> None:
    ClientIp(ipv6_prefix=64)
    assert codes(caplog) == []
    ClientIp(ipv6_prefix=65)
    assert codes(caplog) == ["TIDEGATE_IPV6_UNGROUPED"]


def by_lambda(request: Request) -> str | None:
    return request.headers.get("X-Real-IP")


@pytest.mark.parametrize("make", [lambda: by_header("X-Forwarded-For"), lambda: by_lambda])
def test_a_key_that_anybody_can_write(caplog: pytest.LogCaptureFixture, make: Any) -> None:
    TidegateMiddleware(hello, "10/minute", key=make())
    assert codes(caplog) == ["TIDEGATE_SPOOFABLE_KEY"]
    assert "trusted_proxies" in caplog.text


async def test_one_request_charged_twice(caplog: pytest.LogCaptureFixture) -> None:
    with serve(lambda received: decided(received, lambda _: ALLOWED)) as stub:
        async with Tidegate(stub.url, deadline=30) as client:
            app = FastAPI()
            install(app, client=client)

            @app.get("/", dependencies=[Depends(limit("10/minute"))])
            async def hello() -> str:
                return "hello"

            for stricter_or_other in ("100/minute", "10/hour"):
                async with web(TidegateMiddleware(app, stricter_or_other, client=client)) as asking:
                    await asking.get("/")
            assert codes(caplog) == []
            async with web(TidegateMiddleware(app, "50/day;10/minute", client=client)) as asking:
                await asking.get("/")
                await asking.get("/")
    assert codes(caplog) == ["TIDEGATE_DOUBLE_COUNT"]


async def test_limiters_that_only_their_order_tells_apart(caplog: pytest.LogCaptureFixture) -> None:
    async with Tidegate.local() as client:
        first = TidegateMiddleware(hello, "10/minute", client=client)
        other = TidegateMiddleware(first, "20/minute", client=client)
        named = TidegateMiddleware(other, "10/minute", client=client, name="app")
        async with web(named) as asking:
            await asking.get("/")
        assert codes(caplog) == []
        async with web(TidegateMiddleware(named, "10/minute", client=client)) as asking:
            await asking.get("/")
            await asking.get("/")
    assert codes(caplog) == ["TIDEGATE_UNNAMED_TWIN"]


async def test_a_client_created_within_a_request(caplog: pytest.LogCaptureFixture) -> None:
    with serve(lambda received: decided(received, lambda _: ALLOWED)) as stub:
        app = FastAPI()
        client = Tidegate(stub.url, deadline=30)
        install(app, client=client)

        @app.get("/", dependencies=[Depends(limit("10/minute"))])
        async def wrong() -> str:
            Tidegate("http://127.0.0.1:9")
            return "hello"

        async with web(app) as asking, client:
            await asking.get("/")
    assert codes(caplog) == ["TIDEGATE_LIMITER_PER_REQUEST"]


async def test_the_middlewares_of_mounted_apps_are_no_mistake(caplog: pytest.LogCaptureFixture) -> None:
    """Starlette creates them with the first request to the mounted app, here while another one is handled."""
    with serve(lambda received: decided(received, lambda _: ALLOWED)) as stub:
        app = FastAPI()
        app.add_middleware(TidegateMiddleware, limits="100/minute", url=stub.url, deadline=30)
        for path in ("/one", "/two"):
            sub = FastAPI()
            sub.add_api_route("/", lambda: "hello")
            for limits in ("50/minute", "500/hour"):
                sub.add_middleware(TidegateMiddleware, limits=limits, url=stub.url, deadline=30)
            app.mount(path, sub)
        async with web(app) as asking:
            for path in ("/one/", "/two/") * 2:
                assert (await asking.get(path)).status_code == 200
        assert len(stub.received) == 12
    assert codes(caplog) == []


async def test_a_middleware_created_in_each_request(caplog: pytest.LogCaptureFixture) -> None:
    async with Tidegate.local() as client:

        async def wrong(scope: Any, receive: Any, send: Any) -> None:
            await TidegateMiddleware(hello, "10/minute", client=client)(scope, receive, send)

        async with web(TidegateMiddleware(wrong, "20/minute", client=client)) as asking:
            await asking.get("/")
            assert codes(caplog) == []
            await asking.get("/")
    assert codes(caplog) == ["TIDEGATE_LIMITER_PER_REQUEST"]


async def test_a_client_created_after_a_request_is_fine(caplog: pytest.LogCaptureFixture) -> None:
    with serve(lambda received: decided(received, lambda _: ALLOWED)) as stub:
        async with web(TidegateMiddleware(hello, "10/minute", url=stub.url, deadline=30)) as asking:
            await asking.get("/")
    import gc

    gc.collect()
    Tidegate("http://127.0.0.1:9")
    assert codes(caplog) == []


def test_very_many_clients(caplog: pytest.LogCaptureFixture) -> None:
    clients = [Tidegate("http://127.0.0.1:9") for _ in range(warnings.MAX_LIMITERS)]
    assert codes(caplog) == []
    clients.append(Tidegate("http://127.0.0.1:9"))
    assert codes(caplog) == ["TIDEGATE_LIMITER_PER_REQUEST"]


@pytest.mark.parametrize(("step_s", "told"), [(0.5, ["TIDEGATE_LIMITER_PER_REQUEST"]), (0.61, [])])
def test_very_many_clients_within_a_minute_though_none_was_kept(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, step_s: float, told: list[str]
) -> None:
    clock = FakeClock()
    monkeypatch.setattr(warnings, "_now", lambda: clock.now_s)
    for _ in range(3 * warnings.MAX_LIMITERS):
        Tidegate("http://127.0.0.1:9")
        clock.advance(step_s)
    assert codes(caplog) == told


def test_every_text_says_what_to_do() -> None:
    assert set(warnings.TEXTS) == {
        "TIDEGATE_TRUST_ALL",
        "TIDEGATE_SPOOFABLE_KEY",
        "TIDEGATE_DOUBLE_COUNT",
        "TIDEGATE_LIMITER_PER_REQUEST",
        "TIDEGATE_IPV6_UNGROUPED",
        "TIDEGATE_UNNAMED_TWIN",
        "TIDEGATE_NO_ADDRESS",
    }
    assert logging.getLogger("tidegate").level == logging.NOTSET
    for text in warnings.TEXTS.values():
        assert ";" in text
