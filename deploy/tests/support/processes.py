"""Real programs on free ports, which end with the test."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .files import ROOT, program, run

PATIENCE_S = 45.0
# Programs on this machine are asked directly, whatever proxy the environment names.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def free_port() -> int:
    """Returns a port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(what: str, holds: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
    """Waits until a function returns something true, and returns that."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        found = holds()
        if found:
            return found
        time.sleep(0.1)
    return pytest.fail(f"gave up waiting until {what}")


def ask(url: str, body: Any = None, headers: dict[str, str] | None = None) -> tuple[int, str]:
    """Sends a GET, or a POST of JSON. A connection that fails has status 0."""
    data = None if body is None else json.dumps(body).encode()
    sent = {"content-type": "application/json"} | (headers or {})
    try:
        with DIRECT.open(urllib.request.Request(url, data, sent), timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


class Program:
    """A running program. What it prints is in a file of its folder."""

    def __init__(self, folder: Path, command: list[str], env: dict[str, str] | None = None) -> None:
        self.log = folder / f"{Path(command[0]).name}-{free_port()}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def ready(self, what: str, holds: Callable[[], Any]) -> Any:
        """Waits until it works; fails with its log if it ends."""

        def works() -> Any:
            if self.process.poll() is not None:
                pytest.fail(f"{what} ended: {self.log.read_text()[-3000:]}")
            return holds()

        return until(f"{what} works", works)

    def end(self) -> None:
        """Ends it without a warning."""
        self.process.kill()
        self.process.wait()


def binary() -> str:
    """Returns the service that is tested."""
    path = Path(os.environ.get("TIDEGATE_BIN") or ROOT / "target/debug/tidegate")
    if not path.is_file():
        pytest.fail(f"there is no service at {path}: build it with cargo build, or set TIDEGATE_BIN")
    return str(path)


class Service(Program):
    """The real service, with rules and a data folder of its own."""

    def __init__(self, folder: Path, rules: str, settings: dict[str, str]) -> None:
        folder.mkdir()
        (folder / "rules").mkdir()
        self.rules = folder / "rules/rules.yaml"
        self.rules.write_text(rules)
        env = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
        listeners = {f"{name}.listen": "127.0.0.1:0" for name in ("grpc", "http", "admin")}
        for name, value in ({"rules": "rules", "data": "data"} | listeners | settings).items():
            env[f"TIDEGATE_{name.replace('.', '__').upper()}"] = value
        super().__init__(folder, [binary(), "serve"], env)
        places = self.ready("the service", self._places)
        self.http, self.admin = places["http"], places["admin"]
        self.folder = folder

    def _places(self) -> dict[str, str] | None:
        lines = [line.split() for line in self.log.read_text().splitlines()]
        found = {words[0]: words[1] for words in lines if words and words[0] in ("admin", "grpc", "http")}
        return found if len(found) == 3 else None

    def check(self, **descriptor: str) -> int:
        """Sends one check and returns the status."""
        return ask(f"http://{self.http}/v1/check", {"domain": "api", "descriptor": descriptor})[0]

    def metrics(self) -> set[str]:
        """Returns the names of all series that `/metrics` has."""
        status, text = ask(f"http://{self.admin}/metrics")
        assert status == 200, text
        lines = (line for line in text.splitlines() if line and not line.startswith("#"))
        return {line.split("{")[0].split(" ")[0] for line in lines}

    def command(self, *words: str) -> str:
        """Runs a command of the binary against this service."""
        token = (self.folder / "data/admin-token").read_text().strip()
        return run(binary(), *words, "--admin", f"http://{self.admin}", "--token", token)


class Redis(Program):
    """A Redis without persistence."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        words = [program("redis-server"), "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        super().__init__(folder, words)
        self.ready("redis", lambda: "Ready to accept connections" in self.log.read_text())


class Postgres(Program):
    """A PostgreSQL with one database, which trusts everybody. It does not run as root."""

    def __init__(self, folder: Path) -> None:
        programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        bin_folder = str(programs[-1]) if programs else str(Path(program("postgres")).parent)
        # Not in the folder of the test, which other users cannot reach.
        self.data, self.port = Path(tempfile.mkdtemp(prefix="tidegate-")), free_port()
        prefix: list[str] = []
        if os.geteuid() == 0:
            account = pwd.getpwnam("postgres")
            os.chown(self.data, account.pw_uid, account.pw_gid)
            prefix = ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
        initdb = [f"{bin_folder}/initdb", "--no-sync", "--auth=trust", "--username=tidegate"]
        options = ["--encoding=UTF8", "--locale=C", "--pgdata", str(self.data)]
        subprocess.run([*prefix, *initdb, *options], check=True, capture_output=True, cwd="/")
        server = [f"{bin_folder}/postgres", "-D", str(self.data), "-p", str(self.port), "-k", "", "-F"]
        super().__init__(folder, [*prefix, *server])
        self.ready("postgres", lambda: "ready to accept connections" in self.log.read_text())
        self.url = f"postgres://tidegate@127.0.0.1:{self.port}/postgres"

    def end(self) -> None:
        """Ends it at once, with its own processes, and removes its data."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()
        shutil.rmtree(self.data)


class Prometheus(Program):
    """A Prometheus that scrapes these addresses each second and has the rules of deploy/."""

    def __init__(self, folder: Path, targets: list[str], rules: list[Path]) -> None:
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(path) for path in rules],
            "scrape_configs": [{"job_name": "tidegate", "static_configs": [{"targets": targets}]}],
        }
        (folder / "prometheus.yaml").write_text(json.dumps(config))
        self.url = f"http://127.0.0.1:{free_port()}"
        words = [program("prometheus"), "--config.file=prometheus.yaml", "--storage.tsdb.path=tsdb"]
        super().__init__(folder, [*words, f"--web.listen-address={self.url.removeprefix('http://')}"])
        self.ready("prometheus", lambda: ask(f"{self.url}/-/ready")[0] == 200)

    def api(self, path: str, **parameters: str) -> Any:
        """Calls its API and returns the data."""
        query = urllib.parse.urlencode(parameters)
        status, text = ask(f"{self.url}/api/v1/{path}?{query}")
        assert status == 200, f"{path} {parameters}: {text}"
        return json.loads(text)["data"]

    def has(self, query: str) -> bool:
        """Returns whether a query has a result that is a number now."""
        found = self.api("query", query=query)
        if found["resultType"] == "scalar":
            return True
        return any(sample["value"][1] != "NaN" for sample in found["result"])
