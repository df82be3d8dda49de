"""The types of Mesos' messages as their tables have them: for all that can be done without the protobuf library.

messages.json has the field tables of Mesos 1.12. A type's rows are read when somebody asks for it: most are never met.
"""

from __future__ import annotations

from functools import cache
from pkgutil import get_data
from typing import Any, NamedTuple

import msgspec

from mesos_gpu.errors import ProtocolError

DURATION = "google.protobuf.Duration"
"""The one type of a field that is not Mesos' own."""
# Types that v1 calls by another name; all others differ by `mesos.v1.` for `mesos.` alone (include/mesos/v1).
_RENAMED = {"SlaveInfo": "AgentInfo", "SlaveID": "AgentID"}
_INTERNAL = {v1: internal for internal, v1 in _RENAMED.items()}
_V0, _V1 = "mesos.", "mesos.v1."
_ENTRY = "Entry"
"""How protoc names the entries of a map: after its field, with this."""


class Field(NamedTuple):
    """A field of a message type."""

    number: int
    name: str
    label: str
    """`optional`, `required` or `repeated`; maps are repeated entries, as on the wire."""
    type: str
    """A scalar's name, such as `uint64`, or the full name of an enum or message."""
    said: str | None = None
    """Its default as the table has it, where there is an explicit one."""

    @property
    def is_map(self) -> bool:
        """Return whether it is a map; its type is that of the entries then."""
        return self.type.endswith(_ENTRY)

    @property
    def default(self) -> Any:
        """Return the explicit default as documents have it, or None."""
        if self.said is None or self.type == "string" or is_enum(self.type):
            return self.said
        if self.type == "bool":
            return self.said == "true"
        return float(self.said) if self.type in ("double", "float") else int(self.said)


def v1_name(internal_type: str) -> str:
    """Return what v1 calls an internal type: `mesos.v1.AgentInfo` for `mesos.SlaveInfo`; it need not exist."""
    head, dot, rest = internal_type.removeprefix(_V0).partition(".")
    return f"{_V1}{_RENAMED.get(head, head)}{dot}{rest}"


@cache
def not_in_v1(v1_type: str) -> tuple[Field, ...]:
    """Return the fields that the internal form of a v1 type has and it has not: `checkpoint` of AgentInfo alone.

    Mesos' JSON of agents has it all the same, and so have our documents; a message is written without. None for a type
    that is no v1 type, and for one with other fields of these names.
    """
    head, dot, rest = v1_type.removeprefix(_V1).partition(".")
    internal_type = f"{_V0}{_INTERNAL.get(head, head)}{dot}{rest}"
    if not v1_type.startswith(_V1) or not is_message(internal_type):
        return ()
    numbers, names = {field.number for field in fields_of(v1_type)}, field_names(v1_type)
    lacking = tuple(field for field in fields_of(internal_type) if field.number not in numbers)
    return () if any(field.name in names for field in lacking) else lacking


def is_message(type_name: str) -> bool:
    """Return whether a message type of this full name exists."""
    return type_name in _tables().messages


def is_enum(type_name: str) -> bool:
    """Return whether an enum type of this full name exists."""
    return type_name in _tables().enums


@cache
def fields_of(type_name: str) -> tuple[Field, ...]:
    """Return the fields of a message type, in the order of its table. Raises ProtocolError for an unknown type."""
    if not is_message(type_name):
        raise ProtocolError(f"there is no Mesos message {type_name}")
    return tuple(Field(*row) for row in msgspec.json.decode(_tables().messages[type_name]))


@cache
def numbers_of(type_name: str) -> dict[str, int]:
    """Return the numbers of an enum type by their names. Raises KeyError for an unknown type."""
    numbers: dict[str, int] = msgspec.json.decode(_tables().enums[type_name])
    return numbers


def field_names(type_name: str) -> frozenset[str]:
    """Return the names of the fields of a message type. Raises ProtocolError for an unknown type."""
    return frozenset(field.name for field in fields_of(type_name))


def enum_names(type_name: str) -> frozenset[str]:
    """Return the value names of an enum type, such as `mesos.v1.TaskState`. Raises KeyError for an unknown type."""
    return frozenset(numbers_of(type_name))


class _Tables(msgspec.Struct):
    messages: dict[str, msgspec.Raw]
    enums: dict[str, msgspec.Raw]


class _Both(msgspec.Struct):
    internal: _Tables
    v1: _Tables


@cache
def _tables() -> _Tables:
    # importlib.resources would bring zipfile and tempfile into every service.
    both = msgspec.json.decode(get_data(__package__, "messages.json") or b"", type=_Both)
    return _Tables(both.internal.messages | both.v1.messages, both.internal.enums | both.v1.enums)
