"""Connections from an event loop to the service.

This uses neither httpx nor httpcore: on asyncio each of them costs several times what the request itself
does, mostly for features that are not needed here. h11, which both are built on, parses the protocol.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import replace
from typing import TYPE_CHECKING

from .connection import Connection, StaleConnection
from .refund import PATH as REFUND_PATH
from .response import CallFailed, ServiceResponse

if TYPE_CHECKING:
    from .target import Target

MAX_CONNECTIONS = 20
# The service closes a connection that was idle for 75 s. Closing earlier avoids a request on a closed one.
KEEP_ALIVE_S = 30.0


class ConnectionPool:
    """Keep-alive connections of one event loop."""

    def __init__(self, target: Target, context: ssl.SSLContext | None) -> None:
        self._target = target
        self._context = context
        self._idle: list[tuple[Connection, float]] = []
        self._open: set[Connection] = set()
        self._slots = asyncio.Semaphore(MAX_CONNECTIONS)
        self._loop = asyncio.get_running_loop()

    async def post(self, path: str, body: bytes) -> ServiceResponse:
        """Sends a request and returns the response; raises `CallFailed` if there is none.

        It has no timeout of its own: the caller cancels it.
        """
        async with self._slots:
            idle = self._take_idle()
            if idle is not None:
                try:
                    return await self._post(idle, path, body)
                except StaleConnection as stale:  # the service closed it while the request was on its way
                    # Any other request that arrives twice charges too much at worst. A refund that arrives
                    # twice would give back units that were never charged.
                    if stale.sent and path == REFUND_PATH:
                        raise
                    return replace(await self._post(await self._connect(), path, body), was_resent=True)
            return await self._post(await self._connect(), path, body)

    async def _post(self, connection: Connection, path: str, body: bytes) -> ServiceResponse:
        try:
            return await connection.post(self._target, path, body)
        finally:
            if connection.is_usable:
                self._idle.append((connection, self._loop.time()))
            else:
                connection.abort()
                self._open.discard(connection)

    def _take_idle(self) -> Connection | None:
        """Returns the idle connection that was used last, if any; closes those that were idle for long."""
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
            raise CallFailed(f"cannot connect: {error}", sent=False) from error
        self._open.add(connection)
        return connection

    async def aclose(self) -> None:
        """Closes the connections."""
        self._idle.clear()
        for connection in self._open:
            connection.abort()
        self._open.clear()
        await asyncio.sleep(0)  # the loop closes sockets in its next iteration
