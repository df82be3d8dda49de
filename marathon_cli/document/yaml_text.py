"""Reads YAML as the JSON it stands for, with the place of every key, and without YAML 1.1's surprises; writes it. Pure.

`yes`, `on`, `1:30` and dates are text, as in YAML 1.2's core schema: who writes `NO` as a country means no `false`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from marathon_cli.document.positions import DEEPEST, Duplicate, Places, Position
from mesos_gpu.errors import BadInput

_MOST_VALUES = 100_000
"""More than any document needs; aliases of aliases are how a small text becomes a huge value."""
_NULL, _BOOL, _INT, _FLOAT, _STR = (f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float", "str"))
# YAML 1.2, core schema (10.3.2).
_RULES = (
    (_NULL, re.compile(r"null|Null|NULL|~|"), "nN~"),
    (_BOOL, re.compile(r"true|True|TRUE|false|False|FALSE"), "tTfF"),
    (_INT, re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"), "-+0123456789"),
    (
        _FLOAT,
        re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"),
        "-+0123456789.",
    ),
)


class _Loader(yaml.SafeLoader):
    """Composes nodes only; what scalars mean is YAML 1.2's."""

    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 (PyYAML's own attribute)


class _Dumper(yaml.SafeDumper):
    """Quotes what either version of YAML would not take for text, and spells out what is there twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, data: str) -> yaml.Node:
        # What Unicode calls a line break is folded in plain and in single quotes.
        style = '"' if set(data) & {"\x85", "\u2028", "\u2029"} else "|" if "\n" in data.strip("\n") else None
        return self.represent_scalar(_STR, data, style=style)


_Dumper.add_representer(str, _Dumper.represent_text)


for _tag, _pattern, _first in _RULES:
    for _kind in (_Loader, _Dumper):
        _kind.add_implicit_resolver(_tag, re.compile(rf"^(?:{_pattern.pattern})$"), [*_first, ""])


class YamlProblem(BadInput):
    """The text is not YAML, or none that stands for JSON; `position` is where."""

    def __init__(self, sentence: str, position: Position) -> None:
        super().__init__(sentence)
        self.sentence, self.position = sentence, position


def read_yaml(text: str) -> tuple[Any, Places]:
    """Return the document of a YAML text, and where its values stand. Raises YamlProblem."""
    try:
        documents = list(_documents(text))
    except yaml.MarkedYAMLError as error:
        words = " ".join(str(part) for part in (error.context, error.problem) if part)
        raise YamlProblem(words, _position(error.problem_mark or error.context_mark)) from None
    except (yaml.YAMLError, RecursionError) as error:
        deep = isinstance(error, RecursionError)
        sentence = "nested too deeply" if deep else " ".join(str(getattr(error, "reason", error)).split())
        raise YamlProblem(sentence, _at_character(text, getattr(error, "position", 0) or 0)) from None
    if len(documents) > 1:
        raise YamlProblem("a second document begins; give one at a time", _position(documents[1].start_mark))
    reader = _Reader()
    try:
        return (reader.value(documents[0], "") if documents else None), reader.places
    except RecursionError:
        raise YamlProblem("nested too deeply", Position(1, 1)) from None


def write_yaml(value: Any) -> str:
    """Return a JSON value as YAML, which any reader of YAML 1.1 or 1.2 takes for the same value."""
    text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=120)
    return str(text).removesuffix("...\n")


def _documents(text: str) -> Iterator[yaml.Node]:
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                yield node
    finally:
        loader.dispose()


@dataclass
class _Reader:
    """Makes values of nodes, and notes where they stand."""

    places: Places = field(default_factory=lambda: Places({}, []))
    values: int = 0

    def value(self, node: yaml.Node, path: str, depth: int = 0) -> Any:
        self.values += 1
        if self.values > _MOST_VALUES:
            raise YamlProblem(f"stands for more than {_MOST_VALUES} values", _position(node.start_mark))
        if (depth == 0 or path.endswith(")")) and depth <= DEEPEST:
            self.places.by_path.setdefault(path, _position(node.start_mark))
        if isinstance(node, yaml.MappingNode):
            return self._object(node, path, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, f"{path}({index})", depth + 1) for index, item in enumerate(node.value)]
        return _scalar(node)

    def _object(self, node: yaml.MappingNode, path: str, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            here = _position(key_node.start_mark)
            if isinstance(key_node, yaml.ScalarNode) and key_node.value == "<<" and key_node.style is None:
                merged = {**self._merged(value_node, path, depth), **merged}
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                raise YamlProblem("a key must be text", here)
            key = _key(key_node)
            where = f"{path}/{key}"
            if key in found:
                self.places.duplicates.append(Duplicate(where, key, here))
            if depth < DEEPEST:
                self.places.by_path[where] = here
            found[key] = self.value(value_node, where, depth + 1)
        return {**merged, **found}

    def _merged(self, node: yaml.Node, path: str, depth: int) -> dict[str, Any]:
        """Return what `<<: *anchor` brings in."""
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        brought: dict[str, Any] = {}
        for one in reversed(nodes):
            if not isinstance(one, yaml.MappingNode):
                raise YamlProblem("`<<` wants an object", _position(node.start_mark))
            brought |= self._object(one, path, depth)
        return brought


def _key(node: yaml.ScalarNode) -> str:
    if node.tag in (_NULL, _BOOL, _INT, _FLOAT):
        raise YamlProblem(f'a key must be text: write "{node.value}" in quotes', _position(node.start_mark))
    return str(node.value)


def _scalar(node: yaml.Node) -> Any:
    text = str(node.value)
    if node.tag == _NULL:
        return None
    if node.tag == _BOOL:
        return text.lower() == "true"
    if node.tag in (_INT, _FLOAT):
        return _number(node.tag, text, _position(node.start_mark))
    if node.tag == _STR:
        return text
    raise YamlProblem(
        f"JSON has nothing for {node.tag.replace('tag:yaml.org,2002:', '!!')}", _position(node.start_mark)
    )


def _number(tag: str, text: str, here: Position) -> int | float:
    try:
        if tag == _INT:
            return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
        number = float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    except ValueError:
        raise YamlProblem(f"{text[:40]!r} is not a number", here) from None
    if not math.isfinite(number):
        raise YamlProblem(f"{text} is not a number that JSON knows", here)
    return number


def _position(mark: Any) -> Position:
    return Position(mark.line + 1, mark.column + 1) if mark is not None else Position(1, 1)


def _at_character(text: str, index: int) -> Position:
    return Position(text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index))
