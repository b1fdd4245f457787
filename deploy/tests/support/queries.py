"""The queries of boards, recording rules and alerts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .files import BOARDS, alerts, load, panels, rules

# What Grafana puts in place of its variables if everything is selected.
VARIABLES = {"$__rate_interval": "30s", "$__range": "5m", "$__interval": "5s"}
OURS = re.compile(r"(?<![:\w])((?:ratelimit|tidegate|rate_limit)_[a-z0-9_]+)(?![:\w])")
COMPARISON = re.compile(r"\s(?:==|!=|>=|<=|>|<)\s+[0-9.]+")


def selected(query: str, variables: dict[str, str]) -> str:
    """Replaces the variables of a board."""
    for name, value in (VARIABLES | variables).items():
        query = query.replace(name, value)
    return query


def without_thresholds(query: str) -> str:
    """Removes comparisons, and `absent`, which is empty as long as all is well."""
    return COMPARISON.sub("", query).replace("absent(", "sum(")


def board_queries() -> Iterator[tuple[str, str]]:
    """Returns every query of every board, with its place: panels, variables and annotations."""
    for path in BOARDS:
        board = load(path)
        everything = {f"${v['name']}": ".*" for v in board["templating"]["list"] if v["type"] == "query"}
        for panel in panels(board):
            for target in panel["targets"]:
                place = f"{path.name}: {panel['title']} {target['refId']}"
                yield place, selected(target["expr"], everything)
        for annotation in board["annotations"]["list"]:
            yield f"{path.name}: annotation {annotation['name']}", selected(annotation["expr"], everything)
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                # label_values(selector, label)
                selector, label = variable["query"]["query"].removeprefix("label_values(")[:-1].rsplit(", ", 1)
                query = f"count by ({label}) ({selected(selector, everything)})"
                yield f"{path.name}: variable {variable['name']}", query


def rule_queries() -> Iterator[tuple[str, str]]:
    """Returns the expression of every recording rule, and of every alert without its threshold."""
    for rule in rules():
        if "record" in rule:
            yield f"recording rule {rule['record']}", rule["expr"]
    for rule in alerts():
        place = f"alert {rule['alert']} ({rule['labels']['severity']})"
        yield place, without_thresholds(rule["expr"])


def recorded() -> set[str]:
    """Returns the names that recording rules make."""
    return {rule["record"] for rule in rules() if "record" in rule}


def used() -> dict[str, set[str]]:
    """Returns the names of the service's metrics that boards and rules use, each with its places."""
    names: dict[str, set[str]] = {}
    for place, query in [*board_queries(), *rule_queries()]:
        for name in OURS.findall(query):
            names.setdefault(name, set()).add(place)
    return names
