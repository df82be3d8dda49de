"""Lines for a shell: split into words with the lines they stand on, and joined of words."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

_VARIABLE = re.compile(r"\$(?:\{[^}]*\}|[A-Za-z_][A-Za-z0-9_]*|\(.*?\))|`[^`]*`", re.S)
_QUOTED = r"""'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|\\(?P<escaped>.)"""
_ENDS = ";|&<>"


class Word(NamedTuple):
    """A word of a command line; `left` is what a shell would have replaced in it, such as `$PWD`."""

    text: str
    line: int
    left: str = ""


def join(words: Sequence[str]) -> str:
    """Return words as one line for a shell."""
    return shlex.join(words)


def commands(text: str) -> list[list[Word]]:
    """Return the words of each command of a script.

    Quotes, backslashes, continued lines and comments mean what they mean to a shell; variables are left as they are,
    and whatever ends or redirects a command begins the next. Raises ValueError for a quote without an end.
    """
    found: list[list[Word]] = [[]]
    line, i = 1, 0
    while i < len(text):
        char = text[i]
        if text.startswith("\\\n", i):
            line, i = line + 1, i + 2
        elif char == "\n" or char in _ENDS:
            line, i = line + (char == "\n"), i + 1
            found.append([])
        elif char.isspace():
            i += 1
        elif char == "#":
            i = text.find("\n", i) if "\n" in text[i:] else len(text)
        else:
            start, i = i, _end(text, i)
            raw = text[start:i]
            found[-1].append(Word(_unquoted(raw), line, _left(raw)))
            line += raw.count("\n")
    return [words for words in found if words]


def _end(text: str, i: int) -> int:
    """Return where the word that begins at `i` ends."""
    while i < len(text) and not text[i].isspace() and text[i] not in _ENDS:
        if text[i] == "\\":
            i += 2
        elif text[i] == "'":
            i = _after(text, i + 1, "'")
        elif text[i] == '"':
            i += 1
            while i < len(text) and text[i] != '"':
                i += 2 if text[i] == "\\" else 1
            i = _after(text, i, '"')
        elif text.startswith(("$(", "${"), i):
            i = _after(text, i, ")" if text[i + 1] == "(" else "}")
        else:
            i += 1
    return min(i, len(text))


def _after(text: str, i: int, mark: str) -> int:
    end = text.find(mark, i)
    if end < 0:
        raise ValueError(f"a {mark} is missing")
    return end + 1


def _unquoted(raw: str) -> str:
    def plain(found: re.Match[str]) -> str:
        if found["single"] is not None:
            return found["single"]
        if found["double"] is not None:
            return re.sub(r'\\(\n|["\\$`])', lambda m: "" if m[1] == "\n" else m[1], found["double"])
        return "" if found["escaped"] == "\n" else found["escaped"]

    return re.sub(_QUOTED, plain, raw, flags=re.S)


def _left(raw: str) -> str:
    """Return the first part of a word that a shell would have replaced; in single quotes it replaces nothing."""
    open_to_it = re.sub(_QUOTED, lambda found: found["double"] or "", raw, flags=re.S)
    found = _VARIABLE.search(re.sub(r"\\.", "", open_to_it, flags=re.S))
    return found[0] if found else ""
