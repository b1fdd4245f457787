"""Laws of clients that pace themselves. Nobody sleeps here but a fake clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from support.clock import FakeClock
from tidegate.pacing import Learned, Pacer, PacingTimeout, PacingTransport, SyncPacingTransport

pytestmark = pytest.mark.anyio

Answers = list[httpx.Response | Exception]


class Server:
    """Answers in turn, and notes when it was asked."""

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


async def test_backs_off_where_nobody_says_how_long() -> None:
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


async def test_other_answers_are_final() -> None:
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


def starts(pacer: Pacer, count: int, now_s: float = 0.0) -> list[float | None]:
    return [pacer.start_at_s("api", now_s, 1_000) for _ in range(count)]


@pytest.mark.parametrize(
    ("learned", "expected"),
    [
        (Learned(limit=100, remaining=50, reset_after_s=30), [0, 0, 0]),
        (Learned(limit=100, remaining=10, reset_after_s=30), [3, 6, 9]),
        (Learned(limit=60, remaining=0, reset_after_s=30), [30, 30.5, 31]),
        (Learned(retry_after_s=7), [7, 7.1, 7.2]),
    ],
)
def test_those_who_wait_are_spread_and_not_released_at_once(learned: Learned, expected: list[float]) -> None:
    pacer = Pacer()
    pacer.learn("api", learned, 0.0)
    assert starts(pacer, 3) == pytest.approx(expected)


def test_what_was_learnt_long_ago_holds_nobody_up() -> None:
    pacer = Pacer()
    pacer.learn("api", Learned(limit=100, remaining=1, reset_after_s=30), 0.0)
    assert starts(pacer, 3, now_s=31.0) == [31.0, 31.0, 31.0]


def test_an_answer_to_an_older_request_does_not_shorten_a_wait() -> None:
    pacer = Pacer()
    pacer.learn("api", Learned(retry_after_s=10), 0.0)
    pacer.learn("api", Learned(limit=100, remaining=90, reset_after_s=30), 4.0)
    assert starts(pacer, 1, now_s=4.0) == [10.0]


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
def test_no_answer_shortens_the_wait_that_another_asked_for(first: Learned, late: Learned) -> None:
    pacer = Pacer()
    pacer.learn("a", first, 0)
    pacer.learn("a", late, 5)
    assert pacer.is_held_back("a", 59.9)
    first_s, second_s = (pacer.start_at_s("a", 6, latest_s=1000) for _ in range(2))
    assert first_s == 60
    assert second_s is not None
    assert second_s > 60
    assert not pacer.is_held_back("a", 60)


async def test_who_waited_waits_again_if_meanwhile_nothing_passes() -> None:
    clock = FakeClock()
    pacer_said: list[Callable[[], None]] = []

    class Clock(FakeClock):
        async def sleep(self, seconds: float) -> None:
            await super().sleep(seconds)
            if pacer_said:
                pacer_said.pop()()

    clock = Clock()
    server = Server(clock, [said(200, ratelimit='"a";r=0;t=5')])
    transport = PacingTransport(httpx.MockTransport(server), clock=clock.clock())
    async with httpx.AsyncClient(transport=transport) as client:
        await client.get("http://api/")
        pacer_said.append(lambda: transport._pacer.learn("api", Learned(retry_after_s=10), clock.now_s))
        await client.get("http://api/")
    assert server.asked_at == [0, 15]


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
