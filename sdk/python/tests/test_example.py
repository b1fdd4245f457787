"""The example, started as its README says, against the real service."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from support.service import APPS, Service, needs_inline_limits
from support.vectors import ROOT

EXAMPLE = ROOT / "examples" / "fastapi" / "main.py"


@pytest.fixture
def service_with_quickstart(tmp_path: Path) -> Iterator[Service]:
    rules = {
        "api_platform": (ROOT / "examples" / "quickstart" / "api_platform.yaml").read_text(),
        "apps": APPS,
    }
    service = Service(tmp_path, rules)
    try:
        yield needs_inline_limits(service)
    finally:
        service.kill()


@pytest.fixture
def web(service_with_quickstart: Service) -> Iterator[httpx.Client]:
    env = os.environ | {"TIDEGATE_URL": service_with_quickstart.url, "PORT": "0", "TIDEGATE_FALLBACK": "deny"}
    process = subprocess.Popen([sys.executable, EXAMPLE], env=env, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on http://127.0.0.1:"), line
        with httpx.Client(base_url=line.split()[-1], trust_env=False, timeout=30) as client:
            yield client
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def test_the_shared_scenario(web: httpx.Client) -> None:
    for path, text in (("/", "hello"), ("/health", "ok")):
        answer = web.get(path)
        assert (answer.status_code, answer.text) == (200, text)
        assert "ratelimit" not in answer.headers

    for left in (4, 3, 2, 1, 0):
        answer = web.get("/search?q=a", headers={"x-forwarded-for": "198.51.100.1"})
        assert (answer.status_code, answer.json()) == (200, {"results": []})
        assert answer.headers["ratelimit"].startswith(f'"inline:minute";r={left};')
    denial = web.get("/search?q=a", headers={"x-forwarded-for": "198.51.100.1"})
    assert denial.status_code == 429
    assert denial.headers["content-type"] == "application/problem+json"
    assert denial.json()["violated-policies"] == ["inline:minute"]
    assert web.get("/search", headers={"x-forwarded-for": "198.51.100.2"}).status_code == 200

    answers = [web.post("/orders", headers={"x-api-key": "ann"}) for _ in range(21)]
    assert [answer.status_code for answer in answers] == [201] * 20 + [429]
    assert answers[0].json() == {"order": "accepted"}
    assert web.post("/orders").status_code == 201

    keyed = {"x-api-key": "ann"}
    assert web.post("/reports?pages=8", headers=keyed).json() == {"report": "done"}
    assert web.post("/reports?pages=3", headers=keyed).status_code == 429
    assert web.post("/reports?pages=2", headers=keyed).status_code == 200
    assert web.post("/reports").status_code == 200
    for pages in ("0", "-5", "many", "9" * 5000):
        address = {"x-forwarded-for": f"198.51.100.{3 + len(pages) % 200}"}
        answer = web.post(f"/reports?pages={pages}", headers=address)
        assert answer.headers["ratelimit"].startswith('"inline:minute";r=9;')


def test_completions_reserve_and_settle(
    web: httpx.Client, service_with_quickstart: Service, reserving_service: Service
) -> None:
    def complete(key: str, most: int, used: int, address: str = "198.51.100.1") -> httpx.Response:
        body = {"prompt": "hi", "max_tokens": most, "used": used}
        headers = {"x-forwarded-for": address} | ({"x-api-key": key} if key else {})
        return web.post("/complete", json=body, headers=headers)

    assert complete("ann", 900, 100).json() == {"used": 100}
    assert complete("ann", 900, 900).json() == {"used": 900}
    denial = complete("ann", 1, 1)
    assert (denial.status_code, denial.json()["violated-policies"]) == (429, ["inline:minute"])
    assert complete("bob", 1, 1).status_code == 200
    assert denial.headers["content-type"] == "application/problem+json"

    for most, used in ((-1, 1), (1, -1)):
        assert complete("eve", most, used).status_code == 422
    answer = complete("eve", 1000, 0)
    assert (answer.status_code, answer.json()) == (200, {"used": 0})
    assert answer.headers["ratelimit"].startswith('"inline:minute";r=0;')
    assert answer.headers["x-ratelimit-limit"] == "1000"
    assert len(answer.headers.get_list("ratelimit")) == 1

    assert complete("", 1000, 1000).status_code == 200
    assert complete("", 1, 1).status_code == 429
    assert complete("", 1, 1, address="198.51.100.2").status_code == 200
