"""Writes docs/reference/schemas.md from schemas/: .venv/bin/python -m tools.make_schemas"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "schemas.md"
NAMES = ("app", "pod", "job", "group")
HEAD = """# Definitions, by their schemas

What apps, pods, jobs and groups may say. The schemas (JSON Schema 2020-12) are in `schemas/`, are installed
with the package, and serve editors too. `mesos-gpu app validate` and its kin tell what is wrong with a file, by line.
A key with `[]` is of each entry of a list, one with `{}` of each value of an object. **Bold** keys have to be there.
"""
DEEPEST = 5


def schemas_page() -> str:
    """Return the whole page."""
    return HEAD + "".join(_section(name, json.loads((ROOT / "schemas" / f"{name}.json").read_text())) for name in NAMES)


def _section(name: str, schema: Mapping[str, Any]) -> str:
    rows = "".join(_rows(schema, schema, "", 0, frozenset()))
    head = f"\n## {schema['title']}\n\n{schema['description']} Schema: `schemas/{name}.json`.\n\n"
    return f"{head}| key | type | default | what it says |\n|---|---|---|---|\n{rows}"


def _rows(root: Mapping[str, Any], at: Mapping[str, Any], path: str, depth: int, seen: frozenset[str]) -> Iterator[str]:
    """Yield the rows of an object's keys, each followed by those below it; what contains itself is not opened again."""
    required = at.get("required", ())
    for key, declared in at.get("properties", {}).items():
        reference = declared.get("$ref", "")
        one = _resolved(root, declared)
        name = f"{path}{key}"
        shown = f"**`{name}`**" if key in required else f"`{name}`"
        default = f"`{json.dumps(one['default'])}`" if "default" in one else ""
        yield f"| {shown} | {_type(root, one)} | {default} | {_cell(one.get('description', ''))} |\n"
        if depth < DEEPEST and reference not in seen:
            yield from _below(root, one, name, depth + 1, seen | {reference} if reference else seen)


def _below(
    root: Mapping[str, Any], one: Mapping[str, Any], name: str, depth: int, seen: frozenset[str]
) -> Iterator[str]:
    if "properties" in one:
        yield from _rows(root, one, f"{name}.", depth, seen)
    for inside, mark in (("items", "[]"), ("additionalProperties", "{}")):
        part = one.get(inside)
        if isinstance(part, dict):
            reference = part.get("$ref", "")
            if reference not in seen:
                opened = seen | {reference} if reference else seen
                yield from _rows(root, _resolved(root, part), f"{name}{mark}.", depth, opened)


def _resolved(root: Mapping[str, Any], one: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with what it refers to put in; its own words go before."""
    reference = one.get("$ref", "")
    if not reference.startswith("#/$defs/"):
        return dict(one)
    return {**root["$defs"][reference.removeprefix("#/$defs/")], **one}


def _type(root: Mapping[str, Any], one: Mapping[str, Any]) -> str:
    """Return the type of a value in words, with the values and bounds it is held to."""
    if (reference := one.get("$ref", "")) and not reference.startswith("#/$defs/"):
        return reference.removesuffix(".json").rpartition(":")[2]
    if "enum" in one:
        return " or ".join(f"`{json.dumps(value).strip(chr(34))}`" for value in one["enum"])
    types = one.get("type", "any")
    name = " or ".join(types) if isinstance(types, list) else str(types)
    if name == "array" and isinstance(one.get("items"), dict):
        name = f"list of {_type(root, _resolved(root, one['items']))}"
    bounds = [f"{word} {one[key]}" for key, word in (("minimum", "from"), ("maximum", "to")) if key in one]
    return " ".join([name, *bounds]).replace("|", "\\|")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    PAGE.write_text(schemas_page(), encoding="utf-8")
