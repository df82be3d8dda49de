"""Positions of values in a JSON text, and invisible characters. Pure."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],]|[^\s{}\[\],:"]+')

DEEPEST = 50
"""Levels that have places of their own; what lies deeper is placed with what holds it."""


class Position(NamedTuple):
    """A line and a column, both from 1; columns count characters."""

    line: int
    column: int


class Duplicate(NamedTuple):
    """A key that an object has twice; JSON readers keep only the last."""

    path: str
    key: str
    position: Position


@dataclass(frozen=True, slots=True)
class Places:
    """The place of every key (or list item) by Marathon's path, as in `/container/volumes(0)/mode`."""

    by_path: dict[str, Position]
    duplicates: list[Duplicate]

    def of(self, path: str, key: str | None = None) -> Position:
        """Return the place of `path`; of what holds it when it is not there; of `key` for a whole document."""
        if path == "/" and key is not None:
            path = f"/{key}"
        while path and path not in self.by_path:
            path = path[: max(path.rfind("/"), path.rfind("("), 0)]
        return self.by_path.get(path, Position(1, 1))


@dataclass(slots=True)
class _Frame:
    """An object or list that has been opened: its path, and its present key or item number."""

    path: str
    is_list: bool
    at: str = ""
    index: int = 0
    wants_key: bool = True
    seen: set[str] = field(default_factory=set)


def scan(text: str) -> Places:
    """Return the places of a valid JSON text."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def position(offset: int) -> Position:
        line = bisect_right(starts, offset)
        return Position(line, offset - starts[line - 1] + 1)

    places = Places({}, [])
    stack: list[_Frame] = []
    for match in _TOKEN.finditer(text):
        token, here = match.group(), position(match.start())
        frame = stack[-1] if stack else None
        if token in "}]":
            stack.pop()
        elif token == ",":
            if frame is not None:
                frame.index, frame.wants_key = frame.index + 1, True
        elif frame is not None and not frame.is_list and frame.wants_key:
            key = json.loads(token)
            frame.at, frame.wants_key = f"{frame.path}/{key}", False
            if key in frame.seen:
                places.duplicates.append(Duplicate(frame.at, key, here))
            frame.seen.add(key)
            if len(stack) <= DEEPEST:
                places.by_path[frame.at] = here
        else:
            if frame is None:
                path = ""
            elif frame.is_list:
                path = f"{frame.path}({frame.index})"
            else:
                path = frame.at
            if len(stack) > DEEPEST:
                path = stack[DEEPEST].path
            elif frame is None or frame.is_list:
                places.by_path.setdefault(path, here)
            if token in "{[":
                stack.append(_Frame(path, is_list=token == "["))
    return places


HIDDEN = {
    "\u00a0": "a non-breaking space (U+00A0)",
    "\u2007": "a figure space (U+2007)",
    "\u202f": "a narrow non-breaking space (U+202F)",
    "\u3000": "an ideographic space (U+3000)",
    "\u200b": "a zero-width space (U+200B)",
    "\u2060": "a word joiner (U+2060)",
    "\ufeff": "a byte order mark (U+FEFF)",
}
_ANY = "".join(HIDDEN)
_STRUCTURAL = re.compile(rf"^[ \t]*(?:-[ \t]+)*-?([{_ANY}])|:([{_ANY}])|([{_ANY}])[ \t{_ANY}]*:", re.MULTILINE)


def sentence(char: str) -> str:
    """Return what is to be said of such a character."""
    return f"{HIDDEN[char]} stands here, as copied text has it: it looks like a space and is none; type a space instead"


def structural(text: str) -> int | None:
    """Return where such a character first stands in place of the spaces that YAML is made of; None when it does not."""
    found = _STRUCTURAL.search(text)
    return None if found is None else next(found.start(n) for n in (1, 2, 3) if found[n] is not None)


def strange_key(value: object) -> str | None:
    """Return the first key of a document, at any depth, that begins or ends with such a character."""
    return next(_strange_keys(value), None)


def _strange_keys(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(key, str) and key.strip(_ANY) != key:
                yield key
            yield from _strange_keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strange_keys(inner)


def place_in(text: str, key: str) -> int:
    """Return where the strange character of a key stands in the text that has it."""
    at = max(0, text.find(key))
    return at if key[0] in HIDDEN else at + len(key) - 1
