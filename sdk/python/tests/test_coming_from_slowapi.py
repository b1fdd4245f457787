"""``docs/coming-from-slowapi.md``: its app is run, and what it says is different is."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from support.vectors import ROOT
from tidegate import Tidegate
from tidegate.decider import Decider
from tidegate.fastapi import limited

PAGE = (ROOT / "docs" / "coming-from-slowapi.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    [source] = [block for block in BLOCKS if "from tidegate" in block]
    monkeypatch.setattr("tidegate.client._shared", Tidegate.local())
    monkeypatch.setattr("tidegate.asgi.Tidegate", lambda *_, **__: Tidegate.local())
    monkeypatch.setattr("tidegate.decider._default", Decider())
    names: dict[str, Any] = {}
    exec(compile(source, "coming-from-slowapi.md", "exec"), names)  # noqa: S102 - the page's own app
    found: FastAPI = names["app"]
    return found


def statuses(app: FastAPI, paths: list[str]) -> list[int]:
    web = TestClient(app)
    return [web.get(path).status_code for path in paths]


def test_the_app_of_the_page(app: FastAPI) -> None:
    assert statuses(app, ["/search"] * 7) == [200] * 5 + [429] * 2
    assert statuses(app, ["/health"] * 120) == [200] * 120
    assert statuses(app, ["/nowhere"] * 101) == [404] * 100 + [429]


def test_a_path_parameter_does_not_evade_the_limit() -> None:
    app = FastAPI()

    @app.get("/users/{name}")
    @app.post("/users/{name}")
    @limited("3/minute", client=Tidegate.local())
    async def user(name: str) -> str:
        return name

    assert statuses(app, [f"/users/{number}" for number in range(5)]) == [200] * 3 + [429] * 2
    assert TestClient(app).post("/users/6").status_code == 200, "methods are counted apart"


def test_a_denied_request_takes_nothing() -> None:
    app = FastAPI()
    client = Tidegate.local()

    @app.get("/")
    @limited("2/minute;4/hour", client=client)
    async def index() -> str:
        return "hello"

    web = TestClient(app)
    for _ in range(5):
        answer = web.get("/")
    assert answer.status_code == 429
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["ratelimit"] == '"inline:minute";r=0;t=60, "inline:hour";r=2;t=3600'
