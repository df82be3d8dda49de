"""The shape of a document: types, ranges, patterns and defaults, all read from one of mesos_gpu/schemas/*.json.

This is the first of Marathon's two stages; its refusals carry machine codes such as `error.min`. What Marathon
overlooks (unknown keys, nulls, the case of enum literals, `1.0` for an integer) `clean` takes out of the way first.
"""

from __future__ import annotations

import copy
import difflib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mesos_gpu.errors import Problem
from mesos_gpu.marathon.definitions import schema_quick
from mesos_gpu.marathon.definitions.app_words import shape_problem

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

Schema = Mapping[str, Any]


class DocumentSchema:
    """One of mesos_gpu/schemas/*.json, which are installed as package data; read when it is first needed."""

    def __init__(self, name: str, aliases: Mapping[str, str] | None = None) -> None:
        """`name` is the file's. `aliases` has, for keys that people write instead, the key that they mean."""
        self._name, self._aliases = name, dict(aliases or {})

    @property
    def schema(self) -> Schema:
        """Return the schema itself."""
        return _read(self._name)

    def clean(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of `document` with only what counts: known keys, no nulls, canonical enums, integers as int.

        Keys that the server sets itself (counts, versions) are taken out too. Values of a wrong type stay, to be
        refused by `shape_problems`.
        """
        cleaned = self._clean(document, self.schema)
        return cleaned if isinstance(cleaned, dict) else {}

    def shape_problems(self, document: Mapping[str, Any]) -> list[Problem]:
        """Return everything about a cleaned document that breaks the schema, with Marathon's codes."""
        if schema_quick.fits(document, self.schema, self.schema):
            return []
        found: dict[tuple[str, str], Problem] = {}
        for error in _validator(self._name).iter_errors(document):
            for problem in _problems(error):
                found.setdefault((problem.path, problem.code), problem)
        return list(found.values())

    def with_defaults(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of a cleaned document in which every absent key that has a default has it, at every level."""
        filled: dict[str, Any] = self._fill(document, self.schema)
        return filled

    def unknown_keys(self, document: Mapping[str, Any]) -> list[Problem]:
        """Return a problem, with the nearest known name, for every key that Marathon would silently drop."""
        return [
            Problem(f"{path}/{key}", "error.unknown.key", f"unknown key `{key}`", self._nearest(key, known, path))
            for path, key, known in self._unknown(document, self.schema, "")
        ]

    def _resolve(self, schema: Schema) -> Schema:
        """Follow `$ref`; what stands beside it wins."""
        name = schema.get("$ref")
        if name is None:
            return schema
        return {**self.schema["$defs"][name.rpartition("/")[2]], **schema}

    def _clean(self, value: Any, schema: Schema) -> Any:
        schema = self._resolve(schema)
        if isinstance(value, dict):
            if "properties" in schema:
                known = {key: self._resolve(item) for key, item in schema["properties"].items()}
                return {
                    key: self._clean(item, known[key])
                    for key, item in value.items()
                    if key in known and item is not None and not known[key].get("readOnly")
                }
            inner = schema.get("additionalProperties")
            return value if inner is None else {key: self._clean(item, inner) for key, item in value.items()}
        if isinstance(value, list):
            inner = schema.get("items")
            return value if inner is None else [self._clean(item, inner) for item in value]
        if isinstance(value, str):
            literals = schema.get("enum") or schema.get("then", {}).get("enum", ())
            return next((literal for literal in literals if literal.lower() == value.lower()), value)
        if isinstance(value, float) and schema.get("type") == "integer" and value.is_integer():
            return int(value)
        return value

    def _fill(self, value: Any, schema: Schema) -> Any:
        schema = self._resolve(schema)
        if isinstance(value, dict):
            if "properties" not in schema:
                inner = schema.get("additionalProperties")
                return value if inner is None else {key: self._fill(item, inner) for key, item in value.items()}
            filled = {key: self._fill(item, schema["properties"].get(key, {})) for key, item in value.items()}
            for key, item in schema["properties"].items():
                if key not in filled and "default" in self._resolve(item):
                    filled[key] = self._fill(copy.deepcopy(self._resolve(item)["default"]), item)
            return filled
        if isinstance(value, list):
            inner = schema.get("items")
            return value if inner is None else [self._fill(item, inner) for item in value]
        return value

    def _unknown(self, value: Any, schema: Schema, path: str) -> Iterator[tuple[str, str, list[str]]]:
        schema = self._resolve(schema)
        if isinstance(value, dict):
            known: Mapping[str, Schema] | None = schema.get("properties")
            for key, item in value.items():
                if known is not None and key not in known:
                    yield path, key, [name for name, kind in known.items() if not kind.get("readOnly")]
                elif inner := known[key] if known is not None else schema.get("additionalProperties"):
                    yield from self._unknown(item, inner, f"{path}/{key}")
        elif isinstance(value, list) and (inner := schema.get("items")):
            for index, item in enumerate(value):
                yield from self._unknown(item, inner, f"{path}({index})")

    def _nearest(self, key: str, known: list[str], path: str) -> str | None:
        by_lower = {name.lower(): name for name in known}
        if near := difflib.get_close_matches(key.lower(), by_lower, n=1, cutoff=0.7):
            return f"did you mean `{by_lower[near[0]]}`?"
        if path == "" and key in self._aliases:
            return f"did you mean `{self._aliases[key]}`?"
        homes = [place for place in self._places() if place.rpartition(".")[2] == key]
        return f"`{key}` belongs to `{homes[0].rpartition('.')[0]}`" if len(homes) == 1 and "." in homes[0] else None

    def _places(self) -> tuple[str, ...]:
        """Every key of an app that is not inside a list, as a dotted path."""

        def walk(schema: Schema, prefix: str) -> Iterator[str]:
            for key, item in self._resolve(schema).get("properties", {}).items():
                if not self._resolve(item).get("deprecated") and not item.get("readOnly"):
                    yield prefix + key
                    yield from walk(item, f"{prefix}{key}.")

        return tuple(walk(self.schema, ""))


@cache
def _read(name: str) -> Schema:
    # Beside the package itself: importlib.resources takes longer to import than all of this app's rules.
    (folder,) = import_module("mesos_gpu.schemas").__path__
    schema: Schema = json.loads((Path(folder) / name).read_text("utf-8"))
    return schema


@cache
def _validator(name: str) -> Any:
    import jsonschema

    base = jsonschema.Draft202012Validator
    types = base.TYPE_CHECKER.redefine("integer", _is_int32).redefine("number", _is_number)
    extend: Any = jsonschema.validators.extend  # its types are not annotated
    return extend(base, {"pattern": _pattern}, type_checker=types)(_read(name))


def _pattern(_validator: Any, pattern: str, value: Any, _schema: Any) -> Iterator[ValidationError]:
    from jsonschema.exceptions import ValidationError

    if isinstance(value, str) and not schema_quick.matches(pattern, value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _is_number(_checker: Any, value: Any) -> bool:
    return schema_quick.is_number(value)


def _is_int32(_checker: Any, value: Any) -> bool:
    return schema_quick.is_integer(value)


def _problems(error: ValidationError) -> Iterator[Problem]:
    path = "".join(f"({step})" if isinstance(step, int) else f"/{step}" for step in error.absolute_path)
    keyword, wanted = str(error.validator), error.validator_value
    found: Any = error.instance
    if keyword == "required" and isinstance(wanted, list):
        for key in wanted:
            if key not in found:
                yield shape_problem(f"{path}/{key}", "required", key, None)
    else:
        yield shape_problem(path or "/", keyword, wanted, found)
