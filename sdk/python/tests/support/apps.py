"""Small apps, and a way to ask them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn

from tidegate.asgi import ASGIApp, Receive, Send
from tidegate.request import Scope


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    """Says hello to everybody."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"hello"})


def web(app: ASGIApp, peer: str = "203.0.113.7") -> httpx.AsyncClient:
    """A client of an app, from an address."""
    transport = httpx.ASGITransport(app=app, client=(peer, 4711))
    return httpx.AsyncClient(transport=transport, base_url="http://app")


@contextmanager
def under_uvicorn(app: Any) -> Iterator[str]:
    """The app in a real server, on a free port."""
    started = threading.Event()
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", proxy_headers=False)

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            started.set()

    server = Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    try:
        assert started.wait(30), "uvicorn did not start"
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
