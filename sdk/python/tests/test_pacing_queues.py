"""HostQueues of threads that wait for one host."""

from __future__ import annotations

import sys
import threading

from tidegate.clock import SYSTEM
from tidegate.pacing.queues import SyncQueue


class SlowToRead(SyncQueue):
    """A line in which other threads get their turn between reading the size and writing it."""

    _size = 0

    @property
    def size(self) -> int:
        found = self._size
        for _ in range(100):
            pass
        return found

    @size.setter
    def size(self, size: int) -> None:
        self._size = size


def test_a_line_of_threads_is_empty_when_all_have_gone() -> None:
    """A line that seems to be empty while somebody waits is dropped, and another one would begin."""
    line = SlowToRead()
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def pass_often() -> None:
        for _ in range(500):
            assert line.wait_turn(lambda: 0.0, lambda: False, SYSTEM.monotonic() + 60, SYSTEM)

    threads = [threading.Thread(target=pass_often) for _ in range(8)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before_s)
    assert line.size == 0
