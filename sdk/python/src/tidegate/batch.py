"""Sends checks that are made at the same time as one request."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from .breaker import RECENTLY_FAILED
from .response import CallFailed, ServiceResponse, parse_batch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .breaker import Admission, Breaker

MAX_CHECKS = 1000
"""Checks in one batch: the service accepts no more."""
MAX_BYTES = 512 * 1024
"""Bytes in one batch: half of what the service accepts by default."""
_GRACE_S = 0.025


class _PendingCheck:
    """A check that waits for its response. ``due`` is its deadline by the clock of the event loop."""

    __slots__ = ("admission", "batch", "body", "due", "future", "had_grace", "timer")

    def __init__(
        self, body: bytes, admission: Admission, future: asyncio.Future[ServiceResponse], due: float
    ) -> None:
        self.body = body
        self.admission = admission
        self.future = future
        self.due = due
        self.had_grace = False
        self.batch: _Batch | None = None
        self.timer: asyncio.TimerHandle | None = None

    def succeed(self, response: ServiceResponse) -> None:
        self._end()
        if not self.future.done():
            self.future.set_result(response)

    def fail(self, failure: CallFailed) -> None:
        self._end()
        if not self.future.done():
            self.future.set_exception(failure)

    def _end(self) -> None:
        if self.timer is not None:
            self.timer.cancel()


class _Batch:
    """Checks that were sent as one request."""

    __slots__ = ("checks", "task")

    def __init__(self, checks: list[_PendingCheck]) -> None:
        self.checks = checks
        self.task: asyncio.Task[None] | None = None

    def is_over(self) -> bool:
        return all(check.future.done() for check in self.checks)


class Batcher:
    """Gathers the checks of one event loop into batches.

    A batch is sent at the end of the current iteration of the event loop, with all checks made in it. While
    ``max_in_flight`` batches are under way, further checks gather. Each check keeps its own deadline,
    whichever batch it is in.
    """

    def __init__(
        self,
        post: Callable[[bytes], Awaitable[ServiceResponse]],
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
        self._queue: deque[_PendingCheck] = deque()
        self._in_flight: set[_Batch] = set()
        self._is_scheduled = False

    async def check(self, body: bytes) -> ServiceResponse:
        """Returns the response to a check; raises `CallFailed` where the fallback has to decide."""
        admission = self._breaker.admit()
        if admission is None:
            raise CallFailed(RECENTLY_FAILED)
        due = self._loop.time() + self._deadline_s
        check = _PendingCheck(body, admission, self._loop.create_future(), due)
        check.timer = self._loop.call_at(check.due, self._on_deadline, check)
        if admission.is_probe:
            self._start([check])
        else:
            self._queue.append(check)
            self._schedule()
        return await check.future

    def _schedule(self) -> None:
        if not self._is_scheduled and self._queue and len(self._in_flight) < self._max_in_flight:
            self._is_scheduled = True
            self._loop.call_soon(self._start_next)

    def _start_next(self) -> None:
        self._is_scheduled = False
        checks: list[_PendingCheck] = []
        size = 0
        while self._queue and len(checks) < MAX_CHECKS:
            check = self._queue[0]
            if check.future.done():  # its deadline has passed, or its caller was cancelled
                check.fail(CallFailed("the check was cancelled"))
            elif checks and size + len(check.body) > MAX_BYTES:
                break
            else:
                checks.append(check)
                size += len(check.body) + 1
            self._queue.popleft()
        if checks:
            self._start(checks)
        self._schedule()

    def _start(self, checks: list[_PendingCheck]) -> None:
        batch = _Batch(checks)
        self._in_flight.add(batch)
        for check in checks:
            check.batch = batch
        batch.task = self._loop.create_task(self._run(batch))

    async def _run(self, batch: _Batch) -> None:
        checks = batch.checks
        admission = checks[0].admission
        try:
            responses = await self._send([check.body for check in checks])
        except CallFailed as failure:
            for check in checks:
                check.fail(failure)
            if failure.is_down:
                self._fail(admission, str(failure))
        except asyncio.CancelledError:
            # The deadline of the last of them has passed, or the client is closed.
            for check in checks:
                check.fail(CallFailed("the request was cancelled"))
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, no caller waits until its deadline for it
            problem = f"{type(error).__name__}: {error}"
            for check in checks:
                check.fail(CallFailed(problem))
            self._fail(admission, problem)
        else:
            self._breaker.succeeded(admission)
            for check, response in zip(checks, responses, strict=True):
                check.succeed(response)
        finally:
            self._in_flight.discard(batch)
            self._schedule()

    async def _send(self, bodies: list[bytes]) -> list[ServiceResponse]:
        if len(bodies) == 1:
            return [await self._post(bodies[0])]
        response = await self._post(b"[" + b",".join(bodies) + b"]")
        if response.status != 200:  # about the batch as a whole, such as 401 or 503
            return [response] * len(bodies)
        return parse_batch(response.body, len(bodies))

    def _on_deadline(self, check: _PendingCheck) -> None:
        overslept_s = self._loop.time() - check.due
        if overslept_s > _GRACE_S and check.batch is not None and not check.had_grace:
            # The loop was blocked for so long that a response may be there unread: let it be read first.
            check.had_grace = True
            check.timer = self._loop.call_later(_GRACE_S, self._on_deadline, check)
            return
        problem = f"no response within {self._deadline_s * 1000:.0f} ms"
        check.fail(CallFailed(problem))
        batch = check.batch
        if batch is not None and batch.task is not None and batch.is_over():
            batch.task.cancel()
        self._fail(check.admission, problem)

    def _fail(self, admission: Admission, why: str) -> None:
        """Opens the breaker, and fails the checks that were not sent yet: they would wait in vain."""
        self._breaker.failed(admission, why)
        while self._queue:
            self._queue.popleft().fail(CallFailed(why))

    async def aclose(self) -> None:
        """Cancels what is under way."""
        tasks = [batch.task for batch in self._in_flight if batch.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        while self._queue:
            self._queue.popleft().fail(CallFailed("the client is closed"))
