"""Answers of the service, one by one or in a batch, and the decisions they hold."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .decision import JSON_TYPE, PROBLEM_TYPE, Decision
from .errors import RequestRefused, ServiceUnavailable, TidegateError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")


class Unanswered(TidegateError):  # noqa: N818
    """No decision came; the fallback takes over. ``dead`` if nobody is there, as far as one can tell.

    ``sent`` if the request may have reached the service, which then may have done what it says.
    """

    def __init__(self, why: str, *, dead: bool = True, sent: bool = True) -> None:
        super().__init__(why)
        self.dead = dead
        self.sent = sent


@contextmanager
def or_unavailable(what: str) -> Iterator[None]:
    """Where no fallback can take over: raises `ServiceUnavailable`, which says what could not be done."""
    try:
        yield
    except Unanswered as why:
        raise ServiceUnavailable(f"{what}: {why}") from why


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, headers and body as they came."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: str
    read: Any = None
    """The body as JSON, where it has been read already."""
    is_second: bool = False
    """Whether the request was sent twice, for the connection ended while the first was on its way."""

    def members(self) -> dict[str, Any]:
        """The body as an object."""
        try:
            members = json.loads(self.body)
        except ValueError:
            members = None
        if not isinstance(members, dict):
            raise Unanswered(f"the answer (status {self.status}) is no JSON object")
        return members


def answer_of(status: int, headers: Iterable[tuple[bytes, bytes]], content: bytes) -> Answer:
    """An answer as the wire has it; raises `Unanswered` if its body is no text."""
    pairs = tuple((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers)
    try:
        return Answer(status, pairs, content.decode())
    except UnicodeDecodeError as error:
        raise Unanswered(f"the answer (status {status}) is no text") from error


def decision_of(answer: Answer) -> Decision:
    """The decision in an answer.

    Raises `Unanswered` for what the fallback is for, and `RequestRefused` for what the caller has to mend.
    """
    refuse(answer)
    allowed = answer.status == 200
    decision = Decision(
        allowed=allowed,
        status=answer.status,
        headers=tuple(pair for pair in answer.headers if is_rendered(pair[0])),
        content_type=_content_type(answer, allowed),
        body=answer.body,
    )
    if isinstance(answer.read, dict):
        decision.__dict__["json"] = answer.read  # where `cached_property` would put it
    try:
        said = decision.json.get("allowed")
    except ValueError:
        said = None
    if said is not allowed:
        raise Unanswered(f"the answer (status {answer.status}) is no decision")
    return decision


def refuse(answer: Answer) -> None:
    """Raises unless there is a decision: 200 or 429."""
    if answer.status in (200, 429):
        return
    detail = _detail(answer)
    if answer.status >= 500:
        raise Unanswered(f"the service answered {answer.status}: {detail}", dead=False)
    raise RequestRefused(answer.status, detail)


def is_rendered(name: str) -> bool:
    """Whether a header is about limits. Others belong to the connection, or to a proxy on the way."""
    return name.startswith(("ratelimit", "x-ratelimit")) or name == "retry-after"


def read_batch(text: str, expected: int) -> list[Answer]:
    """The answers of a batch, each body with the very bytes it came in."""
    try:
        answers = list(_elements(text))
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise Unanswered(f"the answer to a batch cannot be read: {error}") from error
    if len(answers) != expected:
        raise Unanswered(f"a batch of {expected} was answered with {len(answers)}")
    return answers


def _elements(text: str) -> Iterable[Answer]:
    at = _expect(text, 0, "[")
    while True:
        answer, at = _element(text, at)
        yield answer
        at = _skip(text, at)
        if text[at] == "]":
            return
        at = _expect(text, at, ",")


def _element(text: str, at: int) -> tuple[Answer, int]:
    """One object, of which the text of ``body`` is kept as it is."""
    members: dict[str, Any] = {}
    body = ""
    at = _expect(text, at, "{")
    while True:
        name, at = _DECODER.raw_decode(text, _skip(text, at))
        start = _skip(text, _expect(text, at, ":"))
        members[name], at = _DECODER.raw_decode(text, start)
        if name == "body":
            body = text[start:at]
        at = _skip(text, at)
        if text[at] == "}":
            headers = tuple((str(name).lower(), str(value)) for name, value in members["headers"].items())
            return Answer(int(members["status"]), headers, body, members["body"]), at + 1
        at = _expect(text, at, ",")


def _skip(text: str, at: int) -> int:
    # The service writes no spaces; whoever is between may.
    if text[at : at + 1] not in (" ", "\t", "\r", "\n"):
        return at
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _expect(text: str, at: int, what: str) -> int:
    at = _skip(text, at)
    if not text.startswith(what, at):
        raise ValueError(f"expected {what!r} at {at}")
    return at + 1


def _content_type(answer: Answer, allowed: bool) -> str:
    """In a batch it goes without saying."""
    default = JSON_TYPE if allowed else PROBLEM_TYPE
    return next((value for name, value in answer.headers if name == "content-type"), default)


def _detail(answer: Answer) -> str:
    try:
        return str(json.loads(answer.body)["detail"])
    except (ValueError, TypeError, KeyError):
        return answer.body[:200] or "it does not say why"
