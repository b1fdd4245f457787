"""Laws of the Alertmanager example, on a real Alertmanager."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.files import DEPLOY, alerts, program, run
from support.processes import Program, ask, free_port, until

CONFIG = DEPLOY / "alertmanager/alertmanager.yaml"
NODE = {"namespace": "limits", "job": "tidegate", "instance": "a:6070"}


def test_amtool_accepts_the_configuration() -> None:
    run(program("amtool"), "check-config", CONFIG)


@pytest.mark.parametrize(("severity", "receiver"), [("critical", "pager"), ("warning", "team"), ("info", "team")])
def test_critical_alerts_page_and_others_do_not(severity: str, receiver: str) -> None:
    printed = run(program("amtool"), "config", "routes", "test", f"--config.file={CONFIG}", f"severity={severity}")
    assert printed.splitlines()[0] == receiver


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("alertmanager")
    url = f"http://127.0.0.1:{free_port()}"
    words = [program("prometheus-alertmanager", "alertmanager"), f"--config.file={CONFIG}"]
    words += [f"--web.listen-address={url[7:]}", "--cluster.listen-address=", "--storage.path=."]
    running = Program(folder, words)
    running.ready("alertmanager", lambda: ask(f"{url}/-/ready")[0] == 200)
    yield url
    running.end()


def silenced(url: str, *given: dict[str, str]) -> list[str]:
    """Sends alerts and returns the names of those that others inhibit."""
    names = [alert["alertname"] for alert in given]
    assert set(names) <= {rule["alert"] for rule in alerts()}, names
    # The rules compare the job, so one of its own keeps the alerts of a test apart.
    job = f"tidegate-{free_port()}"
    # Alerts are processed in order: when the last one silences the one before, all others have been.
    last = [
        {"alertname": "TidegateDown", "severity": "critical", "instance": "last"},
        {"alertname": "TidegateDegraded", "instance": "last"},
    ]
    for alert in (*given, *reversed(last)):
        sent = {"labels": {"severity": "warning"} | NODE | alert | {"job": job}}
        status, text = ask(f"{url}/api/v2/alerts", [sent])
        assert status == 200, text

    def inhibited() -> list[dict[str, str]]:
        found = json.loads(ask(f"{url}/api/v2/alerts?filter=job%3D%22{job}%22")[1])
        return [alert["labels"] for alert in found if alert["status"]["inhibitedBy"]]

    until("all alerts are processed", lambda: any(labels["instance"] == "last" for labels in inhibited()))
    return sorted(
        f"{labels['alertname']} {labels['severity']}" for labels in inhibited() if labels["instance"] != "last"
    )


def test_a_store_that_is_down_silences_its_consequences(alertmanager: str) -> None:
    consequences = ["TidegateFallbackActive", "TidegateFailOpen", "TidegateStoreErrors", "TidegateDegraded"]
    given = [{"alertname": name} for name in consequences]
    down = {"alertname": "TidegateStoreDown", "severity": "critical"}
    shard = {"alertname": "TidegateStoreShardDown", "shard": "cache:6379"}
    other = {"alertname": "TidegateFallbackActive", "instance": "b:6070"}
    expected = [f"{name} warning" for name in [*consequences, "TidegateStoreShardDown"]]
    assert silenced(alertmanager, *given, down, shard, other) == sorted(expected)


def test_a_node_that_is_down_silences_all_its_other_alerts(alertmanager: str) -> None:
    down = {"alertname": "TidegateDown", "severity": "critical"}
    slow = {"alertname": "TidegateLatencyHigh", "severity": "critical", "api": "grpc"}
    assert silenced(alertmanager, down, slow) == ["TidegateLatencyHigh critical"]


def test_critical_silences_the_warning_of_the_same_alert_and_domain(alertmanager: str) -> None:
    high = {"alertname": "TidegateRejectionRateHigh", "domain": "api"}
    critical = high | {"severity": "critical"}
    other = high | {"domain": "mail"}
    assert silenced(alertmanager, high, critical, other) == ["TidegateRejectionRateHigh warning"]


def test_alerts_that_have_nothing_to_do_with_each_other_are_all_heard(alertmanager: str) -> None:
    given = ["TidegateRulesRefused", "TidegateCertificateExpiring", "TidegateKeysEvicted", "TidegateFailOpen"]
    assert silenced(alertmanager, *({"alertname": name} for name in given)) == []


def test_every_alert_that_the_configuration_names_exists() -> None:
    named = set(re.findall(r"\bTidegate[A-Z]\w+", CONFIG.read_text()))
    assert named <= {rule["alert"] for rule in alerts()}
