"""One keep-alive HTTP/1.1 connection of an event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import h11

from .response import CallFailed, ServiceResponse, parse_response

if TYPE_CHECKING:
    import ssl

    from .target import Target

# Each limit has an item in two headers, and a response may report dozens of limits.
_MAX_HEAD_BYTES = 64 * 1024


class StaleConnection(CallFailed):
    """The connection ended before any byte of the response: most likely the service had closed it before."""


class Connection(asyncio.Protocol):
    """Sends one request at a time. h11 parses the protocol; this class handles the socket."""

    def __init__(self) -> None:
        self._parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[ServiceResponse] | None = None
        self._head: h11.Response | None = None
        self._chunks: list[bytes] = []
        self._has_received = False

    @classmethod
    async def open(cls, target: Target, context: ssl.SSLContext | None) -> Connection:
        """Opens a connection; raises `OSError`."""
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_connection(cls, target.host, target.port, ssl=context)
        return protocol

    @property
    def is_usable(self) -> bool:
        """Whether another request can be sent."""
        return self._transport is not None and self._parser.our_state is h11.IDLE

    async def post(self, target: Target, path: str, body: bytes) -> ServiceResponse:
        """Sends a request and returns the response; raises `CallFailed`."""
        if self._transport is None:
            raise StaleConnection("the connection was closed", sent=False)
        self._has_received = False
        self._waiting = asyncio.get_running_loop().create_future()
        parser = self._parser
        head = parser.send(target.head(path, len(body))) or b""
        content = parser.send(h11.Data(data=body)) or b""
        parser.send(h11.EndOfMessage())
        self._transport.write(head + content)
        try:
            return await self._waiting
        except asyncio.CancelledError:
            self.abort()  # the response may still come, and must not be taken for that of another request
            raise

    def abort(self) -> None:
        """Closes the connection at once."""
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Stores the transport, once connected."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Parses what was received."""
        self._has_received = True
        try:
            self._parser.receive_data(data)
            self._read()
        except h11.RemoteProtocolError as error:
            self._fail(f"the response is not valid HTTP: {error}")

    def connection_lost(self, error: Exception | None) -> None:
        """Fails the request that waits, if there is one."""
        self._transport = None
        if self._waiting is None or self._waiting.done():
            return
        try:
            self._parser.receive_data(b"")  # a response without a length ends with the connection
            self._read()
        except h11.RemoteProtocolError:
            pass
        kind = CallFailed if self._has_received else StaleConnection
        self._fail(
            f"the connection was closed before the response was complete ({error or 'end of file'})", kind
        )

    def _read(self) -> None:
        while True:
            event = self._parser.next_event()
            if isinstance(event, h11.Response):
                self._head = event
            elif isinstance(event, h11.Data):
                self._chunks.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                self._finish()
                return
            elif not isinstance(event, h11.InformationalResponse):  # needs more data, or the connection ended
                return

    def _finish(self) -> None:
        head, content = self._head, b"".join(self._chunks)
        self._head, self._chunks = None, []
        if self._parser.our_state is h11.DONE and self._parser.their_state is h11.DONE:
            self._parser.start_next_cycle()
        else:
            self.abort()
        if head is None or self._waiting is None or self._waiting.done():
            return
        try:
            self._waiting.set_result(parse_response(head.status_code, head.headers, content))
        except CallFailed as failure:
            self._fail(str(failure))

    def _fail(self, why: str, kind: type[CallFailed] = CallFailed) -> None:
        self.abort()
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(kind(why))
