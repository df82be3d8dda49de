"""Reads an app file and says everything that is wrong with it before it travels: where, what, and what to do."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from marathon_cli.positions import scan
from mesos_gpu.errors import BadInput, InvalidApp, Problem

if TYPE_CHECKING:
    from mesos_gpu.marathon.app import AppRules

_NO_NUMBER = re.compile(r"-?(?:NaN|Infinity)\b")
_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Source:
    """A text and what to call it."""

    name: str
    text: str

    def at(self, offset: int) -> str:
        """Return `name:line:column` of a character, counted from 1."""
        line = self.text.count("\n", 0, offset) + 1
        return f"{self.name}:{line}:{offset - self.text.rfind(chr(10), 0, offset)}"


def read_source(path: str) -> Source:
    """Return the text of a file, or of standard input for `-`. Raises BadInput."""
    name = "standard input" if path == "-" else path
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from None
    try:
        return Source(name, data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{name}:{line}: not UTF-8 text (byte 0x{data[error.start]:02x})") from None


def parse(source: Source) -> Any:
    """Return the JSON document of a source. Raises BadInput with line, column and the line itself."""
    if not source.text.strip():
        raise BadInput(f"{source.name}: is empty; an app definition in JSON was expected")
    try:
        return json.loads(source.text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise BadInput(_pointed(source, error.pos, f"not JSON: {error.msg}")) from None
    except _NotANumber as error:
        match = _NO_NUMBER.search(re.sub(r'"(?:[^"\\]|\\.)*"', lambda text: "_" * len(text.group()), source.text))
        raise BadInput(_pointed(source, match.start() if match else 0, f"not JSON: {error} is no number")) from None
    except (ValueError, RecursionError) as error:
        sentence = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise BadInput(f"{source.name}: not JSON that can be read: {sentence}") from None


def check_app(source: Source, document: Any, rules: AppRules) -> dict[str, Any]:
    """Return the canonical app. Raises BadInput with every problem found: unknown keys, values, contradictions."""
    from mesos_gpu.marathon.app import read_app, unknown_keys

    problems: list[Problem] = []
    canonical: dict[str, Any] = {}
    if isinstance(document, dict):
        problems += unknown_keys(document)
        problems += [
            Problem(twice.path, "error.duplicate.key", f"key `{twice.key}` is there twice", "keep one of them")
            for twice in scan(source.text).duplicates
        ]
    try:
        canonical = read_app(document, rules)
    except InvalidApp as error:
        problems += error.problems
    if problems:
        raise BadInput(report(source, problems))
    return canonical


def report(source: Source, problems: Sequence[Problem], *, by: str = "") -> str:
    """Return a text of one headline and, for each problem, place, path, sentence and advice, in the file's order."""
    places = scan(source.text)
    placed = [(places.of(problem.path, problem.key), problem) for problem in dict.fromkeys(problems)]
    placed.sort(key=lambda pair: pair[0])
    count = "1 problem" if len(placed) == 1 else f"{len(placed)} problems"
    lines = [f"{source.name}: {count}{by}; nothing was changed"]
    for place, problem in placed:
        lines.append(f"{source.name}:{place.line}:{place.column}: {problem.path}: {problem.message}")
        if problem.suggestion:
            lines.append(f"    {problem.suggestion}")
    return "\n".join(lines)


class _NotANumber(Exception):
    pass


def _refuse_constant(name: str) -> NoReturn:
    raise _NotANumber(name)


def _pointed(source: Source, offset: int, sentence: str) -> str:
    """Return the sentence with its place, the line it is about, and a mark under the character."""
    start = source.text.rfind("\n", 0, offset) + 1
    line = source.text[start:].partition("\n")[0].rstrip("\r")
    column = min(offset - start, len(line))
    cut = max(0, column - _WIDTH // 2)
    # Tabs stay tabs under the line, so that the mark stands where the eye expects it.
    margin = "".join("\t" if char == "\t" else " " for char in line[cut:column])
    return f"{source.at(offset)}: {sentence}\n    {line[cut : cut + _WIDTH]}\n    {margin}^"
