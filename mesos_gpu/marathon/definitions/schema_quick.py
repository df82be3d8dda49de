"""Tells quickly, and without the library jsonschema, that a document fits; what does not is jsonschema's to explain.

Importing jsonschema takes longer than everything else that reading an app needs, and nearly all documents fit: it is
imported only for those that may not. `fits` errs in one direction only: it says no where it does not know a keyword.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

Schema = Mapping[str, Any]

_INT_LIMIT = 2**31
# They say something to people, or what is to be filled in, and refuse nothing.
_SAYS_NOTHING = {"$schema", "$id", "$defs", "title", "description", "default", "deprecated", "readOnly", "examples"}


def is_number(value: Any) -> bool:
    """Return whether a value is a number to Marathon: finite."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def is_integer(value: Any) -> bool:
    """Return whether a value is an integer to Marathon: 32 bits, and no float."""
    return isinstance(value, int) and not isinstance(value, bool) and -_INT_LIMIT <= value < _INT_LIMIT


def matches(pattern: str, text: str) -> bool:
    """Return whether a text matches a pattern. Python's `$` matches before a final newline, JSON Schema's does not."""
    return re.search(pattern, text) is not None and not (pattern.endswith("$") and text.endswith("\n"))


def fits(value: Any, schema: Schema, root: Schema) -> bool:
    """Return whether a value surely fits a schema, whose `$defs` are in `root`; False also when that is not known."""
    for keyword, wanted in schema.items():
        if keyword in _SAYS_NOTHING:
            continue
        check = _CHECKS.get(keyword)
        if check is None or not check(value, wanted, schema, root):
            return False
    return True


def _type(value: Any, wanted: Any, _schema: Schema, _root: Schema) -> bool:
    return any(_TYPES[name](value) for name in ([wanted] if isinstance(wanted, str) else wanted) if name in _TYPES)


def _ref(value: Any, wanted: Any, _schema: Schema, root: Schema) -> bool:
    head, _, name = wanted.rpartition("/")
    return head == "#/$defs" and name in root.get("$defs", {}) and fits(value, root["$defs"][name], root)


def _properties(value: Any, wanted: Any, _schema: Schema, root: Schema) -> bool:
    return not isinstance(value, dict) or all(fits(value[key], wanted[key], root) for key in wanted if key in value)


def _additional(value: Any, wanted: Any, schema: Schema, root: Schema) -> bool:
    if not isinstance(value, dict):
        return True
    others = [item for key, item in value.items() if key not in schema.get("properties", {})]
    if isinstance(wanted, bool):
        return wanted or not others
    return all(fits(item, wanted, root) for item in others)


def _condition(value: Any, wanted: Any, schema: Schema, root: Schema) -> bool:
    """Check if/then only where `if` surely holds or there is only a type in it, so that it surely does not."""
    if "else" in schema or set(wanted) != {"type"}:
        return False
    return not fits(value, wanted, root) or fits(value, schema.get("then", {}), root)


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": is_number,
    "integer": is_integer,
}
_CHECKS: Mapping[str, Callable[[Any, Any, Schema, Schema], bool]] = {
    "type": _type,
    "$ref": _ref,
    "properties": _properties,
    "additionalProperties": _additional,
    "if": _condition,
    "then": lambda _value, _wanted, schema, _root: "if" in schema,
    "required": lambda value, wanted, *_: not isinstance(value, dict) or all(key in value for key in wanted),
    "items": lambda value, wanted, _schema, root: (
        not isinstance(value, list) or all(fits(item, wanted, root) for item in value)
    ),
    "enum": lambda value, wanted, *_: isinstance(value, str) and value in wanted,
    "pattern": lambda value, wanted, *_: not isinstance(value, str) or matches(wanted, value),
    "minLength": lambda value, wanted, *_: not isinstance(value, str) or len(value) >= wanted,
    "maxLength": lambda value, wanted, *_: not isinstance(value, str) or len(value) <= wanted,
    "minimum": lambda value, wanted, *_: not is_number(value) or value >= wanted,
    "maximum": lambda value, wanted, *_: not is_number(value) or value <= wanted,
    "exclusiveMinimum": lambda value, wanted, *_: not is_number(value) or value > wanted,
    "minItems": lambda value, wanted, *_: not isinstance(value, list) or len(value) >= wanted,
    "maxItems": lambda value, wanted, *_: not isinstance(value, list) or len(value) <= wanted,
}
