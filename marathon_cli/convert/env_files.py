"""Files of variables: Compose's `env_file` and `.env`, and docker's `--env-file`. Pure: the texts come in.

Sources: the Compose specification (env_file, interpolation of .env files); Docker's reference of `--env-file`, where
quotes and `$` mean nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

ReadFile = Callable[[str], str]
"""Returns the text of a file that a source names, relative to it. Raises BadInput for one that cannot be read."""

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_NOTHING = re.compile(r"[^\S\n]*(?:#[^\n]*)?(?:\n|\Z)")
_LINE = re.compile(
    r"""
    \s* (?:export\s+)? (?P<name>[^\s=:#"']+) [^\S\n]*
    (?: [=:] [^\S\n]* (?: '(?P<single>[^']*)' | "(?P<double>(?:[^"\\]|\\.)*)" | (?P<plain>[^\n]*) ) )?
    [^\S\n]* (?P<rest>[^\n]*)
    """,
    re.VERBOSE | re.DOTALL,
)


class Variable(NamedTuple):
    """One line of a file. `value` is None where the variable is taken from the environment; `literal`: `$` is a `$`."""

    name: str
    value: str | None
    line: int
    literal: bool = False


def compose(text: str) -> Iterator[Variable]:
    """Yield the variables of a file as Compose reads it: quotes, `#` behind a space, `export`, several lines in quotes.

    Raises ValueError for a line that is none.
    """
    at = 0
    while at < len(text):
        nothing = _NOTHING.match(text, at)
        if nothing is not None:
            at = nothing.end()
            continue
        line = text.count("\n", 0, at) + 1
        found = _LINE.match(text, at)
        if found is None or (found["rest"] and not found["rest"].startswith("#")):
            said = text[at:].partition("\n")[0].strip()
            raise ValueError(f"line {line}: {said!r} is not NAME=VALUE")
        at = found.end() + 1
        if found["single"] is not None:
            yield Variable(found["name"], found["single"], line, literal=True)
        elif found["double"] is not None:
            unescaped = re.sub(r"\\([nrt\"\\])", lambda m: _ESCAPES.get(m[1], m[1]), found["double"])
            yield Variable(found["name"], unescaped, line)
        elif found["plain"] is not None:
            yield Variable(found["name"], re.split(r"(?:^|\s)#", found["plain"])[0].strip(), line)
        else:
            yield Variable(found["name"], None, line)


def docker(text: str) -> Iterator[Variable]:
    """Yield the variables of a file as `docker run --env-file` reads it: what stands behind `=` is the value."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            name, equals, value = line.lstrip().partition("=")
            if not name or name != name.strip():
                raise ValueError(f"line {number}: {line.strip()!r} is not NAME=VALUE")
            yield Variable(name, value if equals else None, number, literal=True)
