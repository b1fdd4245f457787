"""Transports for httpx that wait, retry and learn."""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING

import httpx

from ..clock import SYSTEM, Clock
from ..forks import renew_after_fork
from .learned import Learned, is_denial, learn, told_wait_s
from .line import AsyncLine, Lines, SyncLine
from .pacer import Pacer, Start
from .retry import RetryPolicy, is_idempotent, is_worth_retrying, wait_s

if TYPE_CHECKING:
    from collections.abc import Callable

_SMALL_BYTES = 64 * 1024

_of_parents: list[object] = []
"""Transports that a child has from its parent. They are kept, for closing them is the parent's to do."""


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
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Starts anew in a child: with new locks, and connections that nobody else reads from."""
        self._pacer = Pacer()
        self._renew()

    def _renew(self) -> None:
        raise NotImplementedError

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
        self._is_own = transport is None
        self._transport = transport or httpx.AsyncHTTPTransport()
        self._renew_lines()

    def _renew_lines(self) -> None:
        self._lines: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Lines[AsyncLine]]
        self._lines = weakref.WeakKeyDictionary()

    def _renew(self) -> None:
        self._renew_lines()
        if self._is_own:  # what the app has made is the app's to make anew
            _of_parents.append(self._transport)
            self._transport = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request when its turn has come, again if need be."""
        attempts = self._attempts(request)
        # Tasks of one event loop wait for each other; programs and tests may have several loops.
        lines = self._lines.setdefault(asyncio.get_running_loop(), Lines(AsyncLine))
        line = lines.of(attempts.host)
        while True:
            if not await line.pass_through(attempts.turn_s, attempts.deadline_at_s, self._clock):
                raise attempts.timeout()
            try:
                response = await self._transport.handle_async_request(request)
            except httpx.TransportError as error:
                wait_s = attempts.after_error(error)
            except BaseException:
                attempts.after_end()
                raise
            else:
                wait = attempts.after_response(response)
                if wait is None:
                    return response
                wait_s = wait
                await _finish(response)
            finally:
                line.tell()
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
        self._is_own = transport is None
        self._transport = transport or httpx.HTTPTransport()
        self._lines = Lines(SyncLine)

    def _renew(self) -> None:
        self._lines = Lines(SyncLine)
        if self._is_own:  # what the app has made is the app's to make anew
            _of_parents.append(self._transport)
            self._transport = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request when its turn has come, again if need be."""
        attempts = self._attempts(request)
        line = self._lines.of(attempts.host)
        while True:
            if not line.pass_through(
                attempts.turn_s, attempts.others_in_flight, attempts.deadline_at_s, self._clock
            ):
                raise attempts.timeout()
            try:
                response = self._transport.handle_request(request)
            except httpx.TransportError as error:
                wait_s = attempts.after_error(error)
            except BaseException:
                attempts.after_end()
                raise
            else:
                wait = attempts.after_response(response)
                if wait is None:
                    return response
                wait_s = wait
                response.close()
            finally:
                line.tell()
            self._clock.block(wait_s)

    def close(self) -> None:
        """Closes the transport under it."""
        self._transport.close()


class _Attempts:
    """One request, however often it is sent. It tells how long to wait, and leaves the waiting to others."""

    def __init__(
        self, request: httpx.Request, host: str, pacer: Pacer, policy: RetryPolicy, clock: Clock
    ) -> None:
        self.host = host
        self.deadline_at_s = clock.monotonic() + policy.deadline_s
        self._pacer = pacer
        self._clock = clock
        self._max_retries = policy.max_retries
        self._idempotent = is_idempotent(request.method, request.headers)
        self._repeatable = isinstance(request.stream, httpx.ByteStream)
        self._request = request
        self._retries = 0
        self._start: Start | None = None

    def turn_s(self) -> float:
        """Returns the seconds until it may start, and starts it if that is now."""
        now_s = self._clock.monotonic()
        ready_s = self._pacer.ready_at_s(self.host, now_s)
        if ready_s > now_s and ready_s > self.deadline_at_s and not self.others_in_flight():
            raise self.timeout()
        if ready_s > now_s:
            if now_s >= self.deadline_at_s:
                raise self.timeout()
            return min(ready_s, self.deadline_at_s) - now_s
        self._start = self._pacer.start(self.host, now_s)
        return 0.0

    def others_in_flight(self) -> bool:
        """Whether a response may come that changes when this request may start."""
        return self._pacer.others_in_flight(self.host)

    def timeout(self) -> PacingTimeout:
        """Returns the error of a request that was not sent."""
        return PacingTimeout(
            f"{self.host} takes no request before the deadline; raise the deadline or send fewer",
            request=self._request,
        )

    def after_response(self, response: httpx.Response) -> float | None:
        """Seconds to wait before another try; ``None`` if the response is final."""
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers.raw]
        learned = learn(response.status_code, headers, self._clock.wall())
        denied = is_denial(response.status_code, learned)
        if self._start is not None:
            self._pacer.respond(self._start, learned, denied=denied, now_s=self._clock.monotonic())
        if not is_worth_retrying(response.status_code, denied=denied, idempotent=self._idempotent):
            return None
        return self._next(told_wait_s(learned))

    def after_error(self, error: httpx.TransportError) -> float:
        """Seconds to wait before another try; raises the error if there is none."""
        self.after_end()
        wait = self._next(None) if self._idempotent and _is_of_the_connection(error) else None
        if wait is None:
            raise error
        return wait

    def after_end(self) -> None:
        """Notes that there is no response."""
        if self._start is not None:
            self._pacer.fail(self._start, self._clock.monotonic())

    def _next(self, told_s: float | None) -> float | None:
        if not self._repeatable or self._retries >= self._max_retries:
            return None
        wait = wait_s(self._retries, told_s, self._clock.chance)
        if self._clock.monotonic() + wait > self.deadline_at_s:
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
