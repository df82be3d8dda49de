"""The text of a file of profiles: sections in brackets, `key = value` lines, comments after # or ;. Pure.

    use = production

    [production]
    marathon-url = https://marathon.example.org
    user = ci

Changes are made line by line, so that comments and order stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from marathon_cli.connection.settings import REMOVED, check, key_named
from mesos_gpu.errors import BadInput

USE = "use"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SECTION = re.compile(r"\[\s*(.*?)\s*\]\s*(?:[#;].*)?")


class _Line(NamedTuple):
    number: int
    section: str | None
    key: str | None
    value: str


class Profiles(NamedTuple):
    """What a file says: the profile in use, and the settings of each."""

    use: str | None
    profiles: Mapping[str, Mapping[str, str]]


def parse(text: str, where: str) -> Profiles:
    """Read a file. Raises BadInput with every line that is wrong; `where` names the file."""
    problems: list[str] = []
    use: str | None = None
    profiles: dict[str, dict[str, str]] = {}
    for line in _lines(text, problems):
        try:
            if line.section is None:
                if line.key != USE:
                    raise BadInput(f"before the first [profile] there may be only `{USE} = PROFILE`")
                use = line.value
                continue
            settings = profiles.setdefault(line.section, {})
            if line.key is None or line.key in REMOVED:
                continue
            key = key_named(line.key)
            if key.name in settings:
                raise BadInput(f"{key.name} is set twice in [{line.section}]")
            check(key, line.value, key.name)
            settings[key.name] = line.value
        except BadInput as error:
            problems.append(f"line {line.number}: {error}")
    if problems:
        raise BadInput("\n  ".join([f"{where} cannot be used:", *problems]))
    return Profiles(use, profiles)


def check_name(name: str) -> str:
    """Return the name of a profile, if it is one. Raises BadInput."""
    if not NAME.fullmatch(name):
        raise BadInput(f"{name!r} is not a name of a profile: write letters, digits and . _ -, no sign first")
    return name


def with_value(text: str, section: str | None, key: str, value: str | None) -> str:
    """Return the text with a value set (None: taken out) in a section; None is what stands before the first."""
    lines = text.splitlines()
    known = [line for line in _lines(text, []) if line.section == section]
    at = next((line.number - 1 for line in known if line.key is not None and _same(line.key, key)), None)
    if value is None:
        if at is not None:
            del lines[at]
    elif at is not None:
        lines[at] = f"{key} = {value}"
    elif section is None:
        lines.insert(0, f"{key} = {value}")
    elif known:
        lines.insert(max(line.number for line in known), f"{key} = {value}")
    else:
        lines += [*([""] if lines else []), f"[{section}]", f"{key} = {value}"]
    return "\n".join(lines) + "\n" if lines else ""


def without(text: str, section: str) -> str:
    """Return the text without a section and all that is in it."""
    kept: list[str] = []
    inside = False
    for line in text.splitlines():
        found = _SECTION.fullmatch(line.strip())
        inside = found.group(1) == section if found else inside
        if not inside:
            kept.append(line)
    return "\n".join(kept).rstrip("\n") + "\n" if any(line.strip() for line in kept) else ""


def _lines(text: str, problems: list[str]) -> Iterator[_Line]:
    section: str | None = None
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if not bare or bare[0] in "#;":
            continue
        headline = _SECTION.fullmatch(bare)
        if headline:
            section = headline.group(1)
            if NAME.fullmatch(section):
                yield _Line(number, section, None, "")
            else:
                problems.append(f"line {number}: [{section}] is not a name of a profile")
            continue
        key, equals, value = bare.partition("=")
        if not equals:
            problems.append(f"line {number}: {bare[:40]!r} is neither [profile] nor key = value")
            continue
        yield _Line(number, section, key.strip(), _unquoted(value.strip()))


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"" else value


def _same(one: str, other: str) -> bool:
    return one.replace("_", "-") == other.replace("_", "-")
