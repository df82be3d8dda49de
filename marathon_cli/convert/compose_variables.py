"""Variables as Compose finds them: `$NAME` filled in, `.env` beside the file, and what `env_file` names. Pure.

Source: the Compose specification (interpolation, env_file).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from marathon_cli.convert import env_files
from marathon_cli.convert.env_files import ReadFile, Variable
from marathon_cli.convert.model import Notes, Place
from mesos_gpu.errors import BadInput

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
        for variable in env_files.compose(read_file(".env") if read_file is not None else ""):
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
        variables = list(env_files.docker(text) if named.raw else env_files.compose(text))
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
