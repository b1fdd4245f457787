"""Checks that are made at the same time travel together."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from .answer import Answer, Unanswered, read_batch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .breaker import Admission, Breaker

MOST_CHECKS = 1000
"""Of one batch: the service takes no more."""
MOST_BYTES = 512 * 1024
"""Of one batch: half of what the service takes by default."""
_GRACE_S = 0.025


class _Check:
    """One check on its way."""

    __slots__ = ("admission", "due", "flight", "future", "graced", "message", "timer")

    def __init__(
        self, message: bytes, admission: Admission, future: asyncio.Future[Answer], due: float
    ) -> None:
        self.message = message
        self.admission = admission
        self.future = future
        self.due = due
        self.graced = False
        self.flight: _Flight | None = None
        self.timer: asyncio.TimerHandle | None = None

    def answer(self, answer: Answer) -> None:
        self._end()
        if not self.future.done():
            self.future.set_result(answer)

    def fail(self, why: Unanswered) -> None:
        self._end()
        if not self.future.done():
            self.future.set_exception(why)

    def _end(self) -> None:
        if self.timer is not None:
            self.timer.cancel()


class _Flight:
    """Checks that are sent as one request."""

    __slots__ = ("checks", "task")

    def __init__(self, checks: list[_Check]) -> None:
        self.checks = checks
        self.task: asyncio.Task[None] | None = None

    def is_over(self) -> bool:
        return all(check.future.done() for check in self.checks)


class Batcher:
    """Gathers the checks of one event loop.

    The first goes at the end of the current tick, with those that came in the same tick. While
    ``max_in_flight`` requests are under way, others gather. Each check has a deadline of its own,
    whichever batch it is in.
    """

    def __init__(
        self,
        post: Callable[[bytes], Awaitable[Answer]],
        breaker: Breaker,
        *,
        deadline_s: float,
        max_in_flight: int = 2,
    ) -> None:
        self._post = post
        self._breaker = breaker
        self._deadline_s = deadline_s
        self._max_in_flight = max_in_flight
        self._loop = asyncio.get_running_loop()
        self._queue: deque[_Check] = deque()
        self._flights: set[_Flight] = set()
        self._is_due = False

    async def ask(self, message: bytes) -> Answer:
        """The service's answer to a check; raises `Unanswered` where the fallback has to decide."""
        admission = self._breaker.admit()
        if admission is None:
            raise Unanswered("the service did not answer a moment ago")
        check = _Check(message, admission, self._loop.create_future(), self._loop.time() + self._deadline_s)
        check.timer = self._loop.call_at(check.due, self._late, check)
        if admission.alone:
            self._launch([check])
        else:
            self._queue.append(check)
            self._schedule()
        return await check.future

    def _schedule(self) -> None:
        if not self._is_due and self._queue and len(self._flights) < self._max_in_flight:
            self._is_due = True
            self._loop.call_soon(self._depart)

    def _depart(self) -> None:
        self._is_due = False
        checks: list[_Check] = []
        size = 0
        while self._queue and len(checks) < MOST_CHECKS:
            check = self._queue[0]
            if check.future.done():  # too late, or nobody waits for it any more
                check.fail(Unanswered("nobody waits for it"))
            elif checks and size + len(check.message) > MOST_BYTES:
                break
            else:
                checks.append(check)
                size += len(check.message) + 1
            self._queue.popleft()
        if checks:
            self._launch(checks)
        self._schedule()

    def _launch(self, checks: list[_Check]) -> None:
        flight = _Flight(checks)
        self._flights.add(flight)
        for check in checks:
            check.flight = flight
        flight.task = self._loop.create_task(self._fly(flight))

    async def _fly(self, flight: _Flight) -> None:
        checks = flight.checks
        admission = checks[0].admission
        try:
            answers = await self._send([check.message for check in checks])
        except Unanswered as why:
            for check in checks:
                check.fail(why)
            if why.dead:
                self._fail(admission, str(why))
        except asyncio.CancelledError:
            # The deadline of the last of them has passed, or the client is closed.
            for check in checks:
                check.fail(Unanswered("the request was given up"))
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody waits for it until the deadline
            broken = f"{type(error).__name__}: {error}"
            for check in checks:
                check.fail(Unanswered(broken))
            self._fail(admission, broken)
        else:
            self._breaker.succeeded(admission)
            for check, answer in zip(checks, answers, strict=True):
                check.answer(answer)
        finally:
            self._flights.discard(flight)
            self._schedule()

    async def _send(self, messages: list[bytes]) -> list[Answer]:
        if len(messages) == 1:
            return [await self._post(messages[0])]
        answer = await self._post(b"[" + b",".join(messages) + b"]")
        if answer.status != 200:  # about the batch as a whole, such as 401 or 503
            return [answer] * len(messages)
        return read_batch(answer.body, len(messages))

    def _late(self, check: _Check) -> None:
        """The deadline of a check has passed."""
        overslept_s = self._loop.time() - check.due
        if overslept_s > _GRACE_S and check.flight is not None and not check.graced:
            # The loop was blocked for so long that an answer may have come unseen: let it be read first.
            check.graced = True
            check.timer = self._loop.call_later(_GRACE_S, self._late, check)
            return
        check.fail(Unanswered(f"no answer within {self._deadline_s * 1000:.0f} ms"))
        flight = check.flight
        if flight is not None and flight.task is not None and flight.is_over():
            flight.task.cancel()
        self._fail(check.admission, f"no answer within {self._deadline_s * 1000:.0f} ms")

    def _fail(self, admission: Admission, why: str) -> None:
        """Nobody waits in line for a service that does not answer."""
        self._breaker.failed(admission, why)
        while self._queue:
            self._queue.popleft().fail(Unanswered(why))

    async def aclose(self) -> None:
        """Gives up what is under way."""
        tasks = [flight.task for flight in self._flights if flight.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        while self._queue:
            self._queue.popleft().fail(Unanswered("the client is closed"))
