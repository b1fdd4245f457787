"""One kept HTTP/1.1 connection of an event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import h11

from .answer import Answer, Unanswered, answer_of

if TYPE_CHECKING:
    import ssl

    from .target import Target

# A limit has one item in each of two headers, and there may be dozens of limits.
_MOST_HEAD_BYTES = 64 * 1024


class Stale(Unanswered):
    """The connection ended before a single byte of the answer came: most likely it had been closed before."""


class Connection(asyncio.Protocol):
    """Carries one request at a time. h11 knows the protocol; this knows the socket."""

    def __init__(self) -> None:
        self._parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_HEAD_BYTES)
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Answer] | None = None
        self._head: h11.Response | None = None
        self._parts: list[bytes] = []
        self._heard = False

    @classmethod
    async def open(cls, target: Target, context: ssl.SSLContext | None) -> Connection:
        """Connects; raises `OSError`."""
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_connection(cls, target.host, target.port, ssl=context)
        return protocol

    @property
    def is_usable(self) -> bool:
        """Whether it can carry another request."""
        return self._transport is not None and self._parser.our_state is h11.IDLE

    async def post(self, target: Target, path: str, body: bytes) -> Answer:
        """Sends a request and waits for the answer; raises `Unanswered`."""
        if self._transport is None:
            raise Stale("the connection was closed", sent=False)
        self._heard = False
        self._waiting = asyncio.get_running_loop().create_future()
        parser = self._parser
        head = parser.send(target.head(path, len(body))) or b""
        content = parser.send(h11.Data(data=body)) or b""
        parser.send(h11.EndOfMessage())
        self._transport.write(head + content)
        try:
            return await self._waiting
        except asyncio.CancelledError:
            self.abort()  # the answer may still come, and must not be taken for that to another request
            raise

    def abort(self) -> None:
        """Closes it at once."""
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Something came."""
        self._heard = True
        try:
            self._parser.receive_data(data)
            self._read()
        except h11.RemoteProtocolError as error:
            self._fail(f"what came is not HTTP: {error}")

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is gone."""
        self._transport = None
        if self._waiting is None or self._waiting.done():
            return
        try:
            self._parser.receive_data(b"")  # an answer without a length ends like this
            self._read()
        except h11.RemoteProtocolError:
            pass
        kind = Unanswered if self._heard else Stale
        self._fail(
            f"the connection was closed before the answer was complete ({error or 'end of file'})", kind
        )

    def _read(self) -> None:
        while True:
            event = self._parser.next_event()
            if isinstance(event, h11.Response):
                self._head = event
            elif isinstance(event, h11.Data):
                self._parts.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                self._finish()
                return
            elif not isinstance(event, h11.InformationalResponse):  # more has to come, or nothing will
                return

    def _finish(self) -> None:
        head, content = self._head, b"".join(self._parts)
        self._head, self._parts = None, []
        if self._parser.our_state is h11.DONE and self._parser.their_state is h11.DONE:
            self._parser.start_next_cycle()
        else:
            self.abort()
        if head is None or self._waiting is None or self._waiting.done():
            return
        try:
            self._waiting.set_result(answer_of(head.status_code, head.headers, content))
        except Unanswered as why:
            self._fail(str(why))

    def _fail(self, why: str, kind: type[Unanswered] = Unanswered) -> None:
        self.abort()
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(kind(why))
