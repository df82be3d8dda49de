"""Documents to protobuf bytes and back in C, where the codec is installed (`mesos_gpu.native`).

C takes only what is surely right: a message that any protobuf library would write, a document as we write it. For all
else it returns nothing, and the plans (`codec.plans`) and the protobuf library decide, as where nothing is compiled; so
every error has their words. What C knows of a type is a table made of the same plan, when the type is first met.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from mesos_gpu.mesos.codec.plans import plan_of
from mesos_gpu.mesos.resource import Document
from mesos_gpu.native import TABLE, Row, Table

_KINDS = {
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_UINT64: "uint64",
}
_types: dict[Table, tuple[str, bool]] = {}
"""Of which type each table is, and whether in v1 words."""


def decoded(type_name: str, data: bytes, v1: bool = False) -> Document | None:
    """Return the document of bytes; None: Python has to decide. Raises ProtocolError when there is no such type."""
    if TABLE is None:
        return None
    table = _table(type_name, v1)
    while (found := table.decode(data)).__class__ is TABLE:
        _fill(found)
    return found  # type: ignore[no-any-return]


def encoded(type_name: str, document: Mapping[str, Any], v1: bool = False) -> bytes | None:
    """Return the bytes of a document; None: Python has to decide. Raises ProtocolError when there is no such type."""
    if TABLE is None:
        return None
    table = _table(type_name, v1)
    while (found := table.encode(document)).__class__ is TABLE:
        _fill(found)
    return found  # type: ignore[no-any-return]


@cache
def _table(type_name: str, v1: bool) -> Any:
    plan_of(type_name, v1=v1)  # which says it when there is no such type
    assert TABLE is not None
    table = TABLE()
    _types[table] = type_name, v1
    return table


def _fill(table: Any) -> None:
    type_name, v1 = _types[table]
    table.fill(rows(type_name, v1))


def rows(type_name: str, v1: bool) -> list[Row]:
    """Return the fields of a type as a table takes them. Their numbers are up to 63; Mesos has none beyond 55."""
    fields = sorted(plan_of(type_name, v1=v1).fields(), key=lambda found: found[0].number)
    if len({name for _, name, _ in fields}) < len(fields):
        # A type that v1 has in another form (scheduler.Call.Subscribe): nobody says it in v1 words.
        return [(field.number, field.name, "other", field.is_repeated, field.is_required, None) for field, *_ in fields]
    return [_row(field, name, numbers, v1) for field, name, numbers in fields]


def _row(field: FieldDescriptor, name: str, numbers: Mapping[str, int] | None, v1: bool) -> Row:
    kind, of = _KINDS.get(field.type, "other"), None
    inner = field.message_type
    if inner is not None and inner.full_name.startswith("mesos."):
        kind = "map" if inner.GetOptions().map_entry else "message"
        of = _table(inner.full_name, v1)
    elif numbers is not None and len(set(numbers.values())) == len(numbers):
        kind, of = "enum", numbers
    return field.number, name, kind, field.is_repeated, field.is_required, of
