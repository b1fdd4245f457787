"""The algorithms of this process decide as the service's do, by the vectors that the service is held to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.vectors import ROOT
from tidegate.algorithms import ALGORITHMS, SUB_WINDOWS, Numbers, Verdict

OPERATIONS = {"charge", "peek", "refund", "relimit"}


def is_about_what_code_can_write(vector: dict[str, Any]) -> bool:
    """No calendars, queues, other buckets, forced charges, or clocks that step back."""
    limit, steps = vector["limit"], vector["steps"]
    times = [step["at_us"] for step in steps]
    return (
        "calendar" not in limit
        and limit.get("mode", "meter") == "meter"
        and limit.get("buckets", SUB_WINDOWS) == SUB_WINDOWS
        and {step["op"] for step in steps} <= OPERATIONS
        and times == sorted(times)
    )


def vectors() -> list[dict[str, Any]]:
    found = []
    for name in (
        "fixed_window",
        "sliding_window",
        "sub_windows",
        "sliding_log",
        "token_bucket",
        "leaky_bucket",
    ):
        file = ROOT / "crates" / "core" / "src" / "algorithm" / name / "vectors.json"
        of = [vector for vector in json.loads(file.read_text()) if is_about_what_code_can_write(vector)]
        assert len(of) >= 3, f"{name} has only {len(of)} vectors that apply"
        changes = [vector for vector in of if any(step["op"] == "relimit" for step in vector["steps"])]
        assert len(changes) >= 3, f"{name} has only {len(changes)} vectors that change the limit"
        found += of
    return found


def numbers_of(limit: dict[str, Any]) -> Numbers:
    return Numbers(limit["requests"], limit["period_us"], limit.get("burst", 0))


@pytest.mark.parametrize("vector", vectors(), ids=lambda v: f"{v['limit']['algorithm']}: {v['name']}")
def test_decides_as_the_service_does(vector: dict[str, Any]) -> None:
    algorithm = ALGORITHMS[vector["limit"]["algorithm"]]
    numbers = numbers_of(vector["limit"])
    state = None
    for step in vector["steps"]:
        if step["op"] == "relimit":
            numbers = numbers_of(step["limit"])
            continue
        now_us, cost = step["at_us"], step.get("cost", 0)
        if step["op"] == "refund":
            state = algorithm.give_back(numbers, state, cost, now_us)
            cost = 0
        state, verdict = algorithm.charge(numbers, state, cost, now_us)
        assert verdict == Verdict(**{"retry_after_us": None} | step["expect"]), step
