"""Queues of requests that wait for their turn at one host, first come, first served."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from ..clock import Clock

_Queue = TypeVar("_Queue", bound="AsyncQueue | SyncQueue")

_MAX_QUEUES = 10_000


class AsyncQueue:
    """The queue of one host for the tasks of an event loop."""

    def __init__(self) -> None:
        self.size = 0
        self._first = asyncio.Lock()
        """Held by the first in the queue."""
        self._woken = asyncio.Event()

    async def wait_turn(self, turn_s: Callable[[], float], latest_s: float, clock: Clock) -> bool:
        """Waits for the turn of a request; returns False if it is not the first by ``latest_s``.

        ``turn_s`` returns the seconds until its turn, or 0. It is called again after that time, and after
        every response.
        """
        self.size += 1
        try:
            if not await self._acquire(max(0.0, latest_s - clock.monotonic())):
                return False
            try:
                while True:
                    self._woken.clear()
                    wait_s = turn_s()
                    if wait_s <= 0:
                        return True
                    await self._wait(wait_s, clock)
            finally:
                self._first.release()
        finally:
            self.size -= 1

    def wake_first(self) -> None:
        """Wakes the first in the queue, because a response came."""
        self._woken.set()

    async def _acquire(self, within_s: float) -> bool:
        """Becomes the first in the queue. `asyncio.wait_for` may lose a cancellation before Python 3.12."""
        acquiring = asyncio.ensure_future(self._first.acquire())
        try:
            done, _ = await asyncio.wait({acquiring}, timeout=within_s)
        except asyncio.CancelledError:
            self._give_up(acquiring)
            raise
        if not done:
            self._give_up(acquiring)
        return bool(done)

    def _give_up(self, acquiring: asyncio.Future[Any]) -> None:
        acquiring.cancel()
        # It may have been its turn at the very same moment.
        acquiring.add_done_callback(lambda done: None if done.cancelled() else self._first.release())

    async def _wait(self, wait_s: float, clock: Clock) -> None:
        waits = [asyncio.ensure_future(clock.sleep(wait_s)), asyncio.ensure_future(self._woken.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            for wait in waits:
                with suppress(asyncio.CancelledError):
                    await wait


class SyncQueue:
    """The queue of one host for threads."""

    def __init__(self) -> None:
        self.size = 0
        self._size_lock = threading.Lock()
        self._first = threading.Lock()
        self._woken = threading.Event()

    def wait_turn(
        self, turn_s: Callable[[], float], others_in_flight: Callable[[], bool], latest_s: float, clock: Clock
    ) -> bool:
        """Waits for the turn of a request; returns False if it is not the first by ``latest_s``.

        ``turn_s`` returns the seconds until its turn, or 0.
        """
        self._grow(1)
        try:
            if not self._first.acquire(timeout=max(0.0, latest_s - clock.monotonic())):
                return False
            try:
                while True:
                    self._woken.clear()
                    wait_s = turn_s()
                    if wait_s <= 0:
                        return True
                    if others_in_flight():
                        self._woken.wait(wait_s)
                    else:
                        clock.block(wait_s)
            finally:
                self._first.release()
        finally:
            self._grow(-1)

    def _grow(self, by: int) -> None:
        """Changes the size under a lock, because adding to an attribute is not atomic."""
        with self._size_lock:
            self.size += by

    def wake_first(self) -> None:
        """Wakes the first in the queue, because a response came."""
        self._woken.set()


class HostQueues(Generic[_Queue]):
    """The queues of all hosts."""

    def __init__(self, new: Callable[[], _Queue]) -> None:
        self._new = new
        self._queues: dict[str, _Queue] = {}
        self._lock = threading.Lock()

    def of(self, host: str) -> _Queue:
        """Returns the queue of a host; empty queues are dropped when there are very many."""
        with self._lock:
            if host not in self._queues and len(self._queues) >= _MAX_QUEUES:
                self._queues = {name: queue for name, queue in self._queues.items() if queue.size}
            return self._queues.setdefault(host, self._new())
