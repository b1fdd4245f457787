"""Laws of the counters that stand in for the service."""

from __future__ import annotations

import random

import pytest

from support.clock import FakeClock
from tidegate.algorithms import Numbers
from tidegate.local import Charge, LocalLimiter

WINDOW_US = 60_000_000


def charge_of(key: str = "ann", *, requests: int = 5, cost: int = 1) -> Charge:
    return Charge(key, Numbers(requests, WINDOW_US), cost)


def test_lets_pass_what_the_limit_says_and_no_more() -> None:
    limiter = LocalLimiter(FakeClock().clock().monotonic)
    verdicts = [limiter.charge([charge_of()])[0] for _ in range(6)]
    assert [verdict.allowed for verdict in verdicts] == [True] * 5 + [False]
    assert [verdict.remaining for verdict in verdicts] == [4, 3, 2, 1, 0, 0]


def test_denied_charge_is_allowed_exactly_at_retry_after() -> None:
    now_us = 17_000_000
    limiter = LocalLimiter(lambda: now_us / 1_000_000)
    for _ in range(5):
        assert limiter.charge([charge_of()])[0].allowed
    denied = limiter.charge([charge_of()])[0]
    assert denied.retry_after_us is not None
    now_us += denied.retry_after_us - 1
    assert not limiter.charge([charge_of()])[0].allowed
    now_us += 1
    assert limiter.charge([charge_of()])[0].allowed


def test_never_more_than_twice_the_limit_in_any_window_and_the_limit_on_average() -> None:
    clock = FakeClock()
    limiter = LocalLimiter(lambda: clock.now_s)
    chance = random.Random(6)
    passed: list[float] = []
    for _ in range(3000):
        clock.advance(chance.random())
        if limiter.charge([charge_of(requests=20)])[0].allowed:
            passed.append(clock.now_s)
    span_s = passed[-1] - passed[0]
    assert len(passed) <= 20 * (span_s / 60 + 1)
    for start in passed:
        assert sum(start <= at < start + 60 for at in passed) <= 40


def test_takes_all_or_nothing() -> None:
    limiter = LocalLimiter(FakeClock().clock().monotonic)
    verdicts = limiter.charge([charge_of("wide", requests=10), charge_of("narrow", requests=0)])
    assert [verdict.allowed for verdict in verdicts] == [True, False]
    assert verdicts[0].remaining == 10
    assert limiter.charge([charge_of("wide", requests=10)])[0].remaining == 9


def test_the_same_counter_twice_pays_twice() -> None:
    limiter = LocalLimiter(FakeClock().clock().monotonic)
    assert [verdict.remaining for verdict in limiter.charge([charge_of(), charge_of()])] == [4, 3]


def test_a_cost_that_never_fits_has_no_time_to_retry() -> None:
    denied = LocalLimiter(FakeClock().clock().monotonic).charge([charge_of(cost=6)])[0]
    assert (denied.allowed, denied.retry_after_us, denied.remaining) == (False, None, 5)


def test_cost_0_only_looks() -> None:
    limiter = LocalLimiter(FakeClock().clock().monotonic)
    for _ in range(3):
        assert limiter.charge([charge_of(cost=0)])[0].remaining == 5


def test_settling_gives_the_rest_back_or_takes_the_overrun() -> None:
    clock = FakeClock()
    limiter = LocalLimiter(clock.clock().monotonic)
    limiter.charge([charge_of(cost=4)])
    limiter.settle(charge_of(cost=4), 1, clock.now_s)
    assert limiter.charge([charge_of(cost=0)])[0].remaining == 4
    limiter.settle(charge_of(cost=1), 9, clock.now_s)
    debt = limiter.charge([charge_of()])[0]
    assert (debt.allowed, debt.remaining) == (False, 0)
    assert debt.retry_after_us is not None


@pytest.mark.parametrize(("windows", "left"), [(1, 1), (2, 1), (3, 1)])
def test_what_is_given_back_late_is_not_taken_from_what_others_used_since(windows: int, left: int) -> None:
    clock = FakeClock(now_s=0)
    limiter = LocalLimiter(clock.clock().monotonic)
    limiter.charge([charge_of(cost=4)])
    clock.advance(60 * (windows + 0.99))  # near the end of a window, where the one before hardly counts
    for _ in range(4):
        assert limiter.charge([charge_of()])[0].allowed
    limiter.settle(charge_of(cost=4), 0, 0)
    assert limiter.charge([charge_of(cost=0)])[0].remaining == left


def test_a_refund_goes_to_the_current_window_first_and_then_to_the_one_before() -> None:
    clock = FakeClock(now_s=0)
    limiter = LocalLimiter(clock.clock().monotonic)
    limiter.charge([charge_of(cost=4)])
    clock.advance(60)  # the next window begins, and the one before counts in full
    limiter.charge([charge_of()])
    limiter.give_back(charge_of(cost=3))
    assert limiter.charge([charge_of(cost=0)])[0].remaining == 3
    limiter.give_back(charge_of(cost=100))
    assert limiter.charge([charge_of(cost=0)])[0].remaining == 5


def test_giving_back_to_an_unknown_key_displaces_no_other() -> None:
    limiter = LocalLimiter(FakeClock().clock().monotonic, max_keys=1)
    limiter.charge([charge_of("ann", cost=5)])
    limiter.give_back(charge_of("bob"))
    limiter.settle(charge_of("bob"), 0, 1_000.0)
    assert limiter.charge([charge_of("ann", cost=0)])[0].remaining == 0


def test_no_charge_adds_room() -> None:
    with pytest.raises(ValueError, match="-1"):
        charge_of(cost=-1)
