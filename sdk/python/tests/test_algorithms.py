"""The algorithms of this process decide as the service's do, by the vectors that the service is held to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.vectors import ROOT
from tidegate.algorithms import ALGORITHMS, SUB_WINDOWS, Numbers, Verdict

OPERATIONS = {"charge", "peek", "refund"}


def is_about_what_code_can_write(vector: dict[str, Any]) -> bool:
    """No calendars, queues, other buckets, forced charges, changes of the limit, or clocks that step back."""
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
        found += of
    return found


@pytest.mark.parametrize("vector", vectors(), ids=lambda v: f"{v['limit']['algorithm']}: {v['name']}")
def test_decides_as_the_service_does(vector: dict[str, Any]) -> None:
    limit = vector["limit"]
    algorithm = ALGORITHMS[limit["algorithm"]]
    numbers = Numbers(limit["requests"], limit["period_us"], limit.get("burst", 0))
    state = None
    for step in vector["steps"]:
        now_us, cost = step["at_us"], step.get("cost", 0)
        if step["op"] == "refund":
            state = algorithm.give_back(numbers, state, cost, now_us)
            cost = 0
        state, verdict = algorithm.charge(numbers, state, cost, now_us)
        assert verdict == Verdict(**{"retry_after_us": None} | step["expect"]), step
