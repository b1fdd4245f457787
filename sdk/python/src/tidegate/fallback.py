"""Decides while the service cannot be reached."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

from .limits import Limit, LimitsLike, limits_of, titles_of
from .local import Charge, LocalLimiter
from .render import LimitReport, render_counted, render_uncounted

if TYPE_CHECKING:
    from .check_body import CheckBody, Descriptor
    from .clock import Clock
    from .decision import Decision

FallbackMode: TypeAlias = Literal["allow", "deny", "local"]
Disabled: TypeAlias = Literal["disabled"]


class _NamedCharge(NamedTuple):
    """A charge, with the rule and the limit that it is reported under."""

    charge: Charge
    rule: str
    limit: Limit
    title: str
    entries: tuple[tuple[str, str], ...]


class Fallback:
    """Decides in this process: ``allow`` lets every request pass, ``deny`` none, and ``local`` counts.

    ``local`` counts the limits of the check, or else the client's ``local_limits``; if there are neither, the
    request passes. ``disabled`` is the mode of a client with ``enabled=False``: every request passes.
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

    def decide(self, body: CheckBody, at_s: float | None = None) -> Decision:
        """Decides a check without the service. ``at_s`` is by the monotonic clock, and defaults to now."""
        if self._mode in ("deny", "disabled"):
            return render_uncounted(allowed=self._mode == "disabled", source=self._mode)
        charges = self._charges(body)
        if self._mode == "allow" or not charges:
            return render_uncounted(allowed=True, source="allow")
        verdicts = self._limiter.charge([named.charge for named in charges], at_s)
        seen: Counter[tuple[str, str]] = Counter()
        reports = []
        for (charge, rule, limit, name, entries), verdict in zip(charges, verdicts, strict=True):
            seen[rule, name] += 1
            nth = seen[rule, name]
            reports.append(
                LimitReport(
                    rule=rule,
                    name=name,
                    requests=limit.requests,
                    per=limit.window,
                    window_us=charge.numbers.window_us,
                    verdict=verdict,
                    nth=nth,
                    domain=body.domain,
                    entries=entries,
                )
            )
        return render_counted(reports, self._clock.wall())

    def decide_permit(self) -> Decision:
        """Decides about a slot of a concurrency limit. Slots are not counted, so only ``deny`` denies."""
        return render_uncounted(
            allowed=self._mode != "deny", source="allow" if self._mode == "local" else self._mode
        )

    def reset(self) -> None:
        """Forgets every counter."""
        self._limiter.reset()

    def settle(self, body: CheckBody, cost: int, taken_s: float) -> None:
        """Corrects an estimate that `decide` charged at ``taken_s``, by the monotonic clock."""
        if self._mode != "local":
            return
        for descriptor in body.descriptors:
            if descriptor.cost is None:  # a descriptor's own cost is not an estimate
                for named in self._charges_of(body, descriptor):
                    self._limiter.settle(named.charge, cost, taken_s)

    def refund(self, body: CheckBody) -> None:
        """Gives back what `decide` charged for a check."""
        if self._mode == "local":
            for named in self._charges(body):
                self._limiter.give_back(named.charge)

    def _charges(self, body: CheckBody) -> list[_NamedCharge]:
        return [charge for descriptor in body.descriptors for charge in self._charges_of(body, descriptor)]

    def _charges_of(self, body: CheckBody, descriptor: Descriptor) -> list[_NamedCharge]:
        rule, limits = ("inline", descriptor.limits) if descriptor.limits else ("local", self._local_limits)
        cost = body.cost if descriptor.cost is None else descriptor.cost
        return [
            _NamedCharge(
                Charge.of(limit, (body.domain, descriptor.entries), cost),
                rule,
                limit,
                title,
                descriptor.entries,
            )
            for limit, title in zip(limits, titles_of(limits), strict=True)
        ]
