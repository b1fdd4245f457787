"""Laws of the Grafana boards."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from support.files import BOARDS, DEPLOY, alerts, load, panels

BOARD = pytest.mark.parametrize("board", [load(path) for path in BOARDS], ids=[path.stem for path in BOARDS])


def missing(given: Any, kept: Any, place: str) -> list[str]:
    """Returns the fields of one document that another does not have."""
    if isinstance(given, dict):
        lost = [f"{place}.{name}" for name in given if given[name] is not None and name not in kept]
        inner = [missing(given[name], kept[name], f"{place}.{name}") for name in given if name in kept]
    elif isinstance(given, list):
        lost = [] if len(given) == len(kept) else [place]
        inner = [missing(a, b, f"{place}[{i}]") for i, (a, b) in enumerate(zip(given, kept, strict=False))]
    else:
        return [] if given == kept else [f"{place}: {given!r} became {kept!r}"]
    return lost + [field for fields in inner for field in fields]


def test_there_is_a_board_for_the_overview_the_rules_and_the_store() -> None:
    assert [path.stem for path in BOARDS] == ["overview", "rules", "store"]


@BOARD
def test_grafanas_own_types_keep_every_field(board: dict[str, Any]) -> None:
    plugins.register_default_plugins()
    kept = json.loads(JSONEncoder().encode(Dashboard.from_json(board)))
    # Fields of the data source, which the types of boards do not have.
    known = ("titleFormat", "textFormat", "tagKeys", "step")
    lost = missing(board, kept, "board")
    assert [f for f in lost if not (".annotations." in f and f.endswith(known))] == []


@BOARD
def test_every_panel_has_a_title_a_description_a_unit_and_thresholds(board: dict[str, Any]) -> None:
    for panel in panels(board):
        title = panel["title"]
        assert title
        assert panel["description"].endswith("."), title
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults["unit"], title
        assert defaults["thresholds"]["steps"][0]["value"] is None, title
        for target in panel["targets"]:
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}, title
            assert "$instance" in target["expr"] or "$job" in target["expr"], title


@BOARD
def test_panels_do_not_overlap_and_have_names_of_their_own(board: dict[str, Any]) -> None:
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    taken: dict[tuple[int, int], int] = {}
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                other = taken.setdefault((x, y), panel["id"])
                assert other == panel["id"], f"panels {other} and {panel['id']}"
    for row, panel in zip(board["panels"], board["panels"][1:], strict=False):
        assert not (row["type"] == panel["type"] == "row"), f"{row['title']} is empty"


@BOARD
def test_every_variable_is_used_and_every_used_variable_is_there(board: dict[str, Any]) -> None:
    names = {variable["name"] for variable in board["templating"]["list"]}
    assert {"datasource", "job", "instance"} <= names
    text = str([board["panels"], board["annotations"], [v["query"] for v in board["templating"]["list"]]])
    used = set(re.findall(r"\$\{?([a-z]+)\b", text))
    assert used == names


def test_every_alert_has_a_panel_that_links_to_its_runbook() -> None:
    linked = set()
    for board in map(load, BOARDS):
        for panel in panels(board):
            for link in panel.get("links", []):
                assert link["url"].startswith("https://github.com/tidegate/tidegate/blob/main/docs/alerts.md#")
                linked.add(link["url"].rpartition("#")[2])
    assert linked == {rule["alert"].lower() for rule in alerts()}


def test_boards_have_different_uids_and_compose_brings_them_up() -> None:
    uids = [load(path)["uid"] for path in BOARDS]
    assert len(uids) == len(set(uids))
    provider = load(DEPLOY / "grafana/provisioning/dashboards/tidegate.yaml")["providers"][0]
    compose = load(DEPLOY / "compose/compose.yaml")["services"]
    mounts = [volume.split(":") for volume in compose["grafana"]["volumes"]]
    for source, target, *_ in mounts:
        assert (DEPLOY / "compose" / source).resolve().exists(), source
        assert target.startswith(("/etc/grafana/provisioning", provider["options"]["path"]))
    for service in ("prometheus", "alertmanager"):
        for volume in compose[service]["volumes"]:
            source = volume.split(":")[0]
            assert not source.startswith(".") or (DEPLOY / "compose" / source).resolve().exists(), source
