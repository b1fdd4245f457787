"""Limits in code, such as ``"10/minute;200/hour"``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from .algorithms import ALGORITHMS
from .errors import InvalidLimit

MAX_COUNT = 2**53
"""The largest count or cost; a double holds it exactly, so that every language can."""

EXACT_UP_TO = 10
"""Limits in code of up to this many requests are exact by default (``sliding_log``)."""

_BUCKETS = ("token_bucket", "gcra", "leaky_bucket")

_SECOND_MS = 1000
_DAY_MS = 86_400 * _SECOND_MS

_WORDS_MS = {
    "second": _SECOND_MS,
    "minute": 60 * _SECOND_MS,
    "hour": 3600 * _SECOND_MS,
    "day": _DAY_MS,
    "week": 7 * _DAY_MS,
    # Nominal lengths of calendar windows, as the service reports them.
    "month": 30 * _DAY_MS,
    "year": 365 * _DAY_MS,
}
_UNITS_MS = {"ms": 1} | {word[0]: _WORDS_MS[word] for word in ("second", "minute", "hour", "day", "week")}

_SPELLINGS = {
    spelling: word
    for word, spellings in {
        "second": "second sec s",
        "minute": "minute min m",
        "hour": "hour hr h",
        "day": "day d",
        "week": "week w",
        "month": "month",
        "year": "year",
    }.items()
    for spelling in spellings.split()
}

_LIMIT = re.compile(r"\s*([0-9][0-9_]*)\s*(?:/|per)\s*([0-9]*)\s*([a-z]+)\s*", re.ASCII)
_DURATION = re.compile(r"([0-9]+)(ms|[smhdw])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit in code, with more than the text ``"200/hour"`` can express.

    >>> Limit(200, "hour", burst=50)
    >>> Limit(30, "10s", name="calm", algorithm="sliding_log")

    ``per`` is a unit (second, minute, hour, day, week, month, year) or a duration such as ``250ms``, ``90s``
    or ``1h30m``. ``algorithm`` is any of the service's; it defaults to ``token_bucket`` if there is a
    ``burst``, else to ``sliding_log``, which is exact, for up to 10 requests and to ``sliding_window`` above.

    A limit with a ``name`` keeps its counter when its numbers change, as long as the window and the
    algorithm stay. Without ``algorithm``, the algorithm changes between 10 and 11 requests.
    """

    requests: int
    per: str
    name: str | None = None
    algorithm: str | None = None
    burst: int | None = None

    def __post_init__(self) -> None:
        for what, count in (("requests", self.requests), ("burst", self.burst)):
            if count is not None and not 0 <= count <= MAX_COUNT:
                raise InvalidLimit(f"{what} of a limit must be 0 to {MAX_COUNT}, got {count}")
        _window_ms(self.per)
        if self.algorithm is not None and self.algorithm not in ALGORITHMS:
            known = ", ".join(ALGORITHMS)
            raise InvalidLimit(f"algorithm of a limit must be one of {known}, got {self.algorithm!r}")
        if self.burst is not None and self.applied_algorithm not in _BUCKETS:
            raise InvalidLimit(
                f"{self.applied_algorithm} has no burst; leave it out, or use one of {', '.join(_BUCKETS)}"
            )

    @property
    def applied_algorithm(self) -> str:
        """The algorithm that counts, given or by default; ``gcra`` is another name of ``token_bucket``."""
        if self.algorithm is not None:
            return "token_bucket" if self.algorithm == "gcra" else self.algorithm
        if self.burst is not None:
            return "token_bucket"
        return "sliding_log" if self.requests <= EXACT_UP_TO else "sliding_window"

    @property
    def depth(self) -> int:
        """Units that may pass at once: the burst of a bucket, or the requests of other algorithms."""
        if self.burst is not None:
            return self.burst
        return 1 if self.applied_algorithm == "leaky_bucket" else self.requests

    @property
    def identity(self) -> tuple[object, ...]:
        """What tells the counters of this limit from those of other limits in the same scope."""
        window = (self.window_ms, self.applied_algorithm)
        return (*window, self.name) if self.name is not None else (*window, self.requests, self.depth)

    @property
    def window_ms(self) -> int:
        """The length of the window in milliseconds; months have 30 days and years 365."""
        return _window_ms(self.per)

    @property
    def window(self) -> str:
        """The window as the service writes it: ``60s`` is ``minute``, and ``2d`` is ``48h``."""
        length_ms = self.window_ms
        for word, word_ms in _WORDS_MS.items():
            if length_ms == word_ms:
                return word
        unit = next(unit for unit in ("h", "m", "s", "ms") if length_ms % _UNITS_MS[unit] == 0)
        return f"{length_ms // _UNITS_MS[unit]}{unit}"

    def to_json(self) -> dict[str, Any]:
        """Returns the limit as the service expects it in JSON."""
        members: dict[str, Any] = {"requests": self.requests, "per": self.per}
        others = (("name", self.name), ("algorithm", self.algorithm), ("burst", self.burst))
        members.update(pair for pair in others if pair[1] is not None)
        return members


LimitsLike: TypeAlias = str | Limit | Sequence[str | Limit]
"""A text such as ``"10/minute;200/hour"``, a `Limit`, or a list of either."""


@lru_cache(maxsize=1024)
def parse_limits(text: str) -> tuple[Limit, ...]:
    """Returns the limits in a text; raises `InvalidLimit` if it cannot be parsed.

    >>> parse_limits("10/minute; 200 per hour")
    (Limit(requests=10, per='minute'), Limit(requests=200, per='hour'))

    The syntax is ``COUNT/UNIT`` or ``COUNT per UNIT``, several joined by ``;`` or ``,``.
    """
    return _checked_unique(tuple(_parse_limit(part, text) for part in re.split("[;,]", text)), text)


def limits_of(limits: LimitsLike | None) -> tuple[Limit, ...]:
    """Returns a list of limits from any of the accepted forms; ``None`` is an empty list."""
    if limits is None:
        return ()
    if isinstance(limits, str):
        return parse_limits(limits)
    if isinstance(limits, Limit):
        return (limits,)
    found = tuple(limit for some in limits for limit in limits_of(some))
    if not found:
        raise InvalidLimit('limits must have at least one limit, such as "10/minute", got an empty list')
    return _checked_unique(found, limits)


def titles_of(limits: Sequence[Limit]) -> list[str]:
    """Returns the names of the limits of one list in decisions, as the service names them.

    A limit without a name is named by its window, with as many of its numbers as distinguish it from the
    others.
    """
    forms = [[limit.name] * 3 if limit.name is not None else _title_candidates(limit) for limit in limits]
    columns = list(zip(*forms, strict=True))
    return [
        next(
            (form for form, column in zip(own, columns, strict=True) if column.count(form) == 1),
            f"{limit.requests}/{limit.window} ({index})",
        )
        if limit.name is None
        else limit.name
        for index, (limit, own) in enumerate(zip(limits, forms, strict=True), start=1)
    ]


def _title_candidates(limit: Limit) -> list[str]:
    """Returns the names that a limit without a name may get, shortest first."""
    is_default = limit.algorithm is None and limit.burst is None
    algorithm = "default" if is_default else limit.applied_algorithm
    burst = "" if limit.burst is None else f" burst {limit.burst}"
    short = f"{limit.requests}/{limit.window}"
    return [limit.window, short, f"{short} {algorithm}{burst}"]


def _checked_unique(limits: tuple[Limit, ...], given: object) -> tuple[Limit, ...]:
    """Returns the limits; raises if two have the same name or counter, which the service would refuse."""
    names = [limit.name for limit in limits if limit.name is not None]
    if len(set(names)) < len(names):
        raise InvalidLimit(f"{given!r} has two limits with the same name; give each a name of its own")
    if len({limit.identity for limit in limits}) < len(limits):
        raise InvalidLimit(f"{given!r} has the same limit twice; remove one, or give each a name")
    return limits


def _parse_limit(part: str, text: str) -> Limit:
    found = _LIMIT.fullmatch(part.lower())
    if found is None:
        raise _invalid(text, "is not a valid limit")
    count = int(found[1].replace("_", ""))
    if count > MAX_COUNT:
        raise _invalid(text, f"allows more than {MAX_COUNT}")
    return Limit(count, _unit(found[2], found[3], text))


def _unit(number: str, word: str, text: str) -> str:
    if word == "ms" and number and int(number) > 0:
        return f"{int(number)}ms"
    unit = _SPELLINGS.get(word) or _SPELLINGS.get(word.removesuffix("s"))
    if unit is None or word == "ms":
        raise _invalid(text, f"has the unknown unit {word!r}")
    if not number:
        return unit
    if int(number) == 0:
        raise _invalid(text, "has a window of length 0")
    if unit in ("month", "year"):
        raise _invalid(text, f"has a multiple of a {unit}, which has no fixed length")
    return f"{int(number)}{unit[0]}"


def _invalid(text: str, why: str) -> InvalidLimit:
    return InvalidLimit(f'{text!r} {why}; write limits like "10/minute", "5 per 30s" or "10/minute;200/hour"')


@lru_cache(maxsize=1024)
def _window_ms(per: str) -> int:
    if per in _WORDS_MS:
        return _WORDS_MS[per]
    parts = _DURATION.findall(per)
    length_ms = sum(int(number) * _UNITS_MS[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != per or length_ms == 0:
        words = ", ".join(_WORDS_MS)
        raise InvalidLimit(
            f"per must be one of {words}, or a duration such as 250ms, 90s or 1h30m, got {per!r}"
        )
    return length_ms
