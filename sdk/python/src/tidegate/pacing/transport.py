"""Transports for httpx that wait, retry and learn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx

from ..clock import SYSTEM, Clock
from .learned import Learned, learn
from .pacer import Pacer
from .retry import RetryPolicy, answer_is_worth_retrying, is_idempotent, wait_s

if TYPE_CHECKING:
    from collections.abc import Callable

_SMALL_BYTES = 64 * 1024


class PacingTimeout(httpx.TimeoutException):
    """The server has said that nothing passes before the deadline, so nothing was sent."""


class _Pacing:
    """What both transports have."""

    def __init__(
        self,
        max_retries: int,
        deadline: float,
        key: Callable[[httpx.Request], str] | None,
        clock: Clock | None,
    ) -> None:
        self._policy = RetryPolicy(max_retries, deadline)
        self._key = key or _host
        self._clock = clock or SYSTEM
        self._pacer = Pacer()

    def state(self, host: str) -> Learned | None:
        """What was learnt last about a host, such as ``api.example.com`` or ``localhost:8080``."""
        return self._pacer.state(host)

    def _attempts(self, request: httpx.Request) -> _Attempts:
        return _Attempts(request, self._key(request), self._pacer, self._policy, self._clock)


class PacingTransport(_Pacing, httpx.AsyncBaseTransport):
    """Paces an async client.

    >>> client = httpx.AsyncClient(transport=PacingTransport())

    Requests to a host wait their turn when it says that little is left; 429 and the like are tried again when
    it says so, as far as that is safe.
    """

    def __init__(
        self,
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        max_retries: int = 3,
        deadline: float = 30.0,
        key: Callable[[httpx.Request], str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(max_retries, deadline, key, clock)
        self._transport = transport or httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request when its turn has come, again if need be."""
        attempts = self._attempts(request)
        while True:
            while (turn_s := attempts.turn_s()) > 0:
                await self._clock.sleep(turn_s)
            try:
                response = await self._transport.handle_async_request(request)
            except httpx.TransportError as error:
                wait_s = attempts.after_error(error)
            else:
                wait = attempts.after_answer(response)
                if wait is None:
                    return response
                wait_s = wait
                await _finish(response)
            await self._clock.sleep(wait_s)

    async def aclose(self) -> None:
        """Closes the transport under it."""
        await self._transport.aclose()


class SyncPacingTransport(_Pacing, httpx.BaseTransport):
    """Paces a client of threads.

    >>> client = httpx.Client(transport=SyncPacingTransport())
    """

    def __init__(
        self,
        transport: httpx.BaseTransport | None = None,
        *,
        max_retries: int = 3,
        deadline: float = 30.0,
        key: Callable[[httpx.Request], str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(max_retries, deadline, key, clock)
        self._transport = transport or httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request when its turn has come, again if need be."""
        attempts = self._attempts(request)
        while True:
            while (turn_s := attempts.turn_s()) > 0:
                self._clock.block(turn_s)
            try:
                response = self._transport.handle_request(request)
            except httpx.TransportError as error:
                wait_s = attempts.after_error(error)
            else:
                wait = attempts.after_answer(response)
                if wait is None:
                    return response
                wait_s = wait
                response.close()
            self._clock.block(wait_s)

    def close(self) -> None:
        """Closes the transport under it."""
        self._transport.close()


class _Attempts:
    """One request, however often it is sent. It tells how long to wait, and leaves the waiting to others."""

    def __init__(
        self, request: httpx.Request, host: str, pacer: Pacer, policy: RetryPolicy, clock: Clock
    ) -> None:
        self._host = host
        self._pacer = pacer
        self._clock = clock
        self._max_retries = policy.max_retries
        self._deadline_at_s = clock.monotonic() + policy.deadline_s
        self._idempotent = is_idempotent(request.method, request.headers)
        self._repeatable = isinstance(request.stream, httpx.ByteStream)
        self._request = request
        self._retries = 0
        self._start_at_s: float | None = None

    def turn_s(self) -> float:
        """Seconds until it may be sent; 0 if it may now."""
        now_s = self._clock.monotonic()
        start_s = self._start_at_s
        if start_s is not None and now_s >= start_s and not self._pacer.is_held_back(self._host, now_s):
            self._start_at_s = None
            return 0.0
        if start_s is None or now_s >= start_s:
            start_s = self._pacer.start_at_s(self._host, now_s, self._deadline_at_s)
            if start_s is None:
                raise PacingTimeout(
                    f"{self._host} takes no request before the deadline; raise the deadline or send fewer",
                    request=self._request,
                )
            if start_s <= now_s:
                return 0.0
            self._start_at_s = start_s
        return start_s - now_s

    def after_answer(self, response: httpx.Response) -> float | None:
        """Seconds to wait before another try; ``None`` if the answer is final."""
        now_s = self._clock.monotonic()
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers.raw]
        learned = learn(response.status_code, headers, self._clock.wall())
        self._pacer.learn(self._host, learned, now_s)
        retry_after_s = learned.retry_after_s
        if not answer_is_worth_retrying(response.status_code, retry_after_s, idempotent=self._idempotent):
            return None
        return self._next(retry_after_s)

    def after_error(self, error: httpx.TransportError) -> float:
        """Seconds to wait before another try; raises the error if there is none."""
        wait = self._next(None) if self._idempotent and _is_of_the_connection(error) else None
        if wait is None:
            raise error
        return wait

    def _next(self, retry_after_s: float | None) -> float | None:
        if not self._repeatable or self._retries >= self._max_retries:
            return None
        wait = wait_s(self._retries, retry_after_s, self._clock.chance)
        if self._clock.monotonic() + wait > self._deadline_at_s:
            return None
        self._retries += 1
        return wait


def _is_of_the_connection(error: httpx.TransportError) -> bool:
    """A request that was wrong is wrong the next time too."""
    return not isinstance(error, (httpx.LocalProtocolError, httpx.UnsupportedProtocol, httpx.ProxyError))


def _host(request: httpx.Request) -> str:
    return request.url.netloc.decode("ascii")


async def _finish(response: httpx.Response) -> None:
    """Reads what is short, so that the connection can be used again; drops the rest."""
    length = response.headers.get("content-length", "")
    if length.isdecimal() and int(length) <= _SMALL_BYTES:
        await response.aread()
    await response.aclose()
