"""The connections of an event loop, against servers that answer in every way HTTP allows."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tidegate import Tidegate
from tidegate.pool import MAX_CONNECTIONS, ConnectionPool
from tidegate.response import CallFailed, ServiceResponse
from tidegate.target import Target

pytestmark = pytest.mark.anyio

PATIENCE_S = 30.0
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nX-Name: a\r\n\r\n{}"

Handle = Callable[["Peer"], Awaitable[None]]


class Peer:
    """The other end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> tuple[bytes, bytes]:
        """The head and the body of a request."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        return head, await self._reader.readexactly(length)

    async def write(self, answer: bytes) -> None:
        self._writer.write(answer)
        await self._writer.drain()


class Server:
    """Counts the connections that it is asked over."""

    def __init__(self) -> None:
        self.url = ""
        self.connections = 0
        self.most_at_once = 0
        self._at_once = 0

    @asynccontextmanager
    async def serve(
        self, handle: Handle, context: ssl.SSLContext | None = None
    ) -> AsyncIterator[ConnectionPool]:
        closed = asyncio.Semaphore(0)

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.connections += 1
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            try:
                await handle(Peer(reader, writer))
            except (asyncio.IncompleteReadError, ConnectionError):
                pass  # the client has left
            finally:
                self._at_once -= 1
                writer.close()
                closed.release()

        server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
        scheme = "http" if context is None else "https"
        self.url = f"{scheme}://localhost:{server.sockets[0].getsockname()[1]}"
        trusted = None if context is None else ssl.create_default_context()
        wire = ConnectionPool(Target(self.url, None), trusted)
        async with server:
            yield wire
            await wire.aclose()
            for _ in range(self.connections):
                await asyncio.wait_for(closed.acquire(), PATIENCE_S)


async def post(wire: ConnectionPool) -> ServiceResponse:
    return await asyncio.wait_for(wire.post("/v1/check", b"{}"), PATIENCE_S)


async def forever(peer: Peer) -> None:
    while True:
        await peer.read()
        await peer.write(OK)


async def test_what_goes_over_the_wire() -> None:
    heads = []

    async def handle(peer: Peer) -> None:
        heads.append(await peer.read())
        await peer.write(OK)

    server = Server()
    async with server.serve(handle) as wire:
        answer = await post(wire)
    assert answer == ServiceResponse(200, (("content-length", "2"), ("x-name", "a")), "{}")
    head, body = heads[0]
    assert head.startswith(b"POST /v1/check HTTP/1.1\r\nhost: localhost:")
    assert b"\r\ncontent-type: application/json\r\n" in head
    assert body == b"{}"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n\r\n{}",
        b"HTTP/1.0 200 OK\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\n",
    ],
)
async def test_every_form_of_a_response_and_another_after_it(answer: bytes) -> None:
    async def handle(peer: Peer) -> None:
        await peer.read()
        await peer.write(answer)

    async with Server().serve(handle) as wire:
        for _ in range(2):
            assert (await post(wire)).body == "{}"


async def test_a_connection_is_used_again() -> None:
    server = Server()
    async with server.serve(forever) as wire:
        for _ in range(5):
            await post(wire)
    assert server.connections == 1


async def test_a_connection_that_was_closed_meanwhile_is_replaced() -> None:
    async def once(peer: Peer) -> None:
        await peer.read()
        await peer.write(OK)

    server = Server()
    async with server.serve(once) as wire:
        for _ in range(3):
            await post(wire)
            while wire._idle and wire._idle[0][0].is_usable:
                await asyncio.sleep(0.001)  # until the end of the connection has come
    assert server.connections == 3


async def test_a_connection_that_is_closed_while_a_request_is_on_its_way_is_replaced_once() -> None:
    async def once(peer: Peer) -> None:
        await peer.read()
        await peer.write(OK)
        await peer.read()  # and closes

    server = Server()
    async with server.serve(once) as wire:
        for _ in range(3):
            assert (await post(wire)).body == "{}"
    assert server.connections == 3


async def test_a_refund_is_sent_once_even_if_the_connection_ends_before_the_response() -> None:
    heads = []

    async def once(peer: Peer) -> None:
        heads.append(await peer.read())
        await peer.write(OK)
        heads.append(await peer.read())  # and closes

    server = Server()
    async with server.serve(once) as wire:
        await post(wire)
        with pytest.raises(CallFailed) as lost:
            await asyncio.wait_for(wire.post("/v1/refund", b"{}"), PATIENCE_S)
    assert lost.value.sent
    assert [head.split()[1] for head, _ in heads] == [b"/v1/check", b"/v1/refund"]
    assert server.connections == 1


async def test_a_connection_that_idled_for_long_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    async with server.serve(forever) as wire:
        await post(wire)
        monkeypatch.setattr("tidegate.pool.KEEP_ALIVE_S", -1.0)
        await post(wire)
    assert server.connections == 2


async def test_there_are_never_too_many_connections() -> None:
    server = Server()
    async with server.serve(forever) as wire:
        await asyncio.gather(*(post(wire) for _ in range(5 * MAX_CONNECTIONS)))
    assert server.most_at_once <= MAX_CONNECTIONS


async def test_a_cancelled_request_leaves_no_response_for_the_next() -> None:
    asked = asyncio.Event()

    async def handle(peer: Peer) -> None:
        await peer.read()
        asked.set()
        await peer.read()

    server = Server()
    async with server.serve(handle) as wire:
        task = asyncio.create_task(wire.post("/v1/check", b"{}"))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not wire._idle
        assert not wire._open


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\x00\x01\x02\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n\xff\xff",
    ],
)
async def test_an_invalid_response_is_an_error_that_says_why(answer: bytes) -> None:
    async def handle(peer: Peer) -> None:
        await peer.read()
        await peer.write(answer)

    async with Server().serve(handle) as wire:
        with pytest.raises(CallFailed):
            await post(wire)
        assert not wire._open


async def test_over_tls_with_an_authority_of_ones_own(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    named = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(
        ["openssl", "req", "-x509", *made, *named, "-keyout", key, "-out", certificate],  # noqa: S607
        check=True,
        capture_output=True,
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)

    async def allow(peer: Peer) -> None:
        body = b'{"allowed":true,"source":"memory","limits":[]}'
        while True:
            await peer.read()
            await peer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)

    server = Server()
    async with server.serve(allow, context):
        trusting = ssl.create_default_context(cafile=str(certificate))
        async with Tidegate(server.url, ssl_context=trusting, deadline=PATIENCE_S) as client:
            assert (await client.check({"user": "ann"})).source == "memory"
        async with Tidegate(server.url, deadline=PATIENCE_S, fallback="deny") as client:
            assert (await client.check({"user": "ann"})).source == "deny"
