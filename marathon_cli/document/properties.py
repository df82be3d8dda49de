"""`KEY=VALUE` on the command line, as `dcos marathon app update` takes it, with dotted keys. Pure.

Beyond DC/OS: `a.b.c=1` reaches into what is there, `list[0].x=1` into a list, `'labels.a\\.b'=x` is the key `a.b`; a
value for a key that takes text is text, whatever it looks like. Source: dcos-cli jsonitem.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from mesos_gpu.errors import BadInput

Step = str | int

_STEP = re.compile(r"""\[(\d+)\]|"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|((?:[^.\[\]\\]|\\.)+)""")
_INTEGER = re.compile(r"[+-]?\d+")
_FLOAT = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?")


class Property(NamedTuple):
    """One `KEY=VALUE`. `text` is the value as it was written; None as a value takes the key away."""

    path: tuple[Step, ...]
    value: Any
    text: str

    @property
    def key(self) -> str:
        """The key as it is shown."""
        return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path).lstrip(".")


def parse_properties(words: Sequence[str], schema: Mapping[str, Any] | None = None) -> list[Property]:
    """Return what the words say. Raises BadInput with all that is wrong with them.

    `schema` is the JSON schema of the document: where it wants text, a value is text, not a number.
    """
    problems: list[str] = []
    found: list[Property] = []
    for word in words:
        try:
            found.append(_parse(word, schema))
        except BadInput as error:
            problems.append(str(error))
    for index, one in enumerate(found):
        for other in found[:index]:
            shorter, longer = sorted((one.path, other.path), key=len)
            if longer[: len(shorter)] == shorter:
                problems.append(
                    f"{one.key} is given twice"
                    if one.path == other.path
                    else f"{one.key} and {other.key} contradict each other: one holds the other"
                )
    if problems:
        raise BadInput("\n".join(problems))
    return found


def with_properties(document: Mapping[str, Any], properties: Iterable[Property]) -> dict[str, Any]:
    """Return a document with the properties set in it.

    Raises BadInput where one leads through a value, or past the end of a list.
    """
    changed: Any = dict(document)
    for item in properties:
        changed = _set(changed, item.path, item, ())
    return dict(changed)


def deep_merge(base: Any, over: Any) -> Any:
    """Return `base` with `over` put into it: objects key by key, anything else replaced; null takes a key away.

    Source: RFC 7396, JSON merge patch.
    """
    if not isinstance(over, Mapping):
        return over
    merged = dict(base) if isinstance(base, Mapping) else {}
    for key, value in over.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = deep_merge(merged.get(key), value)
    return merged


def guess(text: str) -> Any:
    """Return the value that DC/OS would take a text for: number, boolean, null, list, object, else text.

    Raises BadInput for a list or an object that is not JSON.
    """
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text == "null":
        return None
    if text[:1] in ("[", "{"):
        try:
            return json.loads(text)
        except ValueError as error:
            raise BadInput(f"the value {text!r} begins like JSON and is not: {error}; quote it to mean text") from None
    return text


def _parse(word: str, schema: Mapping[str, Any] | None) -> Property:
    if word[:1] == "{":
        raise BadInput("a whole document is given with --file, or piped in; here KEY=VALUE is expected")
    key, equals, text = word.partition("=")
    if not equals:
        raise BadInput(f"{word!r} is not KEY=VALUE")
    path = _path(_unquoted(key)[0])
    text, quoted = _unquoted(text)
    if quoted or (text != "null" and _wants_text(schema, path)):
        return Property(path, text, text)
    try:
        return Property(path, guess(text), text)
    except BadInput as error:
        raise BadInput(f"{key}: {error}") from None


def _unquoted(text: str) -> tuple[str, bool]:
    """Take off one pair of quotes around the whole."""
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1], True
    return text, False


def _path(key: str) -> tuple[Step, ...]:
    steps: list[Step] = []
    at = 0
    while at < len(key):
        if steps and key[at] == ".":
            at += 1
        found = _STEP.match(key, at)
        if found is None:
            raise BadInput(f"{key!r} is not a key: one looks like container.docker.image or fetch[0].uri")
        index, double, single, plain = found.groups()
        name = next((part for part in (double, single, plain) if part is not None), "")
        steps.append(int(index) if index is not None else re.sub(r"\\(.)", r"\1", name))
        at = found.end()
    if not steps or isinstance(steps[0], int):
        raise BadInput(f"{key!r} is not a key: one looks like container.docker.image or fetch[0].uri")
    return tuple(steps)


def _wants_text(schema: Mapping[str, Any] | None, path: Sequence[Step]) -> bool:
    """Whether the schema takes text, and no other plain value, at a path."""
    if schema is None:
        return False
    definitions, here = schema.get("$defs", {}), schema
    for step in path:
        here = _resolved(here, definitions)
        inner = here.get("items") if isinstance(step, int) else here.get("properties", {}).get(step)
        inner = here.get("additionalProperties") if inner is None and isinstance(step, str) else inner
        if not isinstance(inner, Mapping):
            return False
        here = inner
    kinds = _resolved(here, definitions).get("type", ())
    kinds = [kinds] if isinstance(kinds, str) else kinds
    return "string" in kinds and not {"number", "integer", "boolean"}.intersection(kinds)


def _resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    name = schema.get("$ref")
    return schema if name is None else {**definitions.get(str(name).rpartition("/")[2], {}), **schema}


def _set(holder: Any, path: Sequence[Step], item: Property, behind: tuple[Step, ...]) -> Any:
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        return _set_item(holder, step, rest, item, behind)
    if holder is not None and not isinstance(holder, Mapping):
        raise BadInput(f"{item.key}: {Property(behind, None, '').key} is {json.dumps(holder)} and holds no `{step}`")
    changed = dict(holder or {})
    if not rest and item.value is None:
        changed.pop(step, None)
    else:
        changed[step] = item.value if not rest else _set(changed.get(step), rest, item, (*behind, step))
    return changed


def _set_item(holder: Any, index: int, rest: Sequence[Step], item: Property, behind: tuple[Step, ...]) -> Any:
    where = Property(behind, None, "").key
    if holder is not None and not isinstance(holder, list):
        raise BadInput(f"{item.key}: {where} is {json.dumps(holder)}, no list")
    changed = list(holder or ())
    if index > len(changed):
        raise BadInput(f"{item.key}: {where} has {len(changed)} entries; [{len(changed)}] adds one")
    if not rest and item.value is None:
        return changed[:index] + changed[index + 1 :]
    old = changed[index] if index < len(changed) else None
    new = item.value if not rest else _set(old, rest, item, (*behind, index))
    return [*changed[:index], new, *changed[index + 1 :]]
