"""Laws of batches. The service is a function here, whose responses the tests control."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence

import pytest

from support.clock import FakeClock
from tidegate.batch import MAX_CHECKS, Batcher
from tidegate.breaker import Breaker
from tidegate.response import CallFailed, ServiceResponse

pytestmark = pytest.mark.anyio

PATIENCE_S = 30.0


class Service:
    """Records requests, and responds when a test lets it."""

    def __init__(self, *, open_: bool = True) -> None:
        self.bodies: list[bytes] = []
        self.under_way = 0
        self.most_under_way = 0
        self.gate = asyncio.Event()
        if open_:
            self.gate.set()
        self.failure: Exception | None = None
        self.came = asyncio.Condition()

    async def post(self, body: bytes) -> ServiceResponse:
        self.bodies.append(body)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        async with self.came:
            self.came.notify_all()
        try:
            await self.gate.wait()
        finally:
            self.under_way -= 1
        if self.failure is not None:
            raise self.failure
        asked = json.loads(body)
        if isinstance(asked, list):
            parts = ",".join(
                f'{{"status":200,"headers":{{"n":"{one}"}},"body":{{"n": {one}}}}}' for one in asked
            )
            return ServiceResponse(200, (), f"[{parts}]")
        return ServiceResponse(200, (("n", str(asked)),), f'{{"n": {asked}}}')

    async def until(self, requests: int) -> None:
        async with self.came:
            await asyncio.wait_for(self.came.wait_for(lambda: len(self.bodies) >= requests), PATIENCE_S)

    def sizes(self) -> list[int]:
        return [len(asked) if isinstance(asked := json.loads(body), list) else 0 for body in self.bodies]


def batcher_of(
    service: Service, *, deadline_s: float = PATIENCE_S, clock: FakeClock | None = None
) -> Batcher:
    breaker = Breaker((clock or FakeClock()).clock(), probe_timeout_s=1.0)
    return Batcher(service.post, breaker, deadline_s=deadline_s)


async def ask(batcher: Batcher, numbers: Sequence[int]) -> list[str]:
    answers = await asyncio.gather(*(batcher.check(b"%d" % number) for number in numbers))
    return [answer.body for answer in answers]


async def test_one_check_is_sent_as_it_is() -> None:
    service = Service()
    assert await ask(batcher_of(service), [7]) == ['{"n": 7}']
    assert service.bodies == [b"7"]


async def test_checks_of_one_loop_iteration_are_one_batch_and_each_gets_its_own_response() -> None:
    service = Service()
    assert await ask(batcher_of(service), range(100)) == [f'{{"n": {number}}}' for number in range(100)]
    assert service.sizes() == [100]


async def test_while_two_are_under_way_others_gather() -> None:
    service = Service(open_=False)
    batcher = batcher_of(service)
    tasks = []
    for number in range(2):
        tasks.append(asyncio.create_task(batcher.check(b"%d" % number)))
        await service.until(number + 1)
    tasks += [asyncio.create_task(batcher.check(b"%d" % number)) for number in range(2, 52)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert service.sizes() == [0, 0]
    service.gate.set()
    await asyncio.gather(*tasks)
    assert service.sizes() == [0, 0, 50]
    assert service.most_under_way == 2


async def test_a_batch_has_at_most_what_the_service_takes() -> None:
    service = Service()
    await ask(batcher_of(service), range(MAX_CHECKS + 5))
    assert service.sizes() == [MAX_CHECKS, 5]


async def test_a_batch_is_bounded_in_bytes_too() -> None:
    service = Service()
    batcher = batcher_of(service)
    long = b"1" + b" " * 300_000
    await asyncio.gather(*(batcher.check(long) for _ in range(3)))
    assert service.sizes() == [0, 0, 0]


async def test_each_check_has_a_deadline_of_its_own() -> None:
    service = Service(open_=False)
    batcher = batcher_of(service, deadline_s=0.05)
    with pytest.raises(CallFailed, match="50 ms"):
        await batcher.check(b"1")
    for _ in range(3):
        await asyncio.sleep(0)
    assert service.under_way == 0  # what nobody waits for is given up


async def test_queued_checks_fail_together_with_the_first_failure() -> None:
    service = Service(open_=False)
    batcher = batcher_of(service)
    tasks = []
    for number in range(2):
        tasks.append(asyncio.create_task(batcher.check(b"%d" % number)))
        await service.until(number + 1)
    in_line = asyncio.create_task(batcher.check(b"3"))
    await asyncio.sleep(0)
    service.failure = CallFailed("connection refused")
    service.gate.set()
    for task in (*tasks, in_line):
        with pytest.raises(CallFailed):
            await task
    assert len(service.bodies) == 2


async def test_after_a_failure_no_check_waits_until_a_probe_has_succeeded() -> None:
    clock = FakeClock()
    service = Service()
    service.failure = CallFailed("connection refused")
    batcher = batcher_of(service, clock=clock)
    with pytest.raises(CallFailed):
        await batcher.check(b"1")
    with pytest.raises(CallFailed, match="a moment ago"):
        await batcher.check(b"2")
    assert service.bodies == [b"1"]

    clock.advance(1)
    service.failure = None
    answers = await asyncio.gather(
        *(batcher.check(b"%d" % number) for number in range(3, 6)), return_exceptions=True
    )
    assert [isinstance(answer, ServiceResponse) for answer in answers] == [True, False, False]
    assert service.bodies == [b"1", b"3"]
    assert await ask(batcher, [6, 7]) == ['{"n": 6}', '{"n": 7}']


async def test_a_5xx_response_does_not_open_the_breaker() -> None:
    service = Service()
    service.failure = CallFailed("503", is_down=False)
    batcher = batcher_of(service)
    for number in (1, 2):
        with pytest.raises(CallFailed):
            await batcher.check(b"%d" % number)
    assert service.bodies == [b"1", b"2"]


async def test_a_cancelled_check_does_not_disturb_the_others() -> None:
    service = Service(open_=False)
    batcher = batcher_of(service)
    gone = asyncio.create_task(batcher.check(b"1"))
    stays = asyncio.create_task(batcher.check(b"2"))
    await service.until(1)
    gone.cancel()
    service.gate.set()
    assert (await stays).body == '{"n": 2}'
    assert gone.cancelled() or isinstance(gone.exception(), asyncio.CancelledError)


async def test_a_batch_without_waiting_checks_ends_at_its_deadline() -> None:
    service = Service(open_=False)
    batcher = batcher_of(service, deadline_s=0.05)
    gone = asyncio.create_task(batcher.check(b"1"))
    await service.until(1)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    async with asyncio.Lock():
        for _ in range(3000):
            if service.under_way == 0:
                break
            await asyncio.sleep(0.01)
    assert service.under_way == 0


async def test_a_response_that_came_while_the_loop_was_blocked_counts() -> None:
    service = Service(open_=False)
    batcher = batcher_of(service, deadline_s=0.05)
    task = asyncio.create_task(batcher.check(b"1"))
    await service.until(1)
    service.gate.set()
    time.sleep(0.2)  # noqa: ASYNC251 - what apps do that they should not
    assert (await task).body == '{"n": 1}'


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[", "[]", '[{"status":200}]', '[{"status":200,"headers":{},"body":{}}]', "[1,2]", "nonsense"],
)
async def test_a_batch_response_that_cannot_be_parsed_is_a_failure(text: str) -> None:
    async def post(body: bytes) -> ServiceResponse:
        return ServiceResponse(200, (), text)

    batcher = Batcher(post, Breaker(FakeClock().clock(), probe_timeout_s=1.0), deadline_s=PATIENCE_S)
    answers = await asyncio.gather(batcher.check(b"1"), batcher.check(b"2"), return_exceptions=True)
    assert [type(answer) for answer in answers] == [CallFailed, CallFailed]


async def test_closing_fails_every_waiting_check() -> None:
    service = Service(open_=False)
    batcher = batcher_of(service)
    tasks = [asyncio.create_task(batcher.check(b"1"))]
    await service.until(1)
    await batcher.aclose()
    with pytest.raises(CallFailed):
        await tasks[0]


async def test_an_unexpected_error_fails_checks_before_their_deadline() -> None:
    service = Service()
    service.failure = RuntimeError("a mistake of ours")
    breaker = Breaker(FakeClock().clock(), probe_timeout_s=60)
    batcher = Batcher(service.post, breaker, deadline_s=3600)
    asked = asyncio.gather(*(batcher.check(b"1") for _ in range(3)), return_exceptions=True)
    for error in await asyncio.wait_for(asked, PATIENCE_S):
        assert isinstance(error, CallFailed)
        assert "a mistake of ours" in str(error)
    assert breaker.admit() is None
