"""Connections from threads to the service.

A thread that waits cannot be cancelled, so every wait on the network ends at the deadline of the request.
httpcore, the layer under httpx, lets the network be replaced by one that knows the deadline.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

import httpcore

from .pool import KEEP_ALIVE_S, MAX_CONNECTIONS
from .response import CallFailed, ServiceResponse, parse_response

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable

    from .settings import Settings

_FAILURES = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError)
"""Errors that mean that there is no service, or that it does not speak HTTP."""
_BEFORE_SENDING = (httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.PoolTimeout)


class SyncConnectionPool:
    """Keep-alive connections that threads share."""

    def __init__(self, settings: Settings) -> None:
        self._target = settings.target
        self._deadline = _Deadline(settings.clock.monotonic)
        self._streams: weakref.WeakSet[_Stream] = weakref.WeakSet()
        self._pool = httpcore.ConnectionPool(
            ssl_context=settings.context,
            max_connections=5 * MAX_CONNECTIONS,
            max_keepalive_connections=MAX_CONNECTIONS,
            keepalive_expiry=KEEP_ALIVE_S,
            network_backend=_Backend(httpcore.SyncBackend(), self._deadline, self._streams),
        )

    def post(self, path: str, body: bytes, timeout_s: float) -> ServiceResponse:
        """Sends a request and returns the response within ``timeout_s``; raises `CallFailed` if it cannot."""
        request = httpcore.Request(
            "POST",
            self._target.url + path,
            headers=self._target.headers_for(len(body)),
            content=body,
            extensions={"timeout": {"pool": timeout_s}},
        )
        self._deadline.start(timeout_s)
        try:
            response = self._pool.handle_request(request)
            try:
                content = response.read()
            finally:
                response.close()
        except _FAILURES as error:
            unsent = isinstance(error, _BEFORE_SENDING)
            raise CallFailed(f"{type(error).__name__}: {error}", sent=not unsent) from error
        return parse_response(response.status, response.headers, content)

    def close(self) -> None:
        """Closes the connections."""
        self._pool.close()

    def leave_to_parent(self) -> None:
        """Closes the sockets that a child process has from its parent; the parent's connections stay open.

        The pool itself is not used, because a thread that exists only in the parent may hold its lock.
        """
        for stream in list(self._streams):
            stream.close()


class _Deadline(threading.local):
    """The deadline of the request that this thread waits for."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._at = 0.0

    def start(self, timeout_s: float) -> None:
        self._at = self._now() + timeout_s

    def left(self, too_late: type[httpcore.TimeoutException]) -> float:
        left = self._at - self._now()
        if left <= 0:
            raise too_late("the deadline has passed")
        return left


class _Backend(httpcore.NetworkBackend):
    """A network whose waits end at the deadline."""

    def __init__(
        self, inner: httpcore.NetworkBackend, deadline: _Deadline, streams: weakref.WeakSet[_Stream]
    ) -> None:
        self._inner = inner
        self._deadline = deadline
        self._streams = streams

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        left = self._deadline.left(httpcore.ConnectTimeout)
        stream = self._inner.connect_tcp(host, port, left, local_address, socket_options)
        return _Stream(stream, self._deadline, self._streams)


class _Stream(httpcore.NetworkStream):
    """A connection whose waits end at the deadline."""

    def __init__(
        self, inner: httpcore.NetworkStream, deadline: _Deadline, streams: weakref.WeakSet[_Stream]
    ) -> None:
        self._inner = inner
        self._deadline = deadline
        self._streams = streams
        streams.add(self)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._deadline.left(httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, self._deadline.left(httpcore.WriteTimeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        left = self._deadline.left(httpcore.ConnectTimeout)
        secure = self._inner.start_tls(ssl_context, server_hostname, left)
        return _Stream(secure, self._deadline, self._streams)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
