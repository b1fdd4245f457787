"""Transports for httpx that wait before a request would be denied, and retry denied requests."""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING

import httpx

from ..clock import SYSTEM, Clock
from ..forks import renew_after_fork
from .learned import Learned, is_denial, learn, requested_wait_s
from .pacer import Pacer, Start
from .queues import AsyncQueue, HostQueues, SyncQueue
from .retry import RetryPolicy, is_idempotent, is_worth_retrying, wait_s

if TYPE_CHECKING:
    from collections.abc import Callable

_SMALL_BYTES = 64 * 1024

_inherited: list[object] = []
"""Transports that a child process has from its parent. They are kept, because the parent closes them."""


class PacingTimeout(httpx.TimeoutException):
    """The server accepts no request before the deadline, so the request was not sent."""


class _PacingBase:
    """What both transports have in common."""

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

    def _after_fork(self) -> None:
        """Replaces locks and connections in a child process."""
        self._pacer = Pacer()
        self._renew()

    def _renew(self) -> None:
        raise NotImplementedError

    def state(self, host: str) -> Learned | None:
        """Returns what the last response of a host said about its limits; ``None`` if nothing is known.

        >>> transport.state("api.example.com").remaining
        12

        The host is written as in a URL, with the port if there is one, unless ``key`` names it otherwise.
        """
        return self._pacer.state(host)

    def _attempts(self, request: httpx.Request) -> _Attempts:
        return _Attempts(request, self._key(request), self._pacer, self._policy, self._clock)


class PacingTransport(_PacingBase, httpx.AsyncBaseTransport):
    """A transport that keeps an `httpx.AsyncClient` within the limits of the servers it calls.

    >>> client = httpx.AsyncClient(transport=PacingTransport())

    Requests wait in a queue per host while the host has nothing left. Denied requests (429 and the like) are
    retried when the host allows it; other failures only if repeating the request is safe.

    ``transport`` sends the requests, by default httpx's own. A request is retried up to ``max_retries``
    times, and no wait ends later than ``deadline`` seconds after its start: a request that could not be sent
    until then raises `PacingTimeout`. ``key`` is a function of the request; requests with the same key share
    a queue. ``clock`` is for tests.
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
        self._renew_queues()

    def _renew_queues(self) -> None:
        self._queues: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, HostQueues[AsyncQueue]]
        self._queues = weakref.WeakKeyDictionary()

    def _renew(self) -> None:
        self._renew_queues()
        if self._is_own:  # a transport of the app is left to the app
            _inherited.append(self._transport)
            self._transport = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request when its turn has come, and retries it where that is allowed; httpx calls it."""
        attempts = self._attempts(request)
        # Each event loop has queues of its own; programs and tests may have several loops.
        queues = self._queues.setdefault(asyncio.get_running_loop(), HostQueues(AsyncQueue))
        queue = queues.of(attempts.host)
        while True:
            if not await queue.wait_turn(attempts.turn_s, attempts.deadline_at_s, self._clock):
                raise attempts.timeout()
            try:
                response = await self._transport.handle_async_request(request)
            except httpx.TransportError as error:
                wait_s = attempts.after_error(error)
            except BaseException:
                attempts.after_failure()
                raise
            else:
                wait = attempts.after_response(response)
                if wait is None:
                    return response
                wait_s = wait
                await _finish(response)
            finally:
                queue.wake_first()
            await self._clock.sleep(wait_s)

    async def aclose(self) -> None:
        """Closes the transport that sends the requests."""
        await self._transport.aclose()


class SyncPacingTransport(_PacingBase, httpx.BaseTransport):
    """A transport that keeps an `httpx.Client` within the limits of the servers it calls.

    >>> client = httpx.Client(transport=SyncPacingTransport())

    Requests wait in a queue per host while the host has nothing left. Denied requests (429 and the like) are
    retried when the host allows it; other failures only if repeating the request is safe. The options are
    those of `PacingTransport`.
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
        self._queues = HostQueues(SyncQueue)

    def _renew(self) -> None:
        self._queues = HostQueues(SyncQueue)
        if self._is_own:  # a transport of the app is left to the app
            _inherited.append(self._transport)
            self._transport = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request when its turn has come, and retries it where that is allowed; httpx calls it."""
        attempts = self._attempts(request)
        queue = self._queues.of(attempts.host)
        while True:
            if not queue.wait_turn(
                attempts.turn_s, attempts.others_in_flight, attempts.deadline_at_s, self._clock
            ):
                raise attempts.timeout()
            try:
                response = self._transport.handle_request(request)
            except httpx.TransportError as error:
                wait_s = attempts.after_error(error)
            except BaseException:
                attempts.after_failure()
                raise
            else:
                wait = attempts.after_response(response)
                if wait is None:
                    return response
                wait_s = wait
                response.close()
            finally:
                queue.wake_first()
            self._clock.block(wait_s)

    def close(self) -> None:
        """Closes the transport that sends the requests."""
        self._transport.close()


class _Attempts:
    """One request with its retries. It computes the waits, and leaves the waiting to the transports."""

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
        """Returns the seconds until the request may start; if it may start now, notes that it does."""
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
        """Returns whether a response may come that changes when this request may start."""
        return self._pacer.others_in_flight(self.host)

    def timeout(self) -> PacingTimeout:
        """Returns the error of a request that was not sent."""
        return PacingTimeout(
            f"{self.host} accepts no request before the deadline; raise the deadline or send fewer requests",
            request=self._request,
        )

    def after_response(self, response: httpx.Response) -> float | None:
        """Returns the seconds to wait before a retry; ``None`` if the response is final."""
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers.raw]
        learned = learn(response.status_code, headers, self._clock.wall())
        denied = is_denial(response.status_code, learned)
        if self._start is not None:
            self._pacer.respond(self._start, learned, denied=denied, now_s=self._clock.monotonic())
        if not is_worth_retrying(response.status_code, denied=denied, idempotent=self._idempotent):
            return None
        return self._retry_wait_s(requested_wait_s(learned))

    def after_error(self, error: httpx.TransportError) -> float:
        """Returns the seconds to wait before a retry; raises the error if it is not retried."""
        self.after_failure()
        wait = self._retry_wait_s(None) if self._idempotent and _is_of_the_connection(error) else None
        if wait is None:
            raise error
        return wait

    def after_failure(self) -> None:
        """Notes that there is no response."""
        if self._start is not None:
            self._pacer.fail(self._start, self._clock.monotonic())

    def _retry_wait_s(self, requested_s: float | None) -> float | None:
        if not self._repeatable or self._retries >= self._max_retries:
            return None
        wait = wait_s(self._retries, requested_s, self._clock.chance)
        if self._clock.monotonic() + wait > self.deadline_at_s:
            return None
        self._retries += 1
        return wait


def _is_of_the_connection(error: httpx.TransportError) -> bool:
    """Returns whether an error may go away by itself; an invalid request stays invalid."""
    return not isinstance(error, (httpx.LocalProtocolError, httpx.UnsupportedProtocol, httpx.ProxyError))


def _host(request: httpx.Request) -> str:
    return request.url.netloc.decode("ascii")


async def _finish(response: httpx.Response) -> None:
    """Reads a short body, so that the connection can be reused; closes the connection otherwise."""
    length = response.headers.get("content-length", "")
    if length.isdecimal() and int(length) <= _SMALL_BYTES:
        await response.aread()
    await response.aclose()
