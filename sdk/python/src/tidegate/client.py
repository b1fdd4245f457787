"""The async client."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from typing import TYPE_CHECKING, Any

from .answer import Answer, Unanswered, decision_of
from .ask import DEFAULT_DOMAIN, Ask, DescriptorLike, ask_of
from .batch import Batcher
from .errors import ClientClosed
from .estimate import OnError
from .forks import renew_after_fork, renew_module_after_fork
from .permit import AcquireContext
from .refund import PATH as REFUND_PATH
from .refund import left_of, refund_here
from .reservation import ReserveContext
from .settings import DEFAULT_DEADLINE_S, environment_settings, local_settings, settings_of
from .warnings import made
from .wire import AsyncWire

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator, Coroutine
    from types import TracebackType

    from .clock import Clock
    from .decision import Decision, LimitStatus
    from .fallback import Fallback, FallbackMode
    from .limits import LimitsLike
    from .settings import Settings


class Tidegate:
    """Asks the service, and falls back where it does not answer. Make one and share it.

    >>> client = Tidegate("http://localhost:8080")
    >>> decision = await client.check({"route": "search", "client": "ann"}, limits="10/minute")
    >>> decision.allowed, decision.limits[0].remaining
    (True, 9)

    Checks made at the same time are sent as one batch. ``deadline`` (seconds) is the whole of a check:
    whatever happens to the service, a decision comes within it.
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
        settings = settings_of(
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
        made(self)

    @classmethod
    def local(cls, *, local_limits: LimitsLike | None = None, clock: Clock | None = None) -> Tidegate:
        """Returns a client that counts in this process and asks nobody: for tests and small apps.

        >>> client = Tidegate.local()

        It decides as the service does for limits that code writes. Checks without limits count
        ``local_limits``, and pass where there are none.
        """
        client = cls.__new__(cls)
        client._set_up(local_settings(local_limits=local_limits, clock=clock))
        return client

    def _set_up(self, settings: Settings, max_in_flight: int = 2) -> None:
        if max_in_flight < 1:
            raise ValueError(f"max_in_flight must be at least 1, got {max_in_flight}")
        self._settings = settings
        self._max_in_flight = max_in_flight
        self._lanes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Lane] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()
        self._is_closed = False
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Leaves the connections to the parent: an event loop that goes on in a child gets new ones."""
        self._lock = threading.Lock()
        # Kept alive, for their end would take the sockets out of what the parent's event loop looks at.
        _of_parents.extend(self._lanes.values())
        self._lanes = weakref.WeakKeyDictionary()

    async def check(
        self,
        *descriptors: DescriptorLike,
        limits: LimitsLike | None = None,
        cost: int = 1,
        domain: str = DEFAULT_DOMAIN,
    ) -> Decision:
        """Decides a request: all descriptors must be within their limits, or nothing is taken from any.

        With ``limits`` they travel along; without, the rules of the domain apply. ``cost=0`` only looks.
        Raises `RequestRefused` if the request is at fault; a denial is no error.
        """
        return await self.decide(ask_of(descriptors, domain=domain, limits=limits, cost=cost))

    async def decide(self, ask: Ask) -> Decision:
        """`check` for what has been put together already."""
        self._expect_open()
        if not self._settings.asks:
            return self._settings.fallback.decide(ask)
        try:
            return decision_of(await self._lane().batcher.ask(ask.message()))
        except Unanswered:
            return self._settings.fallback.decide(ask)

    async def refund(
        self,
        *descriptors: DescriptorLike,
        limits: LimitsLike | None = None,
        cost: int = 1,
        domain: str = DEFAULT_DOMAIN,
    ) -> tuple[LimitStatus, ...]:
        """Gives back what `check` took, never above full: for work that was charged and then not done.

        >>> if (await client.check({"user": "ann"}, cost=5)).allowed and not await work():
        ...     await client.refund({"user": "ann"}, cost=5)

        Give it the same arguments as `check`. Returns how each limit stands afterwards. While the service is
        away, the counters of this process get the cost back, and the result is empty. It is also empty if
        the response is late, fails or is lost (the service may have given the cost back all the same), and
        if there is no limit. An empty result is final: do not retry. Raises `RequestRefused` if the request
        is at fault.
        """
        ask = ask_of(descriptors, domain=domain, limits=limits, cost=cost)
        try:
            return left_of(await self.call(REFUND_PATH, ask.message()))
        except Unanswered as why:
            return refund_here(self._settings.fallback, ask, why)

    def fall_back(self, ask: Ask) -> Decision:
        """Decides as if the service were away."""
        return self._settings.fallback.decide(ask)

    def reserve(
        self,
        *descriptors: DescriptorLike,
        cost: int,
        limits: LimitsLike | None = None,
        domain: str = DEFAULT_DOMAIN,
        ttl: float = 60.0,
        on_error: OnError = "refund",
    ) -> ReserveContext:
        """Takes an estimate now, and charges the real cost later.

        >>> async with client.reserve({"user": "ann"}, cost=4000, limits="100_000/hour") as reservation:
        ...     answer = await ask_the_model(max_tokens=4000)
        ...     reservation.settle(answer.tokens)

        Entering raises `RateLimitExceeded` on a denial. Leaving without having settled keeps the estimate
        charged; leaving by an exception settles 0, or keeps the estimate with ``on_error="keep"``.
        """
        ask = ask_of(descriptors, domain=domain, limits=limits, cost=cost)
        return ReserveContext(self, ask, ttl_ms=round(ttl * 1000), on_error=on_error)

    def acquire(self, *descriptors: DescriptorLike, domain: str) -> AcquireContext:
        """Holds a slot of a concurrency limit for as long as a block runs, and renews it meanwhile.

        >>> async with client.acquire({"export": "ann"}, domain="shop"):
        ...     await export()

        Entering raises `RateLimitExceeded` if all slots are taken.
        """
        return AcquireContext(self, ask_of(descriptors, domain=domain, limits=None, cost=1))

    async def call(self, path: str, body: bytes) -> Answer:
        """One request by itself, within the deadline; raises `Unanswered`."""
        self._expect_open()
        if not self._settings.asks:
            raise Unanswered("the client asks nobody", sent=False)
        with self._settings.breaker.attempt():
            return await _within(self._settings.deadline_s, self._lane().wire.post(path, body))

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Goes on with work after its caller has left, until the client is closed."""
        tasks = self._lane().tasks
        task = asyncio.ensure_future(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    @property
    def clock(self) -> Clock:
        """Where it takes the time from."""
        return self._settings.clock

    @property
    def fallback(self) -> Fallback:
        """What decides while the service does not answer."""
        return self._settings.fallback

    def _lane(self) -> Lane:
        """Connections belong to an event loop; programs and tests may have several, one after the other."""
        loop = asyncio.get_running_loop()
        lane = self._lanes.get(loop)
        if lane is None:
            with self._lock:
                for other in [other for other in self._lanes if other.is_closed()]:
                    del self._lanes[other]
                lane = self._lanes[loop] = Lane(self._settings, self._max_in_flight)
        return lane

    def reset(self) -> None:
        """Forgets what this process counted, for tests: every limit is whole again."""
        self._settings.fallback.reset()

    def _expect_open(self) -> None:
        if self._is_closed:
            raise ClientClosed

    async def aclose(self) -> None:
        """Closes the connections of this event loop; its end would, too. Nothing can be asked afterwards.

        Entering the client again by ``async with`` opens it, so that an app may be started twice.
        """
        self._is_closed = True
        lane = self._lanes.pop(asyncio.get_running_loop(), None)
        if lane is not None:
            await lane.aclose()

    async def __aenter__(self) -> Tidegate:
        self._is_closed = False
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


async def _within(seconds: float, posting: Coroutine[Any, Any, Answer]) -> Answer:
    """Waits so long at most. `asyncio.wait_for` may swallow a cancellation, until Python 3.12."""
    task = asyncio.ensure_future(posting)
    task.add_done_callback(lambda task: task.cancelled() or task.exception())  # somebody has looked at it
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    finally:
        task.cancel()
    if not done:
        raise Unanswered(f"no answer within {seconds * 1000:.0f} ms")
    return task.result()


class Lane:
    """What belongs to one event loop."""

    def __init__(self, settings: Settings, max_in_flight: int) -> None:
        self.wire = wire = AsyncWire(settings.target, settings.context)
        self.batcher = Batcher(
            lambda body: wire.post("/v1/check", body),
            settings.breaker,
            deadline_s=settings.deadline_s,
            max_in_flight=max_in_flight,
        )
        self.tasks: set[asyncio.Future[None]] = set()
        self._until_the_end = self._close_at_the_end()
        # An event loop that ends closes the generators that were begun in it, so this one is.
        with contextlib.suppress(StopIteration):
            self._until_the_end.__anext__().send(None)

    async def aclose(self) -> None:
        """Gives up what is under way and closes the connections."""
        await self._until_the_end.aclose()

    async def _close_at_the_end(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            for task in self.tasks:
                task.cancel()
            await self.batcher.aclose()
            await self.wire.aclose()


_of_parents: list[Lane] = []
_shared: Tidegate | None = None
_shared_lock = threading.Lock()


def client_of(settings: Settings) -> Tidegate:
    """Returns a client that an app did not create itself, so there is nothing to warn of."""
    client = Tidegate.__new__(Tidegate)
    client._set_up(settings)
    return client


def shared_client() -> Tidegate:
    """The client of this process for whoever was given none; settings come from the environment."""
    global _shared
    with _shared_lock:
        if _shared is None:
            # Made with the first request, which is no mistake of the app's.
            _shared = client_of(environment_settings())
        return _shared


def _after_fork() -> None:
    global _shared_lock
    _shared_lock = threading.Lock()


renew_module_after_fork(_after_fork)
