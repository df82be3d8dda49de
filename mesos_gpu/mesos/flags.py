"""Flags as Mesos programs take them: `--name=value`, `--name value`, `--no-name`, MESOS_NAME, `file:///path` values.

Source: Mesos 3rdparty/stout/include/stout/flags. Reading a file and the environment is left to the caller.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mesos_gpu.errors import BadFlag

_UNITS_S = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "secs": 1.0,
    "mins": 60.0,
    "hrs": 3600.0,
    "days": 86400.0,
    "weeks": 604800.0,
}
_DURATION = re.compile(r"^(\d+(?:\.\d+)?)(ns|us|ms|secs|mins|hrs|days|weeks)$")
_BYTES = re.compile(r"^(\d+)(B|KB|MB|GB|TB)$")
_SIZES = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_TRUE, _FALSE = {"true", "1"}, {"false", "0"}


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag. `kind` is a key of KINDS; `default` is the value itself, None when the flag may be absent.

    One with an empty `help` is taken but not shown by `--help`.
    """

    name: str
    kind: str
    default: Any
    help: str


class HelpAsked(Exception):
    """`--help` was given; `str()` is the text to print."""


def parse_flags(
    flags: Sequence[Flag],
    argv: Sequence[str],
    environ: Mapping[str, str],
    *,
    prefix: str = "MESOS_",
    read_file: Callable[[str], str] | None = None,
    usage: str = "",
) -> dict[str, Any]:
    """Return the value of every flag by name; the command line wins over the environment.

    Unknown variables with the prefix are ignored, as Mesos does; unknown flags are not. Raises BadFlag, or HelpAsked.
    """
    known = {flag.name: flag for flag in flags}
    texts: dict[str, str] = {}
    for flag in flags:
        text = environ.get(f"{prefix}{flag.name.upper()}")
        if text is not None:
            texts[flag.name] = text
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word in ("--help", "-h"):
            raise HelpAsked(help_text(flags, usage, prefix))
        name, text = _split(word, known, rest)
        texts[name] = text
    return {flag.name: _read(flag, texts, read_file) for flag in flags}


def help_text(flags: Sequence[Flag], usage: str, prefix: str) -> str:
    """Return what `--help` prints."""
    lines = [usage, "", f"Each flag may also be given as {prefix}<NAME> in the environment.", ""]
    for flag in sorted((flag for flag in flags if flag.help), key=lambda flag: flag.name):
        name = f"--[no-]{flag.name}" if flag.kind == "boolean" else f"--{flag.name}=VALUE"
        default = "" if flag.default is None else f" (default: {default_text(flag)})"
        lines.append(f"  {name}\n      {flag.help}{default}")
    return "\n".join(lines).lstrip("\n")


def parse_duration(text: str) -> float:
    """Return seconds of a Mesos duration such as `15secs` or `1.5mins`. Raises ValueError."""
    match = _DURATION.match(text.strip())
    if match is None:
        raise ValueError(f"'{text}' is not a duration; write a number and one of {', '.join(_UNITS_S)}, as in 15secs")
    return float(match[1]) * _UNITS_S[match[2]]


def format_duration(seconds: float) -> str:
    """Return a duration as Mesos prints it: the largest unit that leaves a whole number, `15secs`, `1mins`."""
    nanoseconds = round(seconds * 1e9)
    for unit, size in reversed(_UNITS_S.items()):
        step = round(size * 1e9)
        if nanoseconds and nanoseconds % step == 0:
            return f"{nanoseconds // step}{unit}"
    return "0ns"


def parse_bytes(text: str) -> int:
    """Return bytes of a Mesos size such as `32MB` (powers of 1024). Raises ValueError."""
    match = _BYTES.match(text.strip())
    if match is None:
        raise ValueError(f"'{text}' is not a size; write a number and one of {', '.join(_SIZES)}, as in 32MB")
    return int(match[1]) * _SIZES[match[2]]


def _boolean(text: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise ValueError(f"'{text}' is not true or false")


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a whole number") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a number") from None


def _list(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())


KINDS: Mapping[str, Callable[[str], Any]] = {
    "text": str,
    "path": str,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "duration": parse_duration,
    "bytes": parse_bytes,
    "list": _list,
}


def _split(word: str, known: Mapping[str, Flag], rest: list[str]) -> tuple[str, str]:
    """Return the name and text of the flag at `word`, taking its value from `rest` where it stands apart."""
    if not word.startswith("--"):
        raise BadFlag(word, "flags begin with --, and no other arguments are taken")
    name, equals, text = word[2:].partition("=")
    name = name.replace("-", "_") if name not in known and name.replace("-", "_") in known else name
    negated = name.removeprefix("no-").removeprefix("no_")
    if name not in known and negated in known and known[negated].kind == "boolean":
        if equals:
            raise BadFlag(negated, f"--no-{negated} takes no value")
        return negated, "false"
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        raise BadFlag(name, f"unknown flag; did you mean --{near[0]}?" if near else "unknown flag; see --help")
    if equals:
        return name, text
    if known[name].kind == "boolean":
        return name, "true"
    if not rest:
        raise BadFlag(name, "needs a value")
    return name, rest.pop(0)


def _read(flag: Flag, texts: Mapping[str, str], read_file: Callable[[str], str] | None) -> Any:
    if flag.name not in texts:
        return flag.default
    text = texts[flag.name]
    if flag.kind == "path":
        return text.removeprefix("file://")  # a path is meant, and what lies there may be a secret
    if text.startswith("file://") and read_file is not None:
        try:
            text = read_file(text.removeprefix("file://")).strip()
        except OSError as error:
            raise BadFlag(flag.name, f"cannot read {texts[flag.name]}: {error.strerror}") from None
    if text == "" and flag.kind == "boolean":
        return True  # Marathon's way of switching one on in the environment: MARATHON_HA=
    try:
        return KINDS[flag.kind](text)
    except ValueError as error:
        raise BadFlag(flag.name, str(error)) from None


def default_text(flag: Flag) -> str:
    """Return a flag's default as it would be written on the command line."""
    if flag.kind == "duration":
        return format_duration(flag.default)
    if flag.kind == "boolean":
        return str(flag.default).lower()
    return ",".join(flag.default) if flag.kind == "list" else str(flag.default)
