"""Parses lists of structured fields (RFC 9651), as far as ``RateLimit`` and ``RateLimit-Policy`` use them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

Bare: TypeAlias = int | float | bool | str | bytes

_TOKEN = re.compile(r"[A-Za-z*][A-Za-z0-9!#$%&'*+.^_`|~:/-]*", re.ASCII)
_STRING = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"')
_NUMBER = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,3})?", re.ASCII)
_BYTES = re.compile(r":([A-Za-z0-9+/=]*):", re.ASCII)
_BOOLEAN = re.compile(r"\?([01])")
_KEY = re.compile(r"[a-z*][a-z0-9_.*-]*", re.ASCII)
_SPACE = re.compile(r"[ \t]*")


@dataclass(frozen=True, slots=True)
class Item:
    """A member of a list, with its parameters."""

    value: Bare
    parameters: dict[str, Bare]

    def count(self, name: str) -> int | None:
        """Returns a parameter if it is a whole number, 0 or more; ``None`` otherwise."""
        value = self.parameters.get(name)
        return value if type(value) is int and value >= 0 else None


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.at)
        if found:
            self.at = found.end()
        return found

    def skip(self, character: str) -> bool:
        if self.text.startswith(character, self.at):
            self.at += 1
            return True
        return False

    def is_done(self) -> bool:
        return self.at == len(self.text)


def parse_list(text: str) -> list[Item] | None:
    """Returns the members of a list; ``None`` if it is invalid. Inner lists are not supported."""
    reader = _Reader(text.strip(" \t"))
    items: list[Item] = []
    while not reader.is_done():
        item = _item(reader)
        if item is None:
            return None
        items.append(item)
        reader.take(_SPACE)
        if reader.is_done():
            return items
        if not reader.skip(","):
            return None
        reader.take(_SPACE)
        if reader.is_done():  # a comma with nothing after it
            return None
    return items


def _item(reader: _Reader) -> Item | None:
    value = _bare(reader)
    if value is None:
        return None
    parameters: dict[str, Bare] = {}
    while reader.skip(";"):
        reader.take(re.compile(" *"))
        key = reader.take(_KEY)
        if key is None:
            return None
        parameter: Bare | None = _bare(reader) if reader.skip("=") else True
        if parameter is None:
            return None
        parameters[key[0]] = parameter
    return Item(value, parameters)


def _bare(reader: _Reader) -> Bare | None:
    if found := reader.take(_STRING):
        return re.sub(r"\\(.)", r"\1", found[1])
    if found := reader.take(_TOKEN):
        return found[0]
    if found := reader.take(_NUMBER):
        return float(found[0]) if "." in found[0] else int(found[0])
    if found := reader.take(_BYTES):
        return found[1].encode("ascii")
    if found := reader.take(_BOOLEAN):
        return found[1] == "1"
    return None
