"""HTTP from an event loop to the service, over kept connections.

Neither httpx nor httpcore: on asyncio either costs several times what the request itself does, most of it for
things that are not needed here. h11, on which both stand, reads and writes the protocol.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import replace
from typing import TYPE_CHECKING

from .answer import Answer, Unanswered
from .connection import Connection, Stale
from .refund import PATH as REFUND_PATH

if TYPE_CHECKING:
    from .target import Target

MAX_CONNECTIONS = 20
# The service closes a connection that was idle for 75 s; it must not do so while a request is on its way.
KEEP_ALIVE_S = 30.0


class AsyncWire:
    """Connections of one event loop."""

    def __init__(self, target: Target, context: ssl.SSLContext | None) -> None:
        self._target = target
        self._context = context
        self._idle: list[tuple[Connection, float]] = []
        self._open: set[Connection] = set()
        self._places = asyncio.Semaphore(MAX_CONNECTIONS)
        self._loop = asyncio.get_running_loop()

    async def post(self, path: str, body: bytes) -> Answer:
        """Sends a request and reads the answer; raises `Unanswered` if there is none.

        It has no time-out of its own: whoever calls it cancels it.
        """
        async with self._places:
            kept = self._kept()
            if kept is not None:
                try:
                    return await self._post(kept, path, body)
                except Stale as stale:  # the service closed it while the request was on its way
                    # Sent twice, anything else takes too much at worst; a refund would give away what nobody
                    # had taken.
                    if stale.sent and path == REFUND_PATH:
                        raise
                    return replace(await self._post(await self._connect(), path, body), is_second=True)
            return await self._post(await self._connect(), path, body)

    async def _post(self, connection: Connection, path: str, body: bytes) -> Answer:
        try:
            return await connection.post(self._target, path, body)
        finally:
            if connection.is_usable:
                self._idle.append((connection, self._loop.time()))
            else:
                connection.abort()
                self._open.discard(connection)

    def _kept(self) -> Connection | None:
        """The connection that was used last, if there is one; those that idled for long are closed."""
        fresh_since = self._loop.time() - KEEP_ALIVE_S
        while self._idle and (self._idle[0][1] < fresh_since or not self._idle[0][0].is_usable):
            connection, _ = self._idle.pop(0)
            connection.abort()
            self._open.discard(connection)
        while self._idle:
            connection, _ = self._idle.pop()
            if connection.is_usable:
                return connection
            self._open.discard(connection)
        return None

    async def _connect(self) -> Connection:
        if self._context is None and self._target.is_tls:
            self._context = ssl.create_default_context()
        context = self._context if self._target.is_tls else None
        try:
            connection = await Connection.open(self._target, context)
        except OSError as error:
            raise Unanswered(f"cannot connect: {error}", sent=False) from error
        self._open.add(connection)
        return connection

    async def aclose(self) -> None:
        """Closes the connections."""
        self._idle.clear()
        for connection in self._open:
            connection.abort()
        self._open.clear()
        await asyncio.sleep(0)  # the loop closes sockets in its next round
