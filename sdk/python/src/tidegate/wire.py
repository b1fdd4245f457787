"""HTTP to the service: kept connections, JSON out, answers in.

This is httpcore, the layer under httpx, because a decision should cost well under a millisecond and httpx's
own client (redirects, cookies, proxies, authentication) costs several times the request itself.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpcore

from .answer import Answer, Unanswered

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_CONNECTIONS = 20
# The service closes a connection that was idle for 75 s; it must not do so while a request is on its way.
_KEEP_ALIVE_S = 30.0

FAILURES = (
    httpcore.NetworkError,
    httpcore.TimeoutException,
    httpcore.ProtocolError,
    httpcore.ConnectionNotAvailable,
    OSError,
)
"""What says that nobody is there, or nobody who speaks HTTP."""


class Target:
    """Where requests go, and what is the same in all of them."""

    def __init__(self, url: str, token: str | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url must be like http://localhost:8080, got {url!r}")
        self._base = url.rstrip("/")
        host = parts.netloc.rpartition("@")[2]
        self._headers = [
            (b"host", host.encode("ascii")),
            (b"content-type", b"application/json"),
            (b"accept", b"application/json"),
            (b"user-agent", b"tidegate-python"),
        ]
        if token:
            self._headers.append((b"authorization", f"Bearer {token}".encode("ascii")))
        self._urls: dict[str, httpcore.URL] = {}

    def request(self, path: str, body: bytes) -> httpcore.Request:
        """A request to one of the service's paths."""
        url = self._urls.get(path)
        if url is None:
            url = self._urls[path] = httpcore.URL(self._base + path)
        headers = [*self._headers, (b"content-length", str(len(body)).encode("ascii"))]
        return httpcore.Request("POST", url, headers=headers, content=body)


class AsyncWire:
    """Connections of one event loop."""

    def __init__(self, target: Target, context: ssl.SSLContext | None) -> None:
        self._target = target
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=context,
            max_connections=_MAX_CONNECTIONS,
            max_keepalive_connections=_MAX_CONNECTIONS,
            keepalive_expiry=_KEEP_ALIVE_S,
        )

    async def post(self, path: str, body: bytes) -> Answer:
        """Sends a request and reads the answer; raises `Unanswered` if there is none.

        It has no time-out of its own: whoever calls it cancels it.
        """
        try:
            response = await self._pool.handle_async_request(self._target.request(path, body))
            try:
                content = await response.aread()
            finally:
                await response.aclose()
        except FAILURES as error:
            raise Unanswered(_why(error)) from error
        return answer_of(response.status, response.headers, content)

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._pool.aclose()


def answer_of(status: int, headers: Sequence[tuple[bytes, bytes]], content: bytes) -> Answer:
    """What came, as text."""
    pairs = tuple((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers)
    try:
        return Answer(status, pairs, content.decode())
    except UnicodeDecodeError as error:
        raise Unanswered(f"the answer (status {status}) is no text") from error


def _why(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
