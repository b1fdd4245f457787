"""Laws of the recording rules and the alerts."""

from __future__ import annotations

import re

from support.files import DEPLOY, ROOT, RULES, alerts, load, program, rules, run
from support.queries import recorded

TESTS = sorted((DEPLOY / "prometheus/tests").glob("*.yaml"))
RUNBOOK = "https://github.com/tidegate/tidegate/blob/main/docs/alerts.md#"


def test_promtool_accepts_the_rules_and_the_configuration() -> None:
    promtool = program("promtool")
    run(promtool, "check", "rules", "--lint=all", "--lint-fatal", *RULES)
    run(promtool, "check", "config", DEPLOY / "prometheus/prometheus.yaml")


def test_alerts_fire_and_stay_silent_as_their_cases_say() -> None:
    run(program("promtool"), "test", "rules", *TESTS, folder=DEPLOY / "prometheus/tests")


def test_every_severity_of_every_alert_has_a_case_that_fires_and_every_alert_one_that_does_not() -> None:
    cases = [case for path in TESTS for case in load(path)["tests"]]
    fires = {
        (case["name"].split(":")[0], name, severity)
        for case in cases
        for sample in case["promql_expr_test"][0]["exp_samples"]
        for name, severity in re.findall(r'alertname="(\w+)", severity="(\w+)"', sample["labels"])
    }
    silent = {case["name"].split(":")[0] for case in cases if not case["promql_expr_test"][0]["exp_samples"]}
    for rule in alerts():
        name, severity = rule["alert"], rule["labels"]["severity"]
        assert (name, name, severity) in fires, f"no case in which {name} fires as {severity}"
        assert name in silent, f"no case in which {name} does not fire"


def test_every_alert_says_how_bad_it_is_what_it_means_and_what_to_do() -> None:
    runbook = (ROOT / "docs/alerts.md").read_text()
    sections = re.findall(r"^## (Tidegate\w+)$", runbook, re.MULTILINE)
    for rule in alerts():
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), rule
        assert rule["annotations"]["summary"], rule
        assert rule["annotations"]["description"].endswith("."), rule
        assert rule["annotations"]["runbook_url"] == RUNBOOK + rule["alert"].lower(), rule
    assert sorted(sections) == sorted({rule["alert"] for rule in alerts()})
    for section in runbook.split("\n## ")[1:]:
        name, *_ = section.split("\n")
        if name.startswith("Tidegate"):
            for part in ("**Means**", "**Look at**", "**Do**", "**Wake somebody**"):
                assert part in section, f"{name} has no {part}"


def test_every_recorded_name_is_used_and_every_used_name_is_recorded() -> None:
    files = [*(DEPLOY / "grafana").rglob("*.json"), *RULES]
    text = "\n".join(path.read_text() for path in files)
    used = set(re.findall(r"\b[a-z]+:ratelimit_\w+:\w+", re.sub(r"record: .*", "", text)))
    assert used == recorded()


def test_the_thresholds_are_those_that_the_document_names() -> None:
    thresholds = {
        ("TidegateLatencyHigh", "warning"): "> 0.01",
        ("TidegateLatencyHigh", "critical"): "> 0.05",
        ("TidegateRejectionRateHigh", "warning"): "> 0.05",
        ("TidegateRejectionRateHigh", "critical"): "> 0.2",
        ("TidegateStoreErrors", "warning"): "> 0.001",
        ("TidegateStoreErrors", "critical"): "> 0.01",
    }
    found = {(rule["alert"], rule["labels"]["severity"]): rule for rule in alerts()}
    for key, threshold in thresholds.items():
        assert re.search(re.escape(threshold) + r"(\s|$)", found[key]["expr"]), key
    # Any activation is a warning; a minute of it is critical.
    assert "for" not in found["TidegateFallbackActive", "warning"]
    assert found["TidegateFallbackActive", "critical"]["for"] == "1m"


def test_no_rule_is_there_twice() -> None:
    seen = [(rule.get("alert"), rule.get("record"), rule.get("labels", {}).get("severity")) for rule in rules()]
    assert len(seen) == len(set(seen))
