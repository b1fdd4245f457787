"""A real Prometheus scrapes the real service under load, and every query has a result."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from support.files import ROOT, RULES, run
from support.processes import Postgres, Prometheus, Redis, Service, binary, until
from support.queries import OURS, board_queries, rule_queries, used

LIMITS = """\
domain: api
descriptors:
  - { key: user, warn_at: [80], limits: [{ name: steady, requests: 5, per: second }] }
  - { key: app, value_to_metric: true, limits: [{ name: few, requests: 1, per: minute }] }
  - { key: trial, shadow_mode: true, limits: [{ name: few, requests: 1, per: minute }] }
  - { key: spare, limits: [{ name: some, requests: 1000, per: minute }] }
"""


class Installation(NamedTuple):
    """A node with its counters in memory, one on Redis and PostgreSQL, and who watches them."""

    alone: Service
    shared: Service
    redis: Redis
    prometheus: Prometheus


def send(nodes: list[Service], stop: threading.Event) -> None:
    """Sends checks until told to stop: most are allowed, some denied, some invalid."""
    count = 0
    while not stop.wait(0.02):
        count += 1
        for node in nodes:
            node.check(user=f"user-{count % 3}")
            node.check(app="shop")
            node.check(trial="one")
            if count % 20 == 0:
                node.check()


def optional_metrics() -> dict[str, str]:
    """Returns the settings that turn on every metric that is off unless somebody asks for it."""
    settings = json.loads(run(binary(), "config", "--json"))
    names = [name for name in settings if name.startswith("metrics.") and settings[name]["value"] is False]
    return dict.fromkeys(names, "true")


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    folder: Path = tmp_path_factory.mktemp("live")
    made = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "30",
    ]
    run("openssl", *made, "-subj", "/CN=localhost", "-keyout", folder / "key.pem", "-out", folder / "cert.pem")
    tls = {"grpc.tls.cert": str(folder / "cert.pem"), "grpc.tls.key": str(folder / "key.pem")}
    redis, postgres = Redis(folder), Postgres(folder)
    stores = {"store": f"redis://127.0.0.1:{redis.port}", "catalog": postgres.url}
    alone = Service(folder / "alone", LIMITS, {"memory.snapshot_every": "500ms"} | tls | optional_metrics())
    shared = Service(folder / "shared", LIMITS, stores | optional_metrics())
    shared.command("switch", "set", "spare", "shadow")
    prometheus = Prometheus(folder, [alone.admin, shared.admin], RULES)
    stop = threading.Event()
    sender = threading.Thread(target=send, args=([alone, shared], stop))
    sender.start()
    yield Installation(alone, shared, redis, prometheus)
    stop.set()
    sender.join()
    for running in (prometheus, alone, shared, redis, postgres):
        running.end()


def test_every_query_of_boards_and_rules_has_a_result_under_load(installation: Installation) -> None:
    alone, _, redis, prometheus = installation
    until("both nodes are scraped", lambda: prometheus.has('count(up{job="tidegate"} == 1) == 2'))
    # For the mark of a load of the rules.
    alone.rules.write_text(LIMITS + "\n")
    queries = [*board_queries(), *rule_queries()]
    alarms = [(place, query) for place, query in queries if "ALERTS{" in query]
    waiting = [pair for pair in queries if pair not in alarms]
    empty: list[tuple[str, str]] = list(waiting)

    def answered() -> bool:
        empty[:] = [(place, query) for place, query in empty if not prometheus.has(query)]
        return not empty

    try:
        until("every query has a result", answered)
    except pytest.fail.Exception:
        pytest.fail("no result: " + "\n".join(f"{place}: {query}" for place, query in empty))

    redis.end()
    until("alerts fire", lambda: all(prometheus.has(query) for _, query in alarms))
    found = prometheus.api("alerts")["alerts"]
    assert "TidegateFallbackActive" in {alert["labels"]["alertname"] for alert in found}
    for alert in found:
        assert "<no value>" not in str(alert["annotations"]), alert
        assert "<error" not in str(alert["annotations"]), alert
    states = {rule["health"] for group in prometheus.api("rules")["groups"] for rule in group["rules"]}
    assert states == {"ok"}


def test_every_metric_that_boards_rules_and_documents_name_exists(installation: Installation) -> None:
    def exported() -> set[str]:
        return installation.alone.metrics() | installation.shared.metrics()

    def missing() -> dict[str, set[str]]:
        found = exported()
        return {name: places for name, places in used().items() if name not in found}

    # Some are there from the first decision on.
    with contextlib.suppress(pytest.fail.Exception):
        until("every metric exists", lambda: not missing(), patience_s=10)
    assert missing() == {}
    families = {re.sub(r"_(total|bucket|count|sum)$", "", name) for name in exported()} | exported()
    for document in ("docs/operations.md", "docs/alerts.md", "deploy/README.md"):
        named = set(OURS.findall((ROOT / document).read_text()))
        assert named <= families, f"{document} names {sorted(named - families)}"
