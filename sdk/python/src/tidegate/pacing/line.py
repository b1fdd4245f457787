"""Lines of requests that wait for one host: first come, first served."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from ..clock import Clock

_Line = TypeVar("_Line", bound="AsyncLine | SyncLine")


class AsyncLine:
    """The line of one host for tasks of an event loop."""

    def __init__(self) -> None:
        self.size = 0
        self._first = asyncio.Lock()
        self._news = asyncio.Event()

    async def pass_through(self, turn_s: Callable[[], float], latest_s: float, clock: Clock) -> bool:
        """Returns when ``turn_s`` says that it is this request's turn; False if the line was too long.

        ``turn_s`` returns the seconds to wait. It is called again after that time, and after every response.
        """
        self.size += 1
        try:
            if not await self._acquire(max(0.0, latest_s - clock.monotonic())):
                return False
            try:
                while True:
                    self._news.clear()
                    wait_s = turn_s()
                    if wait_s <= 0:
                        return True
                    await self._wait(wait_s, clock)
            finally:
                self._first.release()
        finally:
            self.size -= 1

    def tell(self) -> None:
        """Wakes the first in line, because a response came."""
        self._news.set()

    async def _acquire(self, within_s: float) -> bool:
        """Becomes the first in line. `asyncio.wait_for` may swallow a cancellation, until Python 3.12."""
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
        waits = [asyncio.ensure_future(clock.sleep(wait_s)), asyncio.ensure_future(self._news.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            for wait in waits:
                with suppress(asyncio.CancelledError):
                    await wait


class SyncLine:
    """The line of one host for threads."""

    def __init__(self) -> None:
        self.size = 0
        self._size_lock = threading.Lock()
        self._first = threading.Lock()
        self._news = threading.Event()

    def pass_through(
        self, turn_s: Callable[[], float], others_in_flight: Callable[[], bool], latest_s: float, clock: Clock
    ) -> bool:
        """Returns when ``turn_s`` says that it is this request's turn; False if the line was too long."""
        self._grow(1)
        try:
            if not self._first.acquire(timeout=max(0.0, latest_s - clock.monotonic())):
                return False
            try:
                while True:
                    self._news.clear()
                    wait_s = turn_s()
                    if wait_s <= 0:
                        return True
                    if others_in_flight():
                        self._news.wait(wait_s)
                    else:
                        clock.block(wait_s)
            finally:
                self._first.release()
        finally:
            self._grow(-1)

    def _grow(self, by: int) -> None:
        """Changes the size; threads that add to a number at the same time lose one another's."""
        with self._size_lock:
            self.size += by

    def tell(self) -> None:
        """Wakes the first in line, because a response came."""
        self._news.set()


class Lines(Generic[_Line]):
    """The lines in which somebody waits or from which somebody went."""

    def __init__(self, new: Callable[[], _Line]) -> None:
        self._new = new
        self._lines: dict[str, _Line] = {}
        self._lock = threading.Lock()

    def of(self, host: str) -> _Line:
        """Returns the line of a host."""
        with self._lock:
            if host not in self._lines and len(self._lines) >= 10_000:
                self._lines = {name: line for name, line in self._lines.items() if line.size}
            return self._lines.setdefault(host, self._new())
