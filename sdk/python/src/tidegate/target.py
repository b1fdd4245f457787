"""The address of the service, and the headers of every request to it."""

from __future__ import annotations

from urllib.parse import urlsplit

import h11


class Target:
    """The service's address, and the headers of every request."""

    def __init__(self, url: str, token: str | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url must be like http://localhost:8080, got {url!r}")
        self.url = url.rstrip("/")
        self.host = parts.hostname
        self.is_tls = parts.scheme == "https"
        self.port = parts.port or (443 if self.is_tls else 80)
        self._prefix = parts.path.rstrip("/")
        self.headers = [
            (b"host", parts.netloc.rpartition("@")[2].encode("ascii")),
            (b"content-type", b"application/json"),
            # Even if the operator has set another body for denials, get the problem: it has the numbers.
            (b"accept", b"application/json, application/problem+json"),
            (b"user-agent", b"tidegate-python"),
        ]
        if token:
            self.headers.append((b"authorization", b"Bearer " + _token_bytes(token)))

    def head(self, path: str, length: int) -> h11.Request:
        """Returns the head of a request to a path of the service."""
        return h11.Request(method="POST", target=self._prefix + path, headers=self.headers_for(length))

    def headers_for(self, length: int) -> list[tuple[bytes, bytes]]:
        """Returns the headers of a request with a body of this length."""
        return [*self.headers, (b"content-length", str(length).encode("ascii"))]


def _token_bytes(token: str) -> bytes:
    """Returns the token as bytes. The error does not contain it, because errors end up in logs."""
    if not (token.isascii() and token.isprintable()) or token != token.strip():
        raise ValueError(
            "token must be printable ASCII without spaces or line breaks around it; "
            "if it was read from a file, pass text.strip()"
        )
    return token.encode("ascii")
