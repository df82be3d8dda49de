"""JSON as Mesos reads it, made what the protobuf library reads; and Mesos' words for what neither does.

Mesos takes an object or a string where a list is expected as a list of one, `null` as absent, a number with a fraction
as an integer cut off, numbers, `true` and `false` in strings, and the duration of the protobuf library as an object of
seconds and nanos.
Source: Mesos 3rdparty/stout/include/stout/protobuf.hpp, internal::Parser.

Most of it needs none of that, and is read by `codec.shapes`.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Mapping
from itertools import takewhile
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from mesos_gpu.errors import ProtocolError
from mesos_gpu.mesos.descriptors import DURATION, FLOATS, INTEGERS
from mesos_gpu.mesos.resource import Document

_LITERALS = {"true": True, "false": False, "null": None}
_NUMBER = re.compile(r"-?[0-9][0-9eE.+-]*", re.ASCII)
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/=]")
_NO_NAME = " "
_BITS = {"INT32": 31, "INT64": 63, "UINT32": 32, "UINT64": 64}


def lenient(descriptor: Any, document: Mapping[str, Any]) -> Document:
    """Return a document that the protobuf library takes for a message descriptor; fields it lacks are left out.

    Raises ProtocolError in Mesos' words when a field cannot hold what it is given.
    """
    fields = descriptor.fields_by_name
    return {
        name: _field(fields[name], value) for name, value in document.items() if name in fields and value is not None
    }


def _field(field: FieldDescriptor, value: Any) -> Any:
    if _is_map(field):
        if not isinstance(value, Mapping):
            raise _unexpected(field, value)
        held = _type_of(field).fields_by_name["value"]
        return {key: _item(held, item) for key, item in value.items() if item is not None}
    if field.is_repeated:
        items = value if isinstance(value, list) else [value]
        return [_item(field, item) for item in items if item is not None]
    return _item(field, value)


def _item(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None:
        return _message(field, value)
    if isinstance(value, bool):
        if field.cpp_type != FieldDescriptor.CPPTYPE_BOOL:
            raise _unexpected(field, value)
        return value
    if isinstance(value, (int, float)):
        return _number(field, value)
    if isinstance(value, str):
        return _string(field, value)
    raise _unexpected(field, value)


def _message(field: FieldDescriptor, value: Any) -> Any:
    if _type_of(field).full_name == DURATION:
        return value if isinstance(value, str) else _duration(field, value)
    if not isinstance(value, Mapping):
        raise _unexpected(field, value)
    return lenient(_type_of(field), value)


def _duration(field: FieldDescriptor, value: Any) -> str:
    if not isinstance(value, Mapping):
        raise _unexpected(field, value)
    if value and not {"seconds", "nanos"} & value.keys():
        # Mesos takes this for no time at all, and kills at once; the nanoseconds of a DurationInfo are a likely slip.
        found = ", ".join(f"'{name}'" for name in value)
        raise ProtocolError(f"Expecting 'seconds' or 'nanos' in field '{field.name}', and found {found}")
    parts = lenient(_type_of(field), value)
    nanos = int(parts.get("seconds", 0)) * 10**9 + int(parts.get("nanos", 0))
    sign = "-" if nanos < 0 else ""
    return f"{sign}{abs(nanos) // 10**9}.{abs(nanos) % 10**9:09}s"


def _number(field: FieldDescriptor, value: float) -> Any:
    if field.cpp_type in FLOATS:
        return value
    if field.cpp_type not in INTEGERS or not math.isfinite(value):
        raise _unexpected(field, value)
    return _in_range(field, int(value))


def _string(field: FieldDescriptor, value: str) -> Any:
    if field.type == FieldDescriptor.TYPE_STRING:
        return value
    if field.type == FieldDescriptor.TYPE_BYTES:
        return _base64(field, value)
    if field.enum_type is not None:
        # The library takes the number of a value in a string, which Mesos takes for a name that nobody has.
        return value if value in field.enum_type.values_by_name else _NO_NAME
    if field.cpp_type in FLOATS and value in ("Infinity", "-Infinity"):
        return value  # JSON has no infinity: the limit of a task without one travels as the text
    if field.cpp_type in INTEGERS | FLOATS:
        return _number(field, _parsed(field, value, "number"))
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return _parsed(field, value, "boolean")
    raise _unexpected(field, value)


def _base64(field: FieldDescriptor, value: str) -> str:
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        wrong = _NOT_BASE64.search(value)
        why = f": Invalid character '{wrong[0]}'" if wrong else ""
        raise ProtocolError(f"Failed to base64 decode bytes field '{field.name}'{why}") from None
    return value


def _parsed(field: FieldDescriptor, text: str, wanted: str) -> Any:
    """Return the number or the boolean that a string holds."""
    said = text.strip()
    found: Any = _LITERALS.get(said, text)
    if _NUMBER.fullmatch(said):
        try:
            found = int(said) if said.lstrip("-").isdecimal() else float(said)
        except ValueError:  # such as 1-2, or thousands of digits
            pass
    if found is text:
        why = f"syntax error at line 1 near: {_rest(said)}"
    elif _kind(found) == wanted:
        return found
    else:
        why = "Unexpected JSON type parsed"
    raise ProtocolError(f"Failed to parse '{text}' as a JSON {wanted} for field '{field.name}': {why}")


def _rest(text: str) -> str:
    """Return where Mesos' parser stopped: it reads a literal as long as the letters are its own."""
    literal = next((word for word in _LITERALS if text[:1] == word[0]), "")
    return text[sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(text, literal, strict=False))) :]


def _in_range(field: FieldDescriptor, value: int) -> int:
    kind = next(name for name in _BITS if field.cpp_type == getattr(FieldDescriptor, f"CPPTYPE_{name}"))
    lowest = 0 if kind.startswith("U") else -(2 ** _BITS[kind])
    if not lowest <= value < 2 ** _BITS[kind]:
        raise ProtocolError(
            f"Not expecting the number {value} for field '{field.name}': it does not fit {kind.lower()}"
        )
    return value


def _type_of(field: FieldDescriptor) -> Any:
    return field.message_type


def _is_map(field: FieldDescriptor) -> bool:
    entry = field.message_type
    return field.is_repeated and entry is not None and bool(entry.GetOptions().map_entry)


def _unexpected(field: FieldDescriptor, value: Any) -> ProtocolError:
    return ProtocolError(f"Not expecting a JSON {_kind(value)} for field '{field.name}'")


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"
