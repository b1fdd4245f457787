"""Limiters that have neither a name nor a route are numbered, but never so that none of them denies."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from support.apps import hello, web
from tidegate import Tidegate, TidegateMiddleware, warnings
from tidegate.limits import limits_of
from tidegate.scope import MAX_NUMBER, LimiterScope

pytestmark = pytest.mark.anyio


def scope_of(limits: str | None = "3/hour") -> LimiterScope:
    return LimiterScope(None, None if limits is None else limits_of(limits), eager=True)


def name_of(limiter: LimiterScope) -> str:
    return limiter.route_of({"type": "http", "method": "GET", "path": "/"})


async def test_a_limiter_made_per_request_denies() -> None:
    async with Tidegate.local() as client:

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await TidegateMiddleware(hello, "3/hour", client=client)(scope, receive, send)

        async with web(app) as asking:
            statuses = [(await asking.get("/")).status_code for _ in range(8)]
    assert statuses == [200] * 3 + [429] * 5


async def test_limiters_created_within_requests_share_a_scope() -> None:
    kept = []
    async with Tidegate.local() as client:

        async def app(scope: Any, receive: Any, send: Any) -> None:
            kept.append(TidegateMiddleware(hello, "3/hour", client=client))
            await kept[-1](scope, receive, send)

        async with web(TidegateMiddleware(app, "100/hour", client=client)) as asking:
            statuses = [(await asking.get("/")).status_code for _ in range(8)]
    assert statuses == [200] * 3 + [429] * 5


async def test_limiters_created_before_have_separate_scopes_though_a_request_numbers_them() -> None:
    first, second = (LimiterScope(None, limits_of("3/hour")) for _ in range(2))
    marks = type("RequestState", (), {})()
    warnings.note_request(marks)
    assert warnings.is_within_request()
    assert [name_of(first), name_of(second)] == ["limiter", "limiter#2"]


@pytest.mark.parametrize(("limits", "word"), [("3/hour", "limiter"), (None, "limiter:dynamic")])
def test_the_number_of_scopes_is_bounded(limits: str | None, word: str) -> None:
    kept = [scope_of(limits) for _ in range(MAX_NUMBER + 10)]
    names = [name_of(one) for one in kept]
    assert len(set(names)) == MAX_NUMBER
    assert names[:2] == [word, f"{word}#2"]
    assert set(names[MAX_NUMBER - 1 :]) == {f"{word}#{MAX_NUMBER}"}


def test_the_highest_number_is_free_again_when_its_limiter_is_gone() -> None:
    first, second, third = (scope_of("3/hour;9/day") for _ in range(3))
    del third
    gc.collect()
    again = scope_of("9/day")
    assert name_of(again) == "limiter#3"
    del first
    gc.collect()
    assert name_of(scope_of()) == "limiter#3", "a number below the highest stays taken"
    assert [name_of(second), name_of(again)] == ["limiter#2", "limiter#3"]


def test_a_number_can_be_freed_while_another_is_taken() -> None:
    """The collector may run at any time, and then a limiter that is gone frees its number."""
    for _ in range(50):
        cycle: list[object] = [scope_of()]
        cycle.append(cycle)
        del cycle
    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        kept = [scope_of() for _ in range(50)]
    finally:
        gc.set_threshold(*before)
    assert len({name_of(one) for one in kept}) == 50
