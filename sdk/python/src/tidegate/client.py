"""The async client."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from typing import TYPE_CHECKING, Any

from .batch import Batcher
from .check_body import DEFAULT_DOMAIN, CheckBody, DescriptorLike, make_check_body
from .errors import ClientClosed
from .estimate import OnError
from .forks import renew_after_fork, renew_module_after_fork
from .permit import AcquireContext
from .pool import ConnectionPool
from .refund import PATH as REFUND_PATH
from .refund import parse_refund, refund_locally
from .reservation import ReserveContext
from .response import CallFailed, ServiceResponse, parse_decision
from .settings import DEFAULT_DEADLINE_S, environment_settings, local_settings, make_settings
from .warnings import note_created

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator, Coroutine
    from types import TracebackType

    from .clock import Clock
    from .decision import Decision, LimitStatus
    from .fallback import FallbackMode
    from .limits import LimitsLike
    from .settings import Settings


class Tidegate:
    """An async client of the service. Create one when the app starts, and share it.

    >>> client = Tidegate("http://localhost:8080")
    >>> decision = await client.check({"route": "search", "client": "ann"}, limits="10/minute")
    >>> decision.allowed, decision.limits[0].remaining
    (True, 9)

    Every check returns a decision within ``deadline`` seconds. If the service cannot be reached or is too
    slow, the ``fallback`` decides: ``"local"`` counts the limits in this process, ``"allow"`` lets every
    request pass and ``"deny"`` none. Checks made at the same time are sent as one batch.

    ``url`` and ``token`` default to the environment variables ``TIDEGATE_URL`` and ``TIDEGATE_TOKEN``, and
    ``url`` then to ``http://localhost:8080``. ``local_limits`` are counted by the local fallback where a
    check has no limits. ``enabled=False`` lets every request pass without asking the service.
    ``max_in_flight`` bounds the batches under way at once. ``clock`` is for tests.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        deadline: float = DEFAULT_DEADLINE_S,
        fallback: FallbackMode = "local",
        local_limits: LimitsLike | None = None,
        enabled: bool = True,
        max_in_flight: int = 2,
        ssl_context: ssl.SSLContext | None = None,
        clock: Clock | None = None,
    ) -> None:
        settings = make_settings(
            url=url,
            token=token,
            deadline=deadline,
            fallback=fallback,
            enabled=enabled,
            local_limits=local_limits,
            ssl_context=ssl_context,
            clock=clock,
        )
        self._set_up(settings, max_in_flight)
        note_created(self)

    @classmethod
    def local(cls, *, local_limits: LimitsLike | None = None, clock: Clock | None = None) -> Tidegate:
        """Returns a client that counts in this process and needs no service: for tests and small apps.

        >>> client = Tidegate.local()
        >>> decision = await client.check({"user": "ann"}, limits="10/minute")

        Limits in code are decided as the service decides them. Rules of a service are not known here: checks
        without limits are counted against ``local_limits``, and pass if there are none.
        """
        client = cls.__new__(cls)
        client._set_up(local_settings(local_limits=local_limits, clock=clock))
        return client

    def _set_up(self, settings: Settings, max_in_flight: int = 2) -> None:
        if max_in_flight < 1:
            raise ValueError(f"max_in_flight must be at least 1, got {max_in_flight}")
        self._settings = settings
        self._max_in_flight = max_in_flight
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopState]
        self._loops = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()
        self._is_closed = False
        renew_after_fork(self)

    def _after_fork(self) -> None:
        """Leaves the connections to the parent; an event loop that goes on in the child opens new ones."""
        self._lock = threading.Lock()
        # They are kept alive: closing them would remove the sockets from the selector of the parent's loop.
        _inherited.extend(self._loops.values())
        self._loops = weakref.WeakKeyDictionary()

    async def check(
        self,
        *descriptors: DescriptorLike,
        limits: LimitsLike | None = None,
        cost: int = 1,
        domain: str = DEFAULT_DOMAIN,
    ) -> Decision:
        """Decides whether a request may pass, and charges it if so.

        >>> decision = await client.check({"user": "ann"}, limits="10/minute;200/hour")
        >>> if not decision:
        ...     print("retry in", decision.retry_after, "seconds")

        Each descriptor is a dict, a list of pairs, or a `Descriptor`. All must be within their limits, or
        nothing is charged to any of them. With ``limits``, these are counted; without, the rules of the
        domain apply. ``cost=0`` returns the decision without charging it.

        A denial is a `Decision`, not an error. Raises `RequestRefused` if the service rejects the check as
        invalid, and `ClientClosed` after `aclose`.
        """
        return await self._decide(make_check_body(descriptors, domain=domain, limits=limits, cost=cost))

    async def _decide(self, body: CheckBody) -> Decision:
        self._require_open()
        if not self._settings.uses_service:
            return self._settings.fallback.decide(body)
        try:
            return parse_decision(await self._loop_state().batcher.check(body.encode()))
        except CallFailed:
            return self._settings.fallback.decide(body)

    async def refund(
        self,
        *descriptors: DescriptorLike,
        limits: LimitsLike | None = None,
        cost: int = 1,
        domain: str = DEFAULT_DOMAIN,
    ) -> tuple[LimitStatus, ...]:
        """Gives back what a check charged, never above full: for work that was then not done.

        >>> if (await client.check({"user": "ann"}, cost=5)).allowed and not await work():
        ...     await client.refund({"user": "ann"}, cost=5)

        Give it the same arguments as `check`. Returns the state of each limit afterwards.

        The result is empty if no limit applies, if the service cannot be reached (then the cost goes back to
        the counters of this process), and if the response is late or lost (then the service may have given
        the cost back). An empty result is final: do not retry. Raises `RequestRefused` if the service rejects
        the request as invalid.
        """
        body = make_check_body(descriptors, domain=domain, limits=limits, cost=cost)
        try:
            return parse_refund(await self._call(REFUND_PATH, body.encode()))
        except CallFailed as failure:
            return refund_locally(self._settings.fallback, body, failure)

    def reserve(
        self,
        *descriptors: DescriptorLike,
        cost: int,
        limits: LimitsLike | None = None,
        domain: str = DEFAULT_DOMAIN,
        ttl: float = 60.0,
        on_error: OnError = "refund",
    ) -> ReserveContext:
        """Charges an estimate now, and the real cost when the work is done.

        >>> async with client.reserve({"user": "ann"}, cost=4000, limits="100_000/hour") as reservation:
        ...     completion = await generate(prompt, max_tokens=4000)
        ...     reservation.settle(completion.tokens)

        Entering the block raises `RateLimitExceeded` if the estimate does not fit. Leaving it without having
        settled keeps the estimate charged, and so does settling later than ``ttl`` seconds. Leaving it by an
        exception settles 0, or keeps the estimate with ``on_error="keep"``.
        """
        body = make_check_body(descriptors, domain=domain, limits=limits, cost=cost)
        return ReserveContext(self, body, ttl_ms=round(ttl * 1000), on_error=on_error)

    def acquire(self, *descriptors: DescriptorLike, domain: str) -> AcquireContext:
        """Holds a slot of a concurrency limit while a block runs, and renews it in time.

        >>> async with client.acquire({"export": "ann"}, domain="shop"):
        ...     await export()

        Concurrency limits are in the rules of the service, so ``domain`` is required. Entering the block
        raises `RateLimitExceeded` if all slots are taken.
        """
        return AcquireContext(self, make_check_body(descriptors, domain=domain, limits=None, cost=1))

    async def _call(self, path: str, body: bytes) -> ServiceResponse:
        """Sends one request outside of batches, within the deadline; raises `CallFailed`."""
        self._require_open()
        if not self._settings.uses_service:
            raise CallFailed("the client uses no service", sent=False)
        with self._settings.breaker.attempt():
            return await _within(self._settings.deadline_s, self._loop_state().pool.post(path, body))

    def _run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs work that its caller does not wait for, until it is done or the client is closed."""
        tasks = self._loop_state().tasks
        task = asyncio.ensure_future(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def _loop_state(self) -> _LoopState:
        """Returns what belongs to the running event loop; a program may have several, one after the other."""
        loop = asyncio.get_running_loop()
        state = self._loops.get(loop)
        if state is None:
            with self._lock:
                for other in [other for other in self._loops if other.is_closed()]:
                    del self._loops[other]
                state = self._loops[loop] = _LoopState(self._settings, self._max_in_flight)
        return state

    def reset(self) -> None:
        """Forgets everything that this process has counted, so that each test begins with full limits.

        Counters of the service do not change.
        """
        self._settings.fallback.reset()

    def _require_open(self) -> None:
        if self._is_closed:
            raise ClientClosed

    async def aclose(self) -> None:
        """Closes the client and its connections. Later checks raise `ClientClosed`.

        Entering the client again by ``async with`` opens it, so that an app can be started twice. Connections
        are also closed when their event loop ends.
        """
        self._is_closed = True
        state = self._loops.pop(asyncio.get_running_loop(), None)
        if state is not None:
            await state.aclose()

    async def __aenter__(self) -> Tidegate:
        self._is_closed = False
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


async def _within(seconds: float, posting: Coroutine[Any, Any, ServiceResponse]) -> ServiceResponse:
    """Waits at most this long. `asyncio.wait_for` may swallow a cancellation before Python 3.12."""
    task = asyncio.ensure_future(posting)
    # Retrieves the exception of a task that is not awaited; asyncio would log it otherwise.
    task.add_done_callback(lambda task: task.cancelled() or task.exception())
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    finally:
        task.cancel()
    if not done:
        raise CallFailed(f"no response within {seconds * 1000:.0f} ms")
    return task.result()


class _LoopState:
    """The connections, batches and background tasks of one event loop."""

    def __init__(self, settings: Settings, max_in_flight: int) -> None:
        self.pool = pool = ConnectionPool(settings.target, settings.context)
        self.batcher = Batcher(
            lambda body: pool.post("/v1/check", body),
            settings.breaker,
            deadline_s=settings.deadline_s,
            max_in_flight=max_in_flight,
        )
        self.tasks: set[asyncio.Future[None]] = set()
        self._closer = self._close_with_loop()
        # An event loop that ends closes the async generators that were started in it: so this one is started.
        with contextlib.suppress(StopIteration):
            self._closer.__anext__().send(None)

    async def aclose(self) -> None:
        """Cancels what is under way and closes the connections."""
        await self._closer.aclose()

    async def _close_with_loop(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            for task in self.tasks:
                task.cancel()
            await self.batcher.aclose()
            await self.pool.aclose()


_inherited: list[_LoopState] = []
"""State of event loops that a child process has from its parent."""
_shared: Tidegate | None = None
_shared_lock = threading.Lock()


def client_from_settings(settings: Settings) -> Tidegate:
    """Returns a client that the app did not create itself, and so is not warned of."""
    client = Tidegate.__new__(Tidegate)
    client._set_up(settings)
    return client


def shared_client() -> Tidegate:
    """Returns the client for limiters that were given none; its settings come from the environment."""
    global _shared
    with _shared_lock:
        if _shared is None:
            _shared = client_from_settings(environment_settings())
        return _shared


def _after_fork() -> None:
    global _shared_lock
    _shared_lock = threading.Lock()


renew_module_after_fork(_after_fork)
