"""JSON of Mesos' messages, read by compiled code as far as it is surely written as we write it.

A shape is a type of Mesos' messages as a class that msgspec reads JSON into: it knows which fields there are, what each
takes and which must be there, so that compiled code does what else takes a plan, a message and its plan back. What a
shape does not take may be good all the same: `messages.read` decides then, and says what is wrong.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.schema import Field, fields_of, is_enum, is_message, numbers_of

_Kind: TypeAlias = Any
"""A type as annotations have it."""


def _whole(bits: int, *, signed: bool) -> _Kind:
    # Of 64 bits without a sign those of the upper half are left to `messages.read`: msgspec has no such bounds.
    lowest = -(2 ** (bits - 1)) if signed else 0
    highest = 2 ** (bits if bits == 32 and not signed else bits - 1) - 1
    return Annotated[int, msgspec.Meta(ge=lowest, le=highest)]


_KINDS: dict[str, _Kind] = {
    "int32": _whole(32, signed=True),
    "int64": _whole(64, signed=True),
    "uint32": _whole(32, signed=False),
    "uint64": _whole(64, signed=False),
    "double": float,
    "bool": bool,
    "bytes": bytes,
    "string": str,
}
"""Not the numbers of 32 bits with a fraction: they are rounded on their way through a message."""
_NOBODY_SAYS: _Kind = Literal["\0"]
"""Of a field that must be there and is left to `messages.read`: nothing that has the type is read here."""
_Named: TypeAlias = tuple[str, _Kind] | tuple[str, _Kind, Any]


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
        within = (*around, type_name)
        # In the order of their numbers, as messages list them.
        fields = [_shape_field(field, within) for field in sorted(fields_of(type_name))]
        _SHAPES[type_name] = msgspec.defstruct(
            type_name.replace(".", "_"),
            [field for field in fields if field is not None],
            kw_only=True,
            omit_defaults=True,
            forbid_unknown_fields=True,
        )
    return _SHAPES[type_name]


def _shape_field(field: Field, within: tuple[str, ...]) -> _Named | None:
    """Return a field of a class, None for one that is not in it: whatever has it is left to `messages.read`."""
    kind = _shape_kind(field, within)
    if kind is None:
        return (field.name, _NOBODY_SAYS) if field.label == "required" else None
    if field.label == "repeated":
        many: _Kind = list[kind]  # type: ignore[valid-type]
        return field.name, many, msgspec.field(default_factory=list)
    if field.label == "required":
        return field.name, kind
    return field.name, kind | msgspec.UnsetType, msgspec.UNSET


def _shape_kind(field: Field, within: tuple[str, ...]) -> _Kind | None:
    if is_message(field.type):
        return None if field.is_map or field.type in within else _shape(field.type, within)
    if is_enum(field.type):
        numbers = numbers_of(field.type)
        alone = len(set(numbers.values())) == len(numbers)
        return Literal[tuple(numbers)] if alone else None
    return _KINDS.get(field.type)
