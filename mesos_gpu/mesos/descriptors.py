"""Protobuf descriptors built from the field tables of messages.json.

A table row is [number, name, label, type, default?]. Each form (internal, v1) becomes one file; a dotted name such as
`mesos.v1.Offer.Operation` becomes nested messages, and a part of the package that only some names have
(`mesos.v1.scheduler`) becomes a message without fields: the full names, and so the wire, are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import FieldDescriptor

Field = descriptor_pb2.FieldDescriptorProto

LABELS = {
    "optional": Field.LABEL_OPTIONAL,
    "required": Field.LABEL_REQUIRED,
    "repeated": Field.LABEL_REPEATED,
}
SCALARS = {
    "double": Field.TYPE_DOUBLE,
    "float": Field.TYPE_FLOAT,
    "int32": Field.TYPE_INT32,
    "int64": Field.TYPE_INT64,
    "uint32": Field.TYPE_UINT32,
    "uint64": Field.TYPE_UINT64,
    "bool": Field.TYPE_BOOL,
    "string": Field.TYPE_STRING,
    "bytes": Field.TYPE_BYTES,
}
DURATION = "google.protobuf.Duration"
"""The one type of protobuf's own that Mesos uses; JSON has a text for it."""
INTEGERS = frozenset(
    {
        FieldDescriptor.CPPTYPE_INT32,
        FieldDescriptor.CPPTYPE_INT64,
        FieldDescriptor.CPPTYPE_UINT32,
        FieldDescriptor.CPPTYPE_UINT64,
    }
)
FLOATS = frozenset({FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT})
"""Kinds of fields: whole numbers, and others."""
# protoc names the entry of `map<...> limits` after the field: LimitsEntry.
MAP_ENTRY = "Entry"


def file_of(package: str, tables: Mapping[str, Mapping[str, Any]]) -> descriptor_pb2.FileDescriptorProto:
    """Return one proto2 file with every message and enum of `tables`, all of whose names begin with `package`."""
    messages, enums = tables["messages"], tables["enums"]
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto2")
    file.dependency.append("google/protobuf/duration.proto")
    made: dict[str, descriptor_pb2.DescriptorProto] = {}

    def message(full_name: str) -> descriptor_pb2.DescriptorProto:
        if full_name not in made:
            outer, _, name = full_name.rpartition(".")
            siblings = file.message_type if outer == package else message(outer).nested_type
            made[full_name] = siblings.add(name=name)
        return made[full_name]

    for full_name, rows in messages.items():
        descriptor = message(full_name)
        if full_name.endswith(MAP_ENTRY):
            descriptor.options.map_entry = True
        for row in rows:
            _add_field(descriptor, row, enums)
    for full_name, values in enums.items():
        outer, _, name = full_name.rpartition(".")
        enum = (file.enum_type if outer == package else message(outer).enum_type).add(name=name)
        enum.options.allow_alias = len(set(values.values())) != len(values)
        for value_name, number in values.items():
            enum.value.add(name=value_name, number=number)
    return file


def _add_field(
    message: descriptor_pb2.DescriptorProto, row: Sequence[Any], enums: Mapping[str, Mapping[str, int]]
) -> None:
    number, name, label, type_name = row[:4]
    field = message.field.add(number=number, name=name, label=LABELS[label])
    if type_name in SCALARS:
        field.type = SCALARS[type_name]
    else:
        field.type = Field.TYPE_ENUM if type_name in enums else Field.TYPE_MESSAGE
        field.type_name = f".{type_name}"
    if len(row) > 4:
        field.default_value = row[4]
