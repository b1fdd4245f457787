"""Real gunicorn and Celery, with a client that is used before they fork: no worker gets others' decisions."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import httpx
import pytest

from support.stub import Received, Reply, Stub, decided, serve

T = TypeVar("T")

# The client is created and used when this module is imported, which is before the workers are forked. Each
# worker then checks under its own process ID.
WORKER = """
import json
import os

from tidegate import SyncTidegate

client = SyncTidegate(deadline=30)
assert client.check({"who": "parent"}).decided_by.rule == "parent"  # a connection is open and kept


def check_as_worker():
    me = str(os.getpid())
    decisions = [client.check({"who": me}) for _ in range(100)]
    decided_for = {str(decision.decided_by and decision.decided_by.rule) for decision in decisions}
    return json.dumps({"worker": me, "decided_for": sorted(decided_for)})
"""

WSGI_APP = """
import worker


def app(environ, start_response):
    start_response("200 OK", [("content-type", "application/json")])
    return [worker.check_as_worker().encode()]
"""

CELERY_APP = """
from celery import Celery
from celery.signals import worker_ready

import worker

app = Celery("tasks", broker="memory://")
app.conf.broker_transport_options = {"polling_interval": 0.02}


@app.task
def check():
    print(worker.check_as_worker())


@worker_ready.connect
def send_tasks(**_):
    check.delay()
    check.delay()
"""


@pytest.fixture
def stub() -> Iterator[Stub]:
    """A service that writes the value of the first entry into the decision.

    It responds to the first check of a worker only when that of the other one is there, too. If they shared a
    connection, it could not read the second before it has responded to the first.
    """
    both = threading.Barrier(2)
    seen = {"parent"}

    def decide(check: dict[str, object]) -> Reply:
        who = str(check["descriptors"][0]["entries"][0]["value"])  # type: ignore[index]
        if who not in seen:
            seen.add(who)
            both.wait(20)
        by = f'{{"rule":"{who}","name":"minute"}}'
        return Reply(body=f'{{"allowed":true,"decided_by":{by},"source":"memory","limits":[]}}')

    def answer(received: Received) -> Reply:
        return decided(received, decide)

    with serve(answer) as stub:
        yield stub


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, source in (("worker", WORKER), ("wsgi", WSGI_APP), ("tasks", CELERY_APP)):
        (tmp_path / f"{name}.py").write_text(source)
    return tmp_path


@contextmanager
def running(command: list[str], folder: Path, stub: Stub) -> Iterator[Callable[[str], list[str]]]:
    """Runs a server; yields a function that returns what a pattern has found in its output so far."""
    log = folder / "log"
    with log.open("w") as output:
        env = {**os.environ, "TIDEGATE_URL": stub.url, "PYTHONUNBUFFERED": "1"}
        server = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=folder,
            env=env,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield lambda pattern: re.findall(pattern, log.read_text())
    except TimeoutError:
        pytest.fail(f"{command[0]} printed:\n{log.read_text()}")
    finally:
        os.killpg(server.pid, signal.SIGKILL)  # with its workers
        server.wait()


def wait_for(find: Callable[[], list[T]], count: int) -> list[T]:
    """Returns what was found as soon as there is as much as expected."""
    give_up_s = time.monotonic() + 30
    while len(found := find()) < count:
        if time.monotonic() > give_up_s:
            raise TimeoutError
        time.sleep(0.02)
    return found


def expect_own_decisions(reports: list[dict[str, object]]) -> None:
    assert len({report["worker"] for report in reports}) == 2, reports
    for report in reports:
        assert report["decided_for"] == [report["worker"]], "a worker got decisions of another, or none"


def test_gunicorn_with_preload(folder: Path, stub: Stub) -> None:
    options = ["--preload", "--workers", "2", "--timeout", "60", "--bind", "127.0.0.1:0", "wsgi:app"]
    with running(["gunicorn", *options], folder, stub) as find:
        [url] = wait_for(lambda: find(r"Listening at: (http://\S+)"), 1)
        with ThreadPoolExecutor() as threads:
            answers = threads.map(lambda _: httpx.get(url, timeout=60, trust_env=False), range(2))
            expect_own_decisions([answer.json() for answer in answers])


def test_celery_prefork(folder: Path, stub: Stub) -> None:
    options = ["--pool", "prefork", "--concurrency", "2", "--loglevel", "WARNING"]
    options += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    with running(["celery", "--app", "tasks", "worker", *options], folder, stub) as find:
        reports = wait_for(lambda: find(r'\{"worker".*?\}'), 2)
    expect_own_decisions([json.loads(report) for report in reports])
