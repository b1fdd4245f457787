"""Clients that are created before a fork: parent and children each get their own decisions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from support.stub import Received, Reply, Stub, decided, serve


def named(check: dict[str, object]) -> Reply:
    """Returns a decision that names the process that asked for it."""
    who = check["descriptors"][0]["entries"][0]["value"]  # type: ignore[index]
    by = f'{{"rule":"{who}","name":"minute"}}'
    return Reply(body=f'{{"allowed":true,"decided_by":{by},"source":"memory","limits":[]}}')


@pytest.fixture
def stub() -> Iterator[Stub]:
    def answer(received: Received) -> Reply:
        return decided(received, named)

    with serve(answer) as stub:
        yield stub


HEAD = """
import os, sys, threading
from tidegate import SyncTidegate, Tidegate

CHILDREN, ASKS = 4, 40

def is_own(decision, who):
    return decision.decided_by is not None and decision.decided_by.rule == who

def children(work):
    pids = []
    for number in range(CHILDREN):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = 0 if work(f"child {number}") else 2
            finally:
                os._exit(code)
        pids.append(pid)
    return pids

def all_well(pids):
    return all(os.waitpid(pid, 0)[1] == 0 for pid in pids)
"""

IDLE = (
    HEAD
    + """
client = SyncTidegate(sys.argv[1], deadline=30)
assert is_own(client.check({"who": "parent"}), "parent")  # a connection is open and kept

def ask(who):
    return all(is_own(client.check({"who": who}), who) for _ in range(ASKS))

pids = children(ask)
own = ask("parent")
assert all_well(pids), "a child got what another asked for, or nothing"
assert own, "the parent got what a child asked for"
client.close()
"""
)

BUSY = (
    HEAD
    + """
client = SyncTidegate(sys.argv[1], deadline=30)
assert is_own(client.check({"who": "parent"}), "parent")  # a connection is open and kept
stop, seen = threading.Event(), []

def go_on():  # the locks of the client are held again and again while the children are made
    while not stop.is_set():
        seen.append(is_own(client.check({"who": "parent"}), "parent"))

thread = threading.Thread(target=go_on)
thread.start()
pids = children(lambda who: all(is_own(client.check({"who": who}), who) for _ in range(ASKS)))
well = all_well(pids)
stop.set()
thread.join()
assert well, "a child got what another asked for, or nothing"
assert all(seen), "the parent got what a child asked for"
assert is_own(client.check({"who": "parent"}), "parent")
client.close()
"""
)

ASYNC = (
    HEAD
    + """
import asyncio

client = Tidegate(sys.argv[1], deadline=30)
loop = asyncio.new_event_loop()

async def ask(who):
    decisions = await asyncio.gather(*(client.check({"who": who}) for _ in range(ASKS)))
    return all(is_own(decision, who) for decision in decisions)

assert loop.run_until_complete(ask("parent"))  # a connection is open and kept
assert all_well(children(lambda who: asyncio.new_event_loop().run_until_complete(ask(who))))
assert loop.run_until_complete(ask("parent"))
loop.run_until_complete(client.aclose())
loop.close()
"""
)

PACED = (
    HEAD
    + """
import httpx
from tidegate.pacing import SyncPacingTransport

client = httpx.Client(transport=SyncPacingTransport(), trust_env=False, timeout=30)

def ask(who):
    body = {"descriptors": [{"entries": [{"key": "who", "value": who}]}]}
    answers = [client.post(sys.argv[1] + "/v1/check", json=body).json() for _ in range(ASKS)]
    return all(answer["decided_by"]["rule"] == who for answer in answers)

assert ask("parent")
pids = children(ask)
own = ask("parent")
assert all_well(pids) and own
client.close()
"""
)

LOCKS = (
    HEAD
    + """
os.environ["TIDEGATE_URL"] = sys.argv[1]
from tidegate import breaker, local, scope, warnings
from tidegate.client import shared_client

client = SyncTidegate("http://127.0.0.1:9", deadline=5)
client.check({"who": "parent"}, limits="10/minute")
shared_client()
held = [client._settings.breaker._lock, client._settings.fallback._limiter._lock, scope._lock, warnings._lock]
for lock in held:
    lock.acquire()  # as a thread may that is not there any more in the child

def work(who):
    warnings.warn_once("TIDEGATE_NO_ADDRESS")
    return client.check({"who": who}, limits="10/minute").source == "local"

assert all_well(children(work))
"""
)


NAMES = ["idle", "busy", "async", "paced", "locks"]


@pytest.mark.parametrize("script", [IDLE, BUSY, ASYNC, PACED, LOCKS], ids=NAMES)
def test_each_process_gets_its_own_decisions(stub: Stub, script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script, stub.url], timeout=60, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
