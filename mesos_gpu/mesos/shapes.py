"""JSON from elsewhere to documents in one step, where it is surely written as we write it.

A shape is a type of Mesos' messages as a class that msgspec reads JSON into: it knows which fields there are, what each
takes and which must be there, so that compiled code does what else takes a plan, a message and its plan back. What a
shape does not take may be good all the same: `messages.read` decides then, and says what is wrong.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from mesos_gpu.mesos.message_types import pool
from mesos_gpu.mesos.resource import Document

_Kind: TypeAlias = Any
"""A type as annotations have it."""


def _whole(bits: int, *, signed: bool) -> _Kind:
    # Of 64 bits without a sign those of the upper half are left to `messages.read`: msgspec has no such bounds.
    lowest = -(2 ** (bits - 1)) if signed else 0
    highest = 2 ** (bits if bits == 32 and not signed else bits - 1) - 1
    return Annotated[int, msgspec.Meta(ge=lowest, le=highest)]


_KINDS: dict[int, _Kind] = {
    FieldDescriptor.CPPTYPE_INT32: _whole(32, signed=True),
    FieldDescriptor.CPPTYPE_INT64: _whole(64, signed=True),
    FieldDescriptor.CPPTYPE_UINT32: _whole(32, signed=False),
    FieldDescriptor.CPPTYPE_UINT64: _whole(64, signed=False),
    FieldDescriptor.CPPTYPE_DOUBLE: float,
    FieldDescriptor.CPPTYPE_BOOL: bool,
}
"""Not the numbers of 32 bits with a fraction: they are rounded on their way through a message."""
_Field: TypeAlias = tuple[str, _Kind] | tuple[str, _Kind, Any]


def read_quickly(type_name: str, body: bytes) -> Document | None:
    """Return the document that `messages.read` makes of JSON, or None where that has to be asked."""
    try:
        read: Document = msgspec.to_builtins(_decoder(type_name).decode(body))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return read


@cache
def _decoder(type_name: str) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_shape(type_name, ()))


_SHAPES: dict[str, _Kind] = {}


def _shape(type_name: str, around: tuple[str, ...]) -> _Kind:
    """Return the class of a type inside of others. A field of one of those is not in it, so that it ends."""
    if type_name not in _SHAPES:
        descriptor: Descriptor = pool().FindMessageTypeByName(type_name)
        within = (*around, type_name)
        # In the order of their numbers, as messages list them.
        fields = [_field(field, within) for field in sorted(descriptor.fields, key=lambda field: field.number)]
        _SHAPES[type_name] = msgspec.defstruct(
            type_name.replace(".", "_"),
            [field for field in fields if field is not None],
            kw_only=True,
            omit_defaults=True,
            forbid_unknown_fields=True,
        )
    return _SHAPES[type_name]


def _field(field: FieldDescriptor, within: tuple[str, ...]) -> _Field | None:
    """Return a field of a class, None for one that is not in it: whatever has it is left to `messages.read`."""
    kind = None if field.containing_oneof is not None else _kind(field, within)
    if kind is None:
        return None
    if field.is_repeated:
        many: _Kind = list[kind]  # type: ignore[valid-type]
        return field.name, many, msgspec.field(default_factory=list)
    if field.is_required:
        return field.name, kind
    return (field.name, kind | msgspec.UnsetType, msgspec.UNSET) if field.has_presence else None


def _kind(field: FieldDescriptor, within: tuple[str, ...]) -> _Kind | None:
    inner = field.message_type
    if inner is not None:
        left_out = inner.GetOptions().map_entry or inner.full_name in within or not _is_ours(inner.full_name)
        return None if left_out else _shape(inner.full_name, within)
    if field.enum_type is not None:
        names = field.enum_type.values_by_name
        alone = len(names) == len(field.enum_type.values_by_number)
        return Literal[tuple(names)] if alone else None
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return bytes if field.type == FieldDescriptor.TYPE_BYTES else str
    return _KINDS.get(field.cpp_type)


def _is_ours(type_name: str) -> bool:
    """Return whether a type is Mesos', and not one that JSON writes in a way of its own, as Duration."""
    return type_name.startswith("mesos.")
