"""The first five minutes of the README, done in an empty folder with exactly what it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from support.service import binary
from support.vectors import ROOT
from tidegate import SyncTidegate

PYTHON = ROOT / "sdk" / "python"
SECTION = re.search(r"## The first five minutes\n(.*?)\n## ", (PYTHON / "README.md").read_text(), re.DOTALL)
assert SECTION is not None
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", SECTION[1], re.DOTALL)


def block(kind: str, word: str) -> str:
    """The one block of a kind with a word in it."""
    [found] = [text for name, text in BLOCKS if name == kind and word in text]
    return str(found)


def shim(path: Path, module: str) -> None:
    path.write_text(f'#!/bin/sh\nexec "{path.parent}/python" -m {module} "$@"\n')
    path.chmod(0o755)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkout with a service that is built, and nothing else.

    The environment is a new one. Other people's packages are those of the tests, so that nothing is
    downloaded; this package is not among them.
    """
    (tmp_path / "target" / "release").mkdir(parents=True)
    (tmp_path / "target" / "release" / "tidegate").symlink_to(binary())
    shutil.copytree(
        PYTHON,
        tmp_path / "sdk" / "python",
        ignore=shutil.ignore_patterns(".*", "__pycache__", "tests", "bench"),
    )
    venv.create(tmp_path / ".venv", with_pip=False, symlinks=True)
    [site] = (tmp_path / ".venv" / "lib").glob("python*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for tool in ("pip", "uvicorn"):
        shim(tmp_path / ".venv" / "bin" / tool, tool)
    return tmp_path


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TIDEGATE", "PYTHON"))}
    return kept | {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_CACHE_DIR": "1"} | more


@contextmanager
def running(command: str, folder: Path, says: str, **more: str) -> Iterator[str]:
    """Runs a command of the README until it is not needed any more, and finds what it says."""
    process = subprocess.Popen(
        ["/bin/sh", "-ec", "exec " + command],
        cwd=folder,
        env=environment(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        seen = ""
        for line in process.stdout:
            seen += line
            if found := re.search(says, line):
                yield found[1]
                return
        pytest.fail(f"{command} said:\n{seen}")
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def sh(script: str, folder: Path) -> str:
    """Runs a script of the README, and returns what it prints."""
    command = ["/bin/sh", "-ec", script]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_first_five_minutes(folder: Path) -> None:
    [install] = [line for line in block("sh", "pip install").splitlines() if "pip install" in line]
    sh(install, folder)
    where = sh(".venv/bin/python -c 'import tidegate.fastapi; print(tidegate.__file__)'", folder)
    assert where.startswith(str(folder / ".venv")), where
    (folder / "main.py").write_text(block("python", "FastAPI()"))
    ask_twelve_times(folder)
    shutil.rmtree(folder / "tidegate-data")
    sh("target/release/tidegate init", folder)
    ask_twelve_times(folder)


def ask_twelve_times(folder: Path) -> None:
    listen = {f"TIDEGATE_{name}__LISTEN": "127.0.0.1:0" for name in ("HTTP", "GRPC", "ADMIN")}
    serve, uvicorn = block("sh", "tidegate serve").strip(), block("sh", "uvicorn main:app").strip()
    with ExitStack() as stack:
        http = stack.enter_context(running(serve, folder, r"^\s+http\s+(\S+)$", **listen))
        ports = {"UVICORN_PORT": "0", "TIDEGATE_URL": f"http://{http}"}
        app = stack.enter_context(running(uvicorn, folder, r"running on (http://\S+)", **ports))
        asked = sh(block("sh", "curl").replace("http://127.0.0.1:8000", app), folder)
        assert asked == block("text", "200")
        with SyncTidegate(f"http://{http}", deadline=30) as client:
            entries = {"route": "GET /search", "client": "127.0.0.1"}
            counted = client.check(entries, limits="10/minute;200/hour", cost=0)
        assert counted.source == "memory"
        assert [one.remaining for one in counted.limits] == [0, 190], "the app counted by itself"
