"""The files of deploy/, and the programs that read them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).resolve().parents[2]
ROOT = DEPLOY.parent
RULES = sorted((DEPLOY / "prometheus/rules").glob("*.yaml"))
BOARDS = sorted((DEPLOY / "grafana/dashboards").glob("*.json"))


def load(path: Path) -> Any:
    """Returns the content of a YAML or JSON file."""
    text = path.read_text()
    return json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)


def rules() -> Iterator[dict[str, Any]]:
    """Returns every recording rule and every alert."""
    for path in RULES:
        for group in load(path)["groups"]:
            yield from group["rules"]


def alerts() -> list[dict[str, Any]]:
    """Returns every alert; one with two severities is there twice."""
    return [rule for rule in rules() if "alert" in rule]


def panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the panels of a board that show something."""
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def program(*names: str) -> str:
    """Returns the first of these programs that is installed."""
    for name in names:
        found = shutil.which(name)
        if found:
            return found
    pytest.fail(f"{names[0]} is missing: `make test-tools` installs it")


def run(*command: str | Path, succeeds: bool = True, folder: Path = ROOT) -> str:
    """Runs a program, without settings of the service in its environment, and returns what it prints."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, env=env, text=True, capture_output=True, check=False, timeout=60)
    printed = done.stdout + done.stderr
    assert (done.returncode == 0) == succeeds, f"{command}: exit code {done.returncode}\n{printed}"
    return printed
