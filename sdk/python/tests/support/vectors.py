"""The vectors that every language is held to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[4]


def cases(name: str) -> list[dict[str, Any]]:
    """The cases of a file of vectors."""
    loaded = json.loads((ROOT / "vectors" / f"{name}.json").read_text())
    found: list[dict[str, Any]] = loaded["cases"]
    assert found, f"{name}.json has no cases"
    return found
