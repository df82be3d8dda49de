"""Reads a file (JSON or YAML) and says all that is wrong with it before it travels: where, what, and what to do."""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from marathon_cli.document import positions
from marathon_cli.document.positions import Places, Position, scan
from mesos_gpu.errors import BadInput, InvalidApp, Problem, Unavailable

if TYPE_CHECKING:
    from mesos_gpu.marathon.definitions.app import AppRules

_NO_NUMBER = re.compile(r"-?(?:NaN|Infinity)\b")
_WIDTH = 100
_GROUP_KEYS = ("id", "apps", "pods", "groups", "dependencies", "enforceRole", "scaleBy", "version")


@dataclass(frozen=True, slots=True)
class Source:
    """A text and what to call it."""

    name: str
    text: str

    @property
    def is_yaml(self) -> bool:
        """Whether it is YAML: by the name's ending, else by how it begins."""
        ending = self.name.lower().rpartition(".")[2]
        if ending in ("json", "yaml", "yml"):
            return ending != "json"
        return not self.text.lstrip().startswith(("{", "[", '"'))

    def places(self) -> Places:
        """Return where its values stand. It must be valid."""
        if self.is_yaml:
            from marathon_cli.document.yaml_text import read_yaml

            return read_yaml(self.text)[1]
        return scan(self.text)

    def at(self, offset: int) -> str:
        """Return `name:line:column` of a character, counted from 1."""
        line = self.text.count("\n", 0, offset) + 1
        return f"{self.name}:{line}:{offset - self.text.rfind(chr(10), 0, offset)}"


def read_source(path: str) -> Source:
    """Return the text of a file, of an http(s) URL, or of standard input for `-`. Raises BadInput, Unavailable."""
    if re.match("https?://", path):
        return _fetched(path)
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
    """Return the document of a source. Raises BadInput with line, column and the line itself."""
    if not source.text.strip():
        raise BadInput(f"{source.name}: is empty; a definition in JSON or YAML was expected")
    if source.is_yaml:
        return _parse_yaml(source)
    try:
        return _with_visible_keys(source, json.loads(source.text, parse_constant=_refuse_constant))
    except json.JSONDecodeError as error:
        if (char := source.text[error.pos : error.pos + 1]) in positions.HIDDEN:
            raise BadInput(_pointed(source, error.pos, f"not JSON: {positions.sentence(char)}")) from None
        if (comma := _comma_too_many(source.text, error.pos)) is not None:
            raise BadInput(_pointed(source, comma, "not JSON: no comma stands before a } or ]")) from None
        raise BadInput(_pointed(source, error.pos, f"not JSON: {error.msg}")) from None
    except _NotANumber as error:
        match = _NO_NUMBER.search(re.sub(r'"(?:[^"\\]|\\.)*"', lambda text: "_" * len(text.group()), source.text))
        raise BadInput(_pointed(source, match.start() if match else 0, f"not JSON: {error} is not a number")) from None
    except (ValueError, RecursionError) as error:
        sentence = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise BadInput(f"{source.name}: not JSON that can be read: {sentence}") from None


def _comma_too_many(text: str, at: int) -> int | None:
    """Return where the comma is that stands before the end of a list or object; Python points at it, or behind it."""
    before = len(text[: at + 1].rstrip()) if text[at : at + 1] == "," else len(text[:at].rstrip())
    behind = text[before:].lstrip()[:1]
    return before - 1 if text[before - 1 : before] == "," and behind in ("}", "]") and behind else None


def refuse_problems(source: Source, problems: Iterable[Problem]) -> None:
    """Raise BadInput for these problems of a document, and for keys that its source has twice."""
    if found := [*_duplicates(source), *problems]:
        raise BadInput(report(source, found))


def group_problems(document: Any, rules: AppRules) -> list[Problem]:
    """Return the problems of a group and of all apps and pods in it; their messages name the app or pod."""
    if not isinstance(document, Mapping):
        return [Problem("/", "error.expected.jsobject", "a group is an object in { }")]
    return list(_group_problems(document, rules, "", "/"))


def _group_problems(group: Mapping[str, Any], rules: AppRules, path: str, base: str) -> Iterator[Problem]:
    """Find what is wrong with a group that stands at `path` of its file, within the group `base`."""
    from mesos_gpu.marathon.definitions.app import canonical_id, read_app, unknown_keys
    from mesos_gpu.marathon.definitions.app_schema import GROUP, POD
    from mesos_gpu.marathon.definitions.pod import read_pod

    shape = {**group, "groups": [], "apps": [], "pods": []}
    yield from (_moved(path, problem) for problem in GROUP.shape_problems(shape))
    for key in [key for key in group if key not in _GROUP_KEYS]:
        near = difflib.get_close_matches(key, _GROUP_KEYS, n=1)
        advice = f"did you mean `{near[0]}`?" if near else None
        yield Problem(f"{path}/{key}", "error.unknown.key", f"a group has no `{key}`", advice)
    try:
        here = canonical_id(str(group.get("id") or "."), base)
    except InvalidApp:
        here = base
    for kind in ("apps", "pods", "groups"):
        items = group.get(kind)
        if items is not None and not isinstance(items, list):
            yield Problem(f"{path}/{kind}", "error.expected.jsarray", f"`{kind}` must be a list in [ ]")
            continue
        for index, item in enumerate(items or ()):
            place = f"{path}/{kind}({index})"
            if not isinstance(item, dict):
                yield Problem(place, "error.expected.jsobject", "must be an object in { }")
            elif kind == "groups":
                yield from _group_problems(item, rules, place, here)
            else:
                unknown, read = (unknown_keys, read_app) if kind == "apps" else (POD.unknown_keys, read_pod)
                found = unknown(item)
                try:
                    read(item, rules, base=here)
                except InvalidApp as error:
                    found += error.problems
                name = f" ({kind[:-1]} {item['id']})" if isinstance(item.get("id"), str) else ""
                for problem in found:
                    yield _moved(place, replace(problem, message=problem.message + name))


def _moved(path: str, problem: Problem) -> Problem:
    """Return a problem of a part of a document as one of the whole."""
    inner = f"/{problem.key}" if problem.path == "/" and problem.key else problem.path
    return replace(problem, path=path + ("" if inner == "/" and path else inner), key=None)


def _duplicates(source: Source) -> list[Problem]:
    return [
        Problem(twice.path, "error.duplicate.key", f"key `{twice.key}` is there twice", "keep one of them")
        for twice in source.places().duplicates
    ]


def report(source: Source, problems: Sequence[Problem], *, by: str = "") -> str:
    """Return a text of one headline and, for each problem, place, path, sentence and advice, in the file's order."""
    places = source.places()
    placed = [(places.of(problem.path, problem.key), problem) for problem in dict.fromkeys(problems)]
    placed.sort(key=lambda pair: pair[0])
    count = "1 problem" if len(placed) == 1 else f"{len(placed)} problems"
    lines = [f"{source.name}: {count}{by}; nothing was changed"]
    for place, problem in placed:
        lines.append(f"{source.name}:{place.line}:{place.column}: {problem.path}: {problem.message}")
        if problem.suggestion:
            lines.append(f"    {problem.suggestion}")
    return "\n".join(lines)


def _fetched(url: str) -> Source:
    from marathon_cli.connection.http import fetch

    try:
        answer = fetch(url)
    except Unavailable as error:
        raise Unavailable(f"{url}: cannot be fetched: {error}") from None
    if not answer.ok:
        raise BadInput(f"{url}: cannot be fetched: {answer.status_code} {answer.reason}")
    try:
        return Source(url, answer.content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise BadInput(f"{url}: not UTF-8 text") from None


def _parse_yaml(source: Source) -> Any:
    from marathon_cli.document.yaml_text import YamlProblem, read_yaml

    try:
        found = read_yaml(source.text)[0]
    except YamlProblem as error:
        if (at := positions.structural(source.text)) is not None:
            raise BadInput(_pointed(source, at, f"not YAML: {positions.sentence(source.text[at])}")) from None
        raise BadInput(_pointed(source, _offset(source.text, error.position), f"not YAML: {error.sentence}")) from None

    at = positions.structural(source.text) if isinstance(found, str) else None
    if at is not None:
        raise BadInput(_pointed(source, at, positions.sentence(source.text[at])))
    return _with_visible_keys(source, found)


def _with_visible_keys(source: Source, found: Any) -> Any:
    """Return what was read. Raises BadInput for a key with what looks like a space at its begin or end."""
    if (key := positions.strange_key(found)) is not None:
        at = positions.place_in(source.text, key)
        raise BadInput(_pointed(source, at, positions.sentence(key[0] if key[0] in positions.HIDDEN else key[-1])))
    return found


def _offset(text: str, position: Position) -> int:
    start = 0
    for _ in range(position.line - 1):
        start = text.find("\n", start) + 1
    return start + position.column - 1


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
