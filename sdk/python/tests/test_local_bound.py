"""Laws of the bound on the counters of a process: which of them is forgotten for a new key."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from support.clock import FakeClock
from tidegate.limits import Limit
from tidegate.local import Charge, LocalLimiter

MAX_KEYS = 100

LIMITS = [
    Limit(5, "hour"),
    Limit(50, "hour"),
    Limit(5, "hour", algorithm="fixed_window"),
    Limit(5, "hour", algorithm="sub_windows"),
    Limit(5, "day", burst=5),
    Limit(5, "day", algorithm="leaky_bucket", burst=3),
]


class Counters:
    """Counters with a small bound, on a clock that the test moves."""

    def __init__(self, max_keys: int = MAX_KEYS) -> None:
        self.clock = FakeClock(now_s=1_700_000_000)
        self.limiter = LocalLimiter(self.clock.clock().monotonic, max_keys=max_keys)

    def take(self, key: str, limit: Limit, cost: int = 1) -> bool:
        """Charges a key, and returns whether the cost passed."""
        return self.limiter.charge([Charge.of(limit, key, cost)])[0].allowed

    def use_up(self, key: str, limit: Limit) -> None:
        assert self.take(key, limit, limit.depth)

    def remaining(self, key: str, limit: Limit) -> int:
        return self.limiter.charge([Charge.of(limit, key, 0)])[0].remaining


@pytest.fixture
def counters() -> Counters:
    return Counters()


def victims(counters: Counters) -> Callable[[], list[str]]:
    """Uses up the limits of some keys; returns a function that lists those that were freed."""
    keys = {f"victim {number}": LIMITS[number % len(LIMITS)] for number in range(MAX_KEYS // 4)}
    for key, limit in keys.items():
        counters.use_up(key, limit)
    return lambda: [key for key, limit in keys.items() if counters.take(key, limit)]


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: f"{limit.applied_algorithm}-{limit.requests}")
def test_a_flood_of_keys_frees_no_key_at_its_limit(counters: Counters, limit: Limit) -> None:
    freed = victims(counters)
    for number in range(10 * MAX_KEYS):
        assert counters.take(f"flood {number}", limit)
    assert freed() == []
    assert len(counters.limiter) == MAX_KEYS


def test_nor_does_a_flood_of_keys_that_each_use_up_their_limit(counters: Counters) -> None:
    freed = victims(counters)
    for number in range(10 * MAX_KEYS):
        counters.use_up(f"flood {number}", LIMITS[number % len(LIMITS)])
    assert freed() == []


@pytest.mark.parametrize("seed", range(3))
def test_nor_does_any_mix_of_short_and_long_and_small_and_large(counters: Counters, seed: int) -> None:
    chance = random.Random(seed)
    short = [Limit(1, "second"), Limit(20, "10s"), Limit(3, "minute", burst=2)]
    freed = victims(counters)
    for number in range(10 * MAX_KEYS):
        limit = chance.choice(LIMITS + short)
        key = f"flood {chance.randrange(number + 1)}"
        counters.take(key, limit, chance.randint(1, limit.depth))
        counters.clock.advance(
            chance.choice([0.0, 0.01, 0.5])
        )  # 170 s in all; the limits of the victims are longer
    assert freed() == []


def test_a_key_that_has_used_much_outlasts_a_flood_of_keys_that_use_little(counters: Counters) -> None:
    assert counters.take("ann", LIMITS[0], 4)
    for number in range(10 * MAX_KEYS):
        counters.take(f"flood {number}", LIMITS[0])
    assert counters.remaining("ann", LIMITS[0]) == 1


def test_counters_that_have_run_out_make_room_whatever_is_before_them(counters: Counters) -> None:
    counters.use_up("long", Limit(5, "day"))
    for number in range(MAX_KEYS - 1):
        counters.use_up(f"short {number}", Limit(1, "second"))
    counters.clock.advance(2)
    for number in range(MAX_KEYS - 1):
        counters.use_up(f"late {number}", LIMITS[0])
    assert not any(counters.take(f"late {number}", LIMITS[0]) for number in range(MAX_KEYS - 1))
    assert not counters.take("long", Limit(5, "day"))


def test_where_all_are_at_their_limits_the_last_one_that_came_goes() -> None:
    counters = Counters(max_keys=2)
    for key in ("ann", "bob", "eve"):
        counters.use_up(key, LIMITS[0])
    assert [counters.remaining(key, LIMITS[0]) for key in ("ann", "bob", "eve")] == [0, 5, 0]


def test_a_key_that_is_peeked_or_denied_displaces_no_other() -> None:
    counters = Counters(max_keys=1)
    assert counters.take("ann", LIMITS[0])
    counters.remaining("bob", LIMITS[0])
    assert not counters.take("bob", LIMITS[0], 6)
    assert counters.remaining("ann", LIMITS[0]) == 4
