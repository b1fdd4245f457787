"""The vectors that every language is held to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[4]


def load(name: str) -> dict[str, Any]:
    """Returns a file of vectors."""
    loaded: dict[str, Any] = json.loads((ROOT / "vectors" / f"{name}.json").read_text())
    return loaded


def cases(name: str) -> list[dict[str, Any]]:
    """Returns the cases of a file of vectors."""
    found: list[dict[str, Any]] = load(name)["cases"]
    assert found, f"{name}.json has no cases"
    return found
