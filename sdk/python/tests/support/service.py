"""The real service, with rules and a data folder of a test's own."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path

import httpx
import pytest

from .vectors import ROOT

APPS = "domain: apps\ninline_limits: { max: 1000 }\ndescriptors: []\n"

API = """\
domain: api_platform
descriptors:
  - key: api_key
    limits:
      - { name: steady, requests: 100, per: minute }
    concurrency: { max: 1, timeout: 60s }
    descriptors:
      - key: endpoint
        value: POST /v1/orders
        name: orders
        limits:
          - { name: minute, requests: 2, per: minute }
"""


def binary() -> Path:
    """The binary to test against."""
    path = Path(os.environ.get("TIDEGATE_BIN") or ROOT / "target" / "debug" / "tidegate")
    if not path.is_file():
        pytest.fail(f"there is no service at {path}: build it with cargo build, or set TIDEGATE_BIN")
    return path


class Service:
    """A running service. It keeps its port when it is started again."""

    def __init__(self, folder: Path, rules: dict[str, str]) -> None:
        self.folder = folder
        (folder / "rules").mkdir()
        for name, text in rules.items():
            (folder / "rules" / f"{name}.yaml").write_text(text)
        self._listen = "127.0.0.1:0"
        self.start()

    def start(self) -> None:
        """Starts it, and waits until it says where it listens."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
        env |= {
            "TIDEGATE_RULES": str(self.folder / "rules"),
            "TIDEGATE_DATA": str(self.folder / "data"),
            "TIDEGATE_GRPC__LISTEN": "127.0.0.1:0",
            "TIDEGATE_ADMIN__LISTEN": "127.0.0.1:0",
            "TIDEGATE_HTTP__LISTEN": self._listen,
        }
        errors = (self.folder / "errors").open("w")
        self._process = subprocess.Popen(
            [binary(), "serve"], env=env, cwd=self.folder, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        errors.close()
        assert self._process.stdout is not None
        for line in self._process.stdout:
            words = line.split()
            if words[:1] == ["http"]:
                self._listen = words[1]
                break
        else:
            pytest.fail(f"the service did not start: {(self.folder / 'errors').read_text()}")
        # What it says later must not fill the pipe.
        self._reader = threading.Thread(target=self._process.stdout.read, daemon=True)
        self._reader.start()

    @property
    def url(self) -> str:
        return f"http://{self._listen}"

    def pause(self) -> None:
        """Stops it, and waits until it has."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Ends it without a warning."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def post(self, path: str, body: object) -> httpx.Response:
        """Sends a request without the package."""
        with httpx.Client(trust_env=False) as client:
            return client.post(self.url + path, json=body, timeout=30)


def needs_inline_limits(service: Service) -> Service:
    """Fails if the binary is older than limits in requests."""
    limits = [{"requests": 1, "per": "day"}]
    descriptor = {"entries": [{"key": "a", "value": "b"}], "limits": limits}
    asked = {"domain": "apps", "descriptors": [descriptor], "cost": 0}
    answer = service.post("/v1/check", asked)
    if answer.status_code != 200:
        pytest.fail(f"the service at {binary()} takes no inline limits, it is too old: {answer.text}")
    return service


def needs_reservations(service: Service) -> Service:
    """Fails if the binary is older than reservations."""
    answer = service.post("/v1/settle", {"id": "none", "cost": 1})
    if answer.status_code == 404:
        pytest.fail(f"the service at {binary()} has no /v1/settle, it is too old: {answer.text}")
    return service
