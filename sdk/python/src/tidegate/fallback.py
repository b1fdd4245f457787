"""What decides while the service does not answer."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

from .limits import Limit, LimitsLike, limits_of, titles_of
from .local import Charge, LocalLimiter
from .render import Told, counted, uncounted

if TYPE_CHECKING:
    from .ask import Ask, Descriptor
    from .clock import Clock
    from .decision import Decision

FallbackMode: TypeAlias = Literal["allow", "deny", "local"]
Disabled: TypeAlias = Literal["disabled"]


class _Counted(NamedTuple):
    """A charge, and what it is for."""

    charge: Charge
    rule: str
    limit: Limit
    title: str
    entries: tuple[tuple[str, str], ...]


class Fallback:
    """``allow`` lets everything pass, ``deny`` nothing, ``local`` counts in this process.

    ``disabled`` is that of a client that was switched off: everything passes.

    Local counting takes the request's own limits, or else the client's ``local_limits``; where there are
    neither, everything passes.
    """

    def __init__(self, mode: FallbackMode | Disabled, local_limits: LimitsLike | None, clock: Clock) -> None:
        if mode not in (*get_args(FallbackMode), "disabled"):
            raise ValueError(f"fallback must be allow, deny or local, got {mode!r}")
        self._mode = mode
        self._local_limits = limits_of(local_limits)
        self._clock = clock
        # Read once: a wall clock that is set later must not empty or refill anything.
        offset_us = round((clock.wall() - clock.monotonic()) * 1_000_000)
        self._limiter = LocalLimiter(clock.monotonic, offset_us=offset_us)

    def decide(self, ask: Ask, at_s: float | None = None) -> Decision:
        """Decides without the service. ``at_s`` is now, by the client's monotonic clock, unless told."""
        if self._mode in ("deny", "disabled"):
            return uncounted(allowed=self._mode == "disabled", source=self._mode)
        charges = self._charges(ask)
        if self._mode == "allow" or not charges:
            return uncounted(allowed=True, source="allow")
        verdicts = self._limiter.charge([one.charge for one in charges], at_s)
        seen: Counter[tuple[str, str]] = Counter()
        told = []
        for (charge, rule, limit, name, entries), verdict in zip(charges, verdicts, strict=True):
            seen[rule, name] += 1
            nth = seen[rule, name]
            told.append(
                Told(
                    rule=rule,
                    name=name,
                    requests=limit.requests,
                    per=limit.window,
                    window_us=charge.numbers.window_us,
                    verdict=verdict,
                    nth=nth,
                    domain=ask.domain,
                    entries=entries,
                )
            )
        return counted(told, self._clock.wall())

    def hold(self) -> Decision:
        """Decides about a slot to hold: nobody counts holders here, so only ``deny`` denies."""
        return uncounted(
            allowed=self._mode != "deny", source="allow" if self._mode == "local" else self._mode
        )

    def reset(self) -> None:
        """Forgets what was counted."""
        self._limiter.reset()

    def settle(self, ask: Ask, cost: int, taken_s: float) -> None:
        """Corrects what an estimate took, where `decide` counted. ``taken_s`` is by the monotonic clock."""
        if self._mode != "local":
            return
        for descriptor in ask.descriptors:
            if descriptor.cost is None:  # its own was charged for good
                for one in self._charges_of(ask, descriptor):
                    self._limiter.settle(one.charge, cost, taken_s)

    def refund(self, ask: Ask) -> None:
        """Gives back what a request took, where `decide` counted."""
        if self._mode == "local":
            for one in self._charges(ask):
                self._limiter.give_back(one.charge)

    def _charges(self, ask: Ask) -> list[_Counted]:
        return [charge for descriptor in ask.descriptors for charge in self._charges_of(ask, descriptor)]

    def _charges_of(self, ask: Ask, descriptor: Descriptor) -> list[_Counted]:
        rule, limits = ("inline", descriptor.limits) if descriptor.limits else ("local", self._local_limits)
        cost = ask.cost if descriptor.cost is None else descriptor.cost
        return [
            _Counted(
                Charge.of(limit, (ask.domain, descriptor.entries), cost),
                rule,
                limit,
                title,
                descriptor.entries,
            )
            for limit, title in zip(limits, titles_of(limits), strict=True)
        ]
