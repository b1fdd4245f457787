"""Laws of leaving a service alone."""

from __future__ import annotations

import logging

import pytest

from support.clock import FakeClock
from tidegate.breaker import Breaker


def breaker_of(clock: FakeClock) -> Breaker:
    return Breaker(clock.clock(), probe_timeout_s=1.5)


def test_every_request_is_admitted_while_the_service_responds() -> None:
    breaker = breaker_of(FakeClock())
    admissions = [breaker.admit() for _ in range(3)]
    assert all(admission and not admission.is_probe for admission in admissions)


def test_after_a_failure_one_alone_tries_after_the_backoff() -> None:
    clock = FakeClock()
    breaker = breaker_of(clock)
    first = breaker.admit()
    assert first
    breaker.failed(first, "refused")
    assert breaker.admit() is None
    clock.advance(0.05)
    trial = breaker.admit()
    assert trial
    assert trial.is_probe
    assert breaker.admit() is None
    breaker.succeeded(trial)
    again = breaker.admit()
    assert again
    assert not again.is_probe


def test_backoff_doubles_up_to_five_seconds() -> None:
    clock = FakeClock()
    breaker = breaker_of(clock)
    waits = []
    for _ in range(10):
        admission = breaker.admit()
        assert admission
        breaker.failed(admission, "refused")
        waits.append(round(breaker._retry_at - clock.now_s, 6))
        clock.now_s = breaker._retry_at
    assert waits == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]


def test_jitter_is_full() -> None:
    clock = FakeClock(chance=0.0)
    breaker = breaker_of(clock)
    admission = breaker.admit()
    assert admission
    breaker.failed(admission, "refused")
    trial = breaker.admit()
    assert trial
    assert trial.is_probe


def test_many_that_fail_together_count_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    breaker = breaker_of(clock)
    admissions = [breaker.admit() for _ in range(100)]
    for admission in admissions:
        assert admission
        breaker.failed(admission, "time-out")
    assert breaker._retry_at - clock.now_s == pytest.approx(0.05)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_late_failure_does_not_end_a_trial() -> None:
    clock = FakeClock()
    breaker = breaker_of(clock)
    early, late = breaker.admit(), breaker.admit()
    assert early
    assert late
    breaker.failed(early, "time-out")
    clock.advance(0.05)
    trial = breaker.admit()
    assert trial
    breaker.failed(late, "time-out")
    breaker.succeeded(trial)
    assert not breaker.is_open


def test_a_trial_that_is_lost_is_replaced() -> None:
    clock = FakeClock()
    breaker = breaker_of(clock)
    admission = breaker.admit()
    assert admission
    breaker.failed(admission, "refused")
    clock.advance(0.05)
    assert breaker.admit()
    assert breaker.admit() is None
    clock.advance(1.5)
    assert breaker.admit()
