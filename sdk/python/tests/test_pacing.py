"""Laws of pacing clients, on a fake clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from support.clock import FakeClock
from support.limited_server import LimitedServer
from support.virtual import VirtualLoop, run
from tidegate.pacing import Learned, PacingTimeout, PacingTransport, SyncPacingTransport
from tidegate.pacing.pacer import HostState

pytestmark = pytest.mark.anyio

Answers = list[httpx.Response | Exception]


class Server:
    """Returns its responses in turn, and records the time of each request."""

    def __init__(self, clock: FakeClock, answers: Answers) -> None:
        self.clock = clock
        self.answers = answers
        self.asked_at: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked_at.append(round(self.clock.now_s - 1000, 3))
        answer = self.answers.pop(0) if self.answers else httpx.Response(200)
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer.status_code, headers=answer.headers)


async def ask(
    clock: FakeClock, server: Server, method: str = "GET", **options: object
) -> tuple[httpx.Response | Exception, list[float]]:
    """The same through both transports; they must do the same."""
    answers = list(server.answers)
    outcome = await _outcome(clock, server, method, **options)
    asked_at = server.asked_at
    twin_clock = FakeClock(chance=clock.chance)
    twin = Server(twin_clock, answers)
    transport = SyncPacingTransport(httpx.MockTransport(twin), clock=twin_clock.clock(), max_retries=3)
    with httpx.Client(transport=transport) as client:
        try:
            client.request(method, "http://api/", **options)  # type: ignore[arg-type]
        except httpx.TransportError as error:
            assert type(error) is type(outcome)
    assert twin.asked_at == asked_at
    return outcome, asked_at


async def _outcome(
    clock: FakeClock, server: Server, method: str, **options: object
) -> httpx.Response | Exception:
    transport = PacingTransport(httpx.MockTransport(server), clock=clock.clock())
    async with httpx.AsyncClient(transport=transport) as client:
        try:
            return await client.request(method, "http://api/", **options)  # type: ignore[arg-type]
        except httpx.TransportError as error:
            return error


def status(outcome: httpx.Response | Exception) -> int:
    assert isinstance(outcome, httpx.Response)
    return outcome.status_code


def said(code: int, **headers: str) -> httpx.Response:
    return httpx.Response(code, headers={name.replace("_", "-"): value for name, value in headers.items()})


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("code", [429, 503])
async def test_retries_after_retry_after_and_a_little(method: str, code: int) -> None:
    clock = FakeClock()
    outcome, asked_at = await ask(clock, Server(clock, [said(code, retry_after="7")]), method, content=b"x")
    assert status(outcome) == 200
    assert asked_at == [0, 7.7]


async def test_jitter_is_at_most_five_seconds_and_at_least_up_to_a_tenth_of_one() -> None:
    clock = FakeClock()
    transport = PacingTransport(
        httpx.MockTransport(server := Server(clock, [said(429, retry_after="100")])),
        clock=clock.clock(),
        deadline=200,
    )
    async with httpx.AsyncClient(transport=transport) as client:
        await client.get("http://api/")
    assert server.asked_at == [0, 105]
    clock = FakeClock()
    _, asked_at = await ask(clock, Server(clock, [said(429, retry_after="0")]))
    assert asked_at == [0, 0.1]


async def test_backs_off_if_the_server_requests_no_wait() -> None:
    clock = FakeClock()
    outcome, asked_at = await ask(clock, Server(clock, [said(502), said(503), said(504)]))
    assert status(outcome) == 200
    assert asked_at == [0, 0.1, 0.3, 0.7]


@pytest.mark.parametrize("failure", [said(502), said(503), said(504), httpx.ConnectError("no")])
async def test_only_what_is_safe_is_repeated(failure: httpx.Response | Exception) -> None:
    clock = FakeClock()
    _, asked_at = await ask(clock, Server(clock, [failure]), "POST")
    assert asked_at == [0]
    clock = FakeClock()
    outcome, asked_at = await ask(clock, Server(clock, [failure]), "POST", headers={"Idempotency-Key": "k"})
    assert status(outcome) == 200
    assert len(asked_at) == 2


async def test_a_body_that_can_be_read_once_only_is_sent_once() -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"x"

    clock = FakeClock()
    server = Server(clock, [said(429, retry_after="1")])
    outcome = await _outcome(clock, server, "POST", content=body())
    assert status(outcome) == 429
    assert server.asked_at == [0]


async def test_gives_up_by_count() -> None:
    clock = FakeClock()
    outcome, asked_at = await ask(clock, Server(clock, [said(429, retry_after="1") for _ in range(9)]))
    assert status(outcome) == 429
    assert len(asked_at) == 4


async def test_gives_up_at_once_if_the_wait_would_end_after_the_deadline() -> None:
    clock = FakeClock()
    outcome, asked_at = await ask(clock, Server(clock, [said(429, retry_after="31")]))
    assert status(outcome) == 429
    assert asked_at == [0]
    assert not clock.slept


async def test_errors_are_raised_when_tries_run_out() -> None:
    clock = FakeClock()
    outcome, asked_at = await ask(clock, Server(clock, [httpx.ReadTimeout("no") for _ in range(9)]))
    assert isinstance(outcome, httpx.ReadTimeout)
    assert len(asked_at) == 4


async def test_other_responses_are_final() -> None:
    clock = FakeClock()
    outcome, asked_at = await ask(clock, Server(clock, [said(500), said(404)]))
    assert status(outcome) == 500
    assert asked_at == [0]


async def test_slows_down_when_little_is_left_and_keeps_the_order() -> None:
    clock = FakeClock()
    server = Server(clock, [said(200, ratelimit='"a";r=10;t=30', ratelimit_policy='"a";q=100;w=60')])
    transport = PacingTransport(httpx.MockTransport(server), clock=clock.clock())
    async with httpx.AsyncClient(transport=transport) as client:
        for _ in range(4):
            await client.get("http://api/")
    assert server.asked_at == [0, 3, 6, 9]
    assert transport.state("api") is not None
    assert transport.state("elsewhere") is None


async def test_other_hosts_are_not_held_up() -> None:
    clock = FakeClock()
    server = Server(clock, [said(200, ratelimit='"a";r=0;t=20')])
    transport = PacingTransport(httpx.MockTransport(server), clock=clock.clock())
    async with httpx.AsyncClient(transport=transport) as client:
        await client.get("http://api/")
        await client.get("http://other/")
        await client.get("http://api/")
    assert server.asked_at == [0, 0, 20]


async def test_a_wait_beyond_the_deadline_sends_nothing() -> None:
    clock = FakeClock()
    server = Server(clock, [said(200, ratelimit='"a";r=0;t=60')])
    transport = PacingTransport(httpx.MockTransport(server), clock=clock.clock())
    async with httpx.AsyncClient(transport=transport) as client:
        await client.get("http://api/")
        with pytest.raises(PacingTimeout, match="deadline"):
            await client.get("http://api/")
    assert server.asked_at == [0]


def told(learned: Learned, *, in_flight: int = 0) -> HostState:
    """A lane whose first response came at second 0, while so many others were in flight."""
    lane = HostState()
    first = lane.start(0.0)
    for _ in range(in_flight):
        lane.start(0.0)
    lane.respond(first, learned, denied=False, now_s=0.0)
    return lane


def starts(lane: HostState, count: int, now_s: float = 0.0) -> list[float]:
    """When each of so many that wait is started; nobody answers."""
    started = []
    for _ in range(count):
        now_s = lane.ready_at_s(now_s)
        lane.start(now_s)
        started.append(now_s)
    return started


@pytest.mark.parametrize(
    ("learned", "expected"),
    [
        (Learned(limit=100, remaining=50, reset_after_s=30), [0, 0, 0]),
        (Learned(limit=100, remaining=10, reset_after_s=30), [3, 6, 9]),
        (Learned(limit=100, remaining=2, reset_after_s=5), [0, 0, 5]),
        (Learned(limit=60, remaining=0, reset_after_s=30), [30, 31, 32]),
        (Learned(retry_after_s=7), [7, 8, 9]),
    ],
)
def test_no_more_start_than_are_left(learned: Learned, expected: list[float]) -> None:
    assert starts(told(learned), 3) == pytest.approx(expected)


def test_one_goes_ahead_where_nothing_is_known_and_the_others_wait_for_its_response() -> None:
    lane = HostState()
    first = lane.start(0.0)
    assert lane.ready_at_s(0.1) == 1.0
    lane.respond(first, Learned(), denied=False, now_s=0.2)
    assert starts(lane, 5, now_s=0.2) == [0.2] * 5


def test_a_request_without_a_response_does_not_block_others() -> None:
    lane = HostState()
    lane.fail(lane.start(0.0), 0.3)
    assert lane.ready_at_s(0.3) == 0.3


def test_what_is_in_flight_is_taken_off_what_is_left() -> None:
    lane = told(Learned(limit=10, remaining=5, reset_after_s=5), in_flight=3)
    assert starts(lane, 3) == [0, 0, 5]


def test_long_requests_that_the_server_has_counted_are_not_counted_twice() -> None:
    lane = HostState()
    for _ in range(9):
        lane.start(0.0)
    late = lane.start(60.0)
    lane.respond(late, Learned(limit=10, remaining=5, reset_after_s=5), denied=False, now_s=60.1)
    assert starts(lane, 5, now_s=60.1) == [60.1] * 5


def test_outdated_knowledge_does_not_block_requests() -> None:
    lane = told(Learned(limit=100, remaining=1, reset_after_s=30))
    assert lane.ready_at_s(31.0) == 31.0


@pytest.mark.parametrize(
    "first", [Learned(retry_after_s=60), Learned(limit=10, remaining=0, reset_after_s=60)]
)
@pytest.mark.parametrize(
    "late",
    [
        Learned(),
        Learned(retry_after_s=1),
        Learned(limit=10, remaining=0, reset_after_s=1),
        Learned(limit=10, remaining=9, reset_after_s=60),
        Learned(limit=10, remaining=1, reset_after_s=10),
    ],
)
def test_no_response_shortens_the_wait_that_another_requested(first: Learned, late: Learned) -> None:
    lane = HostState()
    requests = [lane.start(0.0), lane.start(0.0)]
    lane.respond(requests[0], first, denied=False, now_s=0.0)
    lane.respond(requests[1], late, denied=False, now_s=5.0)
    assert lane.ready_at_s(6.0) == 60.0


async def test_a_request_waits_again_if_nothing_is_left_meanwhile() -> None:
    loop = VirtualLoop()
    asked_at: list[float] = []

    async def handle(request: httpx.Request) -> httpx.Response:
        asked_at.append(loop.time())
        await asyncio.sleep(float(request.url.path[1:]))
        return said(200, retry_after="10") if len(asked_at) == 2 else said(200, ratelimit='"a";r=1;t=5')

    async def client() -> None:
        transport = PacingTransport(httpx.MockTransport(handle), clock=loop.clock())
        async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
            await client.get("http://api/0")
            await asyncio.gather(*(client.get(f"http://api/{path}") for path in ("4", "0")))

    await asyncio.to_thread(run, loop, client())
    assert asked_at == [0, 0, 14]


def test_one_client_may_be_used_in_several_event_loops() -> None:
    """Each time somebody waits in line."""
    server = LimitedServer("fixed_window", 1_000, 3_600, 0, "structured")

    async def handle(_request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0.001)
        code, headers = server.ask(0.0)
        return httpx.Response(code, headers=headers)

    client = httpx.AsyncClient(transport=PacingTransport(httpx.MockTransport(handle)), trust_env=False)

    async def ask() -> list[httpx.Response]:
        return await asyncio.gather(*(client.get("http://api/") for _ in range(5)))

    for _ in range(2):
        assert [answer.status_code for answer in asyncio.run(ask())] == [200] * 5


async def test_a_cancelled_request_in_the_queue_does_not_block_others() -> None:
    loop = VirtualLoop()
    asked_at: list[float] = []

    async def handle(_request: httpx.Request) -> httpx.Response:
        asked_at.append(loop.time())
        return said(200, ratelimit='"a";r=0;t=5')

    async def client() -> None:
        transport = PacingTransport(httpx.MockTransport(handle), clock=loop.clock())
        async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
            await client.get("http://api/")
            waiting = [asyncio.ensure_future(client.get("http://api/")) for _ in range(3)]
            await asyncio.sleep(1)
            waiting[0].cancel()  # the first in line
            waiting[1].cancel()  # and one behind it
            assert (await waiting[2]).status_code == 200
            assert waiting[0].cancelled()
            assert waiting[1].cancelled()

    await asyncio.to_thread(run, loop, client())
    assert asked_at == [0, 5]


def test_threads_are_paced_together() -> None:
    server = LimitedServer("fixed_window", 1_000, 3_600, 0, "structured")

    def handle(_request: httpx.Request) -> httpx.Response:
        code, headers = server.ask(time.monotonic())
        return httpx.Response(code, headers=headers)

    transport = SyncPacingTransport(httpx.MockTransport(handle))
    with httpx.Client(transport=transport, trust_env=False) as client:
        with ThreadPoolExecutor(10) as threads:
            answers = list(threads.map(lambda _: client.get("http://api/"), range(50)))
    assert [answer.status_code for answer in answers] == [200] * 50
    learned = transport.state("api")
    assert learned is not None
    assert learned.limit == 1_000


async def test_github_denies_with_403() -> None:
    clock = FakeClock()
    reset = str(int(clock.clock().wall()) + 20)
    denial = httpx.Response(403, headers={"x-ratelimit-remaining": "0", "x-ratelimit-reset": reset})
    outcome, asked_at = await ask(clock, Server(clock, [denial]), "POST", content=b"x")
    assert status(outcome) == 200
    assert asked_at == [0, 22]
    clock = FakeClock()
    outcome, asked_at = await ask(clock, Server(clock, [said(403, x_ratelimit_remaining="5")]))
    assert status(outcome) == 403
    assert asked_at == [0]


async def test_a_denial_that_lasts_beyond_the_deadline_is_returned() -> None:
    clock = FakeClock()
    denial = said(429, ratelimit='"a";r=0;t=60', ratelimit_policy='"a";q=10;w=60')
    outcome, asked_at = await ask(clock, Server(clock, [denial]))
    assert status(outcome) == 429
    assert asked_at == [0]


async def test_the_key_may_be_another_than_the_host() -> None:
    clock = FakeClock()
    server = Server(clock, [said(200, ratelimit='"a";r=0;t=20')])
    transport = PacingTransport(
        httpx.MockTransport(server), clock=clock.clock(), key=lambda request: request.headers["x-tenant"]
    )
    async with httpx.AsyncClient(transport=transport) as client:
        await client.get("http://api/", headers={"x-tenant": "a"})
        await client.get("http://api/", headers={"x-tenant": "b"})
        assert server.asked_at == [0, 0]
        assert transport.state("a") is not None


async def test_it_paces_over_real_connections() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        replies = [b"429 Too Many Requests\r\nretry-after: 0\r\n", b"200 OK\r\n"]
        for reply in replies:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 " + reply + b"content-length: 2\r\n\r\nok")
        await writer.drain()
        await reader.read()
        writer.close()
        await writer.wait_closed()
        closed.set()

    closed = asyncio.Event()
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    clock = FakeClock()
    async with (
        server,
        httpx.AsyncClient(transport=PacingTransport(clock=clock.clock()), trust_env=False) as client,
    ):
        answer = await client.get(f"http://127.0.0.1:{port}/")
    await asyncio.wait_for(closed.wait(), 30)
    assert (answer.status_code, answer.text) == (200, "ok")
    assert clock.slept == [pytest.approx(0.1)]
