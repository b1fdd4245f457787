"""A small HTTP server whose responses a test chooses."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Reply:
    """A response; ``raw`` is sent in place of everything else."""

    status: int = 200
    body: str = "{}"
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = "application/json"
    raw: bytes | None = None


@dataclass(frozen=True)
class Received:
    """A request that came."""

    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Stub:
    """A running server: the requests it received, and how it responds."""

    answer: Callable[[Received], Reply]
    url: str = ""
    received: list[Received] = field(default_factory=list)

    def bodies(self, path: str) -> list[Any]:
        """Bodies that came to a path."""
        return [one.body for one in self.received if one.path == path]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores clients that have gone away."""


@contextmanager
def serve(answer: Callable[[Received], Reply]) -> Iterator[Stub]:
    """A server on a free port."""
    stub = Stub(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            received = Received(self.path, headers, json.loads(content))
            stub.received.append(received)
            self._reply(stub.answer(received))

        def _reply(self, reply: Reply) -> None:
            if reply.raw is not None:
                self.wfile.write(reply.raw)
                self.close_connection = True
                return
            content = reply.body.encode()
            self.send_response_only(reply.status)  # without a date, which is the test's to tell
            if reply.status != 204:
                self.send_header("content-type", reply.content_type)
                self.send_header("content-length", str(len(content)))
            for name, value in reply.headers:
                self.send_header(name, value)
            self.end_headers()
            if reply.status != 204:
                self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Logs nothing."""

    server = _Server(("127.0.0.1", 0), Handler)
    stub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def decided(received: Received, each: Callable[[Any], Reply]) -> Reply:
    """Returns the response to a check or to a batch of them; ``each`` returns the one to a single check."""
    if not isinstance(received.body, list):
        return each(received.body)
    parts = []
    for one in received.body:
        reply = each(one)
        headers = json.dumps(dict(reply.headers), separators=(",", ":"))
        parts.append(f'{{"status":{reply.status},"headers":{headers},"body":{reply.body}}}')
    return Reply(body="[" + ",".join(parts) + "]")


ALLOWED = Reply(body='{"allowed":true,"decided_by":null,"source":"memory","limits":[]}')


def denied(retry_after: int = 7) -> Reply:
    """A denial in the service's shape, as short as can be."""
    return Reply(
        status=429,
        content_type="application/problem+json",
        headers=(("retry-after", str(retry_after)), ("ratelimit", '"inline:minute";r=0;t=7')),
        body='{"type":"x","title":"Quota Exceeded","status":429,"detail":"too much","allowed":false,'
        '"decided_by":{"rule":"inline","name":"minute"},"source":"memory","limits":[]}',
    )
