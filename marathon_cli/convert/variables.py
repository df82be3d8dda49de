"""Environment variables: of env files, of .env, and in the place of ${NAME} in Compose files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from marathon_cli.convert.model import Notes, Place
from mesos_gpu.errors import BadInput

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


_VARIABLE = re.compile(r"\$(?:(\$)|([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?:(:?[-?+])([^}]*))?\})")
_INSTEAD = "write its variables into the result"


class EnvFile(NamedTuple):
    """A file of variables that a source names. `raw`: in docker's own format, where quotes and `$` mean nothing."""

    at: Place
    path: str
    required: bool = True
    raw: bool = False


def interpolate(text: str, environ: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return a text with its `$VARIABLES` replaced, as Compose does, and those that have no value."""
    unknown: list[str] = []

    def value(found: re.Match[str]) -> str:
        if found[1]:
            return "$"
        name, operator, other = found[2] or found[3], found[4] or "", found[5] or ""
        there = name in environ and (not operator.startswith(":") or environ[name] != "")
        if operator.endswith("+"):
            return other if there else ""
        if there:
            return environ[name]
        if not operator.endswith("-"):
            unknown.append(name)
            return found[0]
        return other

    return _VARIABLE.sub(value, text), unknown


def dot_env(environ: Mapping[str, str], read_file: ReadFile | None) -> dict[str, str]:
    """Return the variables of the `.env` beside a file; none where there is none, or none that can be read."""
    found: dict[str, str] = {}
    try:
        for variable in compose(read_file(".env") if read_file is not None else ""):
            if variable.value is not None:
                text, literal = variable.value, variable.literal
                found[variable.name] = text if literal else interpolate(text, {**found, **environ})[0]
    except (BadInput, ValueError):
        return {}
    return found


def file_variables(
    named: EnvFile, environ: Mapping[str, str], read_file: ReadFile | None, notes: Notes
) -> dict[str, str]:
    """Return the variables of a file that is named; where it cannot be read, that is noted. Raises BadInput."""
    if read_file is None:
        notes.lost(named.at, f"{named.path} cannot be read from here; {_INSTEAD}")
        return {}
    try:
        text = read_file(named.path)
    except BadInput as error:
        if named.required:
            notes.lost(named.at, f"{error}; {_INSTEAD}")
        return {}
    try:
        variables = list(docker(text) if named.raw else compose(text))
    except ValueError as error:
        raise notes.bad(named.at, f"{named.path}: {error}") from None
    found: dict[str, str] = {}
    for variable in variables:
        value = _value(variable, {**found, **environ}, named, notes)
        if value is not None:
            found[variable.name] = value
    return found


def _value(variable: Variable, environ: Mapping[str, str], named: EnvFile, notes: Notes) -> str | None:
    if variable.value is None:
        return environ.get(variable.name)
    if variable.literal:
        return variable.value
    value, unknown = interpolate(variable.value, environ)
    for name in unknown:
        where = f"{named.path}, line {variable.line}"
        notes.check(named.at, f"{where}: {name} is not set in the environment: write its value")
    return value
