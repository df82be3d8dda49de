"""Documents to protobuf bytes and back in C, where the codec is installed (`mesos_gpu.native`).

C takes only what is surely right: a message that any protobuf library would write, a document as we write it. For all
else it returns nothing, and the plans (`codec.plans`) and the protobuf library decide, as where nothing is compiled; so
every error has their words. What C knows of a type is made of its fields' table, when the type is first met.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.schema import Field, fields_of, is_enum, is_message, not_in_v1, numbers_of, v1_name
from mesos_gpu.native import TABLE, Row, Table

_SCALARS = frozenset({"bool", "bytes", "double", "int32", "int64", "string", "uint32", "uint64"})
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
    fields_of(type_name)  # which says it when there is no such type
    assert TABLE is not None
    table = TABLE()
    _types[table] = type_name, v1
    return table


def _fill(table: Any) -> None:
    type_name, v1 = _types[table]
    table.fill(rows(type_name, v1))


def rows(type_name: str, v1: bool) -> list[Row]:
    """Return the fields of a type as a table takes them. Their numbers are up to 63; Mesos has none beyond 55."""
    fields = sorted(fields_of(type_name))
    evolved = v1_name(type_name)
    # As in a plan: a field that v1 does not have (SlaveInfo's checkpoint) keeps its own name.
    words = {field.number: field for field in fields_of(evolved)} if v1 and is_message(evolved) else {}
    spelled = [words.get(field.number, field) for field in fields]
    if len({word.name for word in spelled}) < len(fields):
        # A type that v1 has in another form (scheduler.Call.Subscribe): nobody says it in v1 words.
        return [(field.number, field.name, "other", *_labels(field), None) for field in fields]
    rows = [_row(field, word, v1) for field, word in zip(fields, spelled, strict=True)]
    left_out: list[Row] = [(field.number, field.name, "absent", False, False, None) for field in not_in_v1(type_name)]
    return sorted([*rows, *left_out], key=lambda row: row[0]) if left_out else rows


def _row(field: Field, word: Field, v1: bool) -> Row:
    kind, of = field.type if field.type in _SCALARS else "other", None
    if is_message(field.type):
        kind, of = "map" if field.is_map else "message", _table(field.type, v1)
    elif is_enum(field.type):
        # Of v1's names those that the message takes, too.
        taken = set(numbers_of(field.type).values())
        numbers = {name: number for name, number in numbers_of(word.type).items() if number in taken}
        if len(set(numbers.values())) == len(numbers):
            kind, of = "enum", numbers
    return field.number, word.name, kind, *_labels(field), of


def _labels(field: Field) -> tuple[bool, bool]:
    return field.label == "repeated", field.label == "required"
