"""Responses of the service, one by one or in a batch, and the decisions in them."""

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


class CallFailed(TidegateError):  # noqa: N818
    """A call to the service had no usable response, so the fallback decides.

    ``is_down`` is false if the service responded with an error, so that it is known to run. ``sent`` is true
    if the request may have reached the service, and may have been executed there.
    """

    def __init__(self, why: str, *, is_down: bool = True, sent: bool = True) -> None:
        super().__init__(why)
        self.is_down = is_down
        self.sent = sent


@contextmanager
def raise_unavailable(what: str) -> Iterator[None]:
    """Turns `CallFailed` into `ServiceUnavailable`, for calls that have no fallback."""
    try:
        yield
    except CallFailed as why:
        raise ServiceUnavailable(f"{what}: {why}") from why


@dataclass(frozen=True, slots=True)
class ServiceResponse:
    """A response as it was received. Header names are in lower case."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: str
    json: Any = None
    """The parsed body, where it has been parsed already."""
    was_resent: bool = False
    """Whether the request was sent a second time, because the first connection was closed meanwhile."""

    def members(self) -> dict[str, Any]:
        """Returns the members of the body; raises `CallFailed` if it is not a JSON object."""
        try:
            members = json.loads(self.body)
        except ValueError:
            members = None
        if not isinstance(members, dict):
            raise CallFailed(f"the service sent a response (status {self.status}) that is not a JSON object")
        return members


def parse_response(status: int, headers: Iterable[tuple[bytes, bytes]], content: bytes) -> ServiceResponse:
    """Returns a response from what was received; raises `CallFailed` if its body is not UTF-8."""
    pairs = tuple((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers)
    try:
        return ServiceResponse(status, pairs, content.decode())
    except UnicodeDecodeError as error:
        raise CallFailed(f"the service sent a response (status {status}) that is not UTF-8") from error


def parse_decision(response: ServiceResponse) -> Decision:
    """Returns the decision in a response.

    Raises `CallFailed` if the fallback has to decide, and `RequestRefused` if the request was invalid.
    """
    raise_for_status(response)
    allowed = response.status == 200
    decision = Decision(
        allowed=allowed,
        status=response.status,
        headers=tuple(pair for pair in response.headers if is_limit_header(pair[0])),
        content_type=_content_type(response, allowed),
        body=response.body,
    )
    if isinstance(response.json, dict):
        decision.__dict__["json"] = response.json  # where `cached_property` would put it
    try:
        body_allowed = decision.json.get("allowed")
    except ValueError:
        body_allowed = None
    if body_allowed is not allowed:
        raise CallFailed(f"the service sent a response (status {response.status}) that is not a decision")
    return decision


def raise_for_status(response: ServiceResponse) -> None:
    """Raises `CallFailed` for 5xx and `RequestRefused` for any other status but 200 and 429."""
    if response.status in (200, 429):
        return
    detail = _detail(response)
    if response.status >= 500:
        raise CallFailed(f"the service responded with {response.status}: {detail}", is_down=False)
    raise RequestRefused(response.status, detail)


def is_limit_header(name: str) -> bool:
    """Returns whether a header is about limits. Others belong to the connection, or to a proxy on the way."""
    return name.startswith(("ratelimit", "x-ratelimit")) or name == "retry-after"


def parse_batch(text: str, expected: int) -> list[ServiceResponse]:
    """Returns the responses in the body of a batch, each with its own body byte for byte."""
    try:
        responses = list(_elements(text))
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise CallFailed(f"the response to a batch cannot be parsed: {error}") from error
    if len(responses) != expected:
        raise CallFailed(f"the response to a batch of {expected} checks has {len(responses)} elements")
    return responses


def _elements(text: str) -> Iterable[ServiceResponse]:
    at = _expect(text, 0, "[")
    while True:
        response, at = _element(text, at)
        yield response
        at = _skip(text, at)
        if text[at] == "]":
            return
        at = _expect(text, at, ",")


def _element(text: str, at: int) -> tuple[ServiceResponse, int]:
    """Parses one object and keeps the text of ``body`` as it is."""
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
            return ServiceResponse(int(members["status"]), headers, body, members["body"]), at + 1
        at = _expect(text, at, ",")


def _skip(text: str, at: int) -> int:
    # The service writes no spaces; a proxy may.
    if text[at : at + 1] not in (" ", "\t", "\r", "\n"):
        return at
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _expect(text: str, at: int, what: str) -> int:
    at = _skip(text, at)
    if not text.startswith(what, at):
        raise ValueError(f"expected {what!r} at {at}")
    return at + 1


def _content_type(response: ServiceResponse, allowed: bool) -> str:
    """Returns the content type; elements of a batch have no such header."""
    default = JSON_TYPE if allowed else PROBLEM_TYPE
    return next((value for name, value in response.headers if name == "content-type"), default)


def _detail(response: ServiceResponse) -> str:
    try:
        return str(json.loads(response.body)["detail"])
    except (ValueError, TypeError, KeyError):
        return response.body[:200] or "no reason was given"
