"""Mesos' messages: JSON documents in, protobuf bytes out, and back; internal (v0) and v1 forms of the same thing.

Inside a process a message is a plain document: field names as in the protobuf, enums as their names, bytes as base64
text, 64-bit integers as integers, and an absent field absent. Master and agent keep v1 documents and speak internal
messages; as the bytes of both forms are the same, a document goes to bytes, and bytes to a document, in one step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, EncodeError, Message

from mesos_gpu.errors import ProtocolError
from mesos_gpu.mesos.codec import compiled
from mesos_gpu.mesos.codec.plans import Unusual, plan_of
from mesos_gpu.mesos.leniency import lenient
from mesos_gpu.mesos.message_types import enum_names, field_names, is_message, message_class, pool, v1_name
from mesos_gpu.mesos.resource import Document

__all__ = [
    "check",
    "decode",
    "decode_to_v1",
    "devolve",
    "encode",
    "encode_from_parts",
    "encode_from_v1",
    "enum_names",
    "evolve",
    "field_names",
    "is_message",
    "normalize",
    "read",
    "with_defaults",
]

# Fields with a default that Mesos' JSON leaves out all the same, because they are deprecated.
_SILENT_DEFAULTS = frozenset({("Resource", "role"), ("FrameworkInfo", "role")})


def encode(type_name: str, document: Mapping[str, Any]) -> bytes:
    """Return the protobuf bytes of a document. Raises ProtocolError when it does not fit the type."""
    data = compiled.encoded(type_name, document)
    return _bytes(type_name, _build(type_name, document)) if data is None else data


def encode_from_v1(internal_type: str, document: Mapping[str, Any]) -> bytes:
    """Return the bytes of an internal message whose parts, where v1 has a type for them, are v1 documents.

    What only the internal message has (`slave_id` beside a task) has its own name. Raises ProtocolError.
    """
    data = compiled.encoded(internal_type, document, True)
    if data is not None:
        return data
    try:
        message = plan_of(internal_type, v1=True).message(document)
    except _NOT_OURS:
        message = _build(internal_type, plan_of(internal_type, v1=True).own_words(document, devolve))
    return _bytes(internal_type, message)


def encode_from_parts(internal_type: str, document: Mapping[str, Any]) -> bytes:
    """Return the same, where all v1 documents in it are of what `read` or `decode` returned. Raises ProtocolError.

    Each of their values is of its field's type, and is not looked at again.
    """
    data = compiled.encoded(internal_type, document, True)
    if data is not None:
        return data
    try:
        return _bytes(internal_type, plan_of(internal_type, v1=True).message_of_parts(document))
    except (*_NOT_OURS, ProtocolError):
        return encode_from_v1(internal_type, document)


def decode(type_name: str, data: bytes) -> Document:
    """Return the document of protobuf bytes. Raises ProtocolError when they do not parse or miss a required field."""
    document = compiled.decoded(type_name, data)
    return plan_of(type_name).document(_parse(type_name, data)) if document is None else document


def decode_to_v1(internal_type: str, data: bytes) -> Document:
    """Return the document of an internal message, with v1 documents for parts that v1 has a type for.

    The one field that v1 has not, `checkpoint` of SlaveInfo, is kept. Raises ProtocolError as `decode`.
    """
    document = compiled.decoded(internal_type, data, True)
    return plan_of(internal_type, v1=True).document(_parse(internal_type, data)) if document is None else document


def evolve(internal_type: str, document: Mapping[str, Any]) -> Document:
    """Return the v1 document of an internal one, such as `mesos.SlaveInfo`; the wire form of both is the same."""
    return _translated(internal_type, v1_name(internal_type), document)


def devolve(internal_type: str, document: Mapping[str, Any]) -> Document:
    """Return the internal document, of type `internal_type`, of a v1 one."""
    return _translated(v1_name(internal_type), internal_type, document)


def check(type_name: str, document: object) -> str | None:
    """Return what keeps a document from elsewhere from being of this type, or None.

    Unknown fields are ignored, and much is taken for what was meant: see `leniency`.
    """
    try:
        read(type_name, document)
    except ProtocolError as error:
        return str(error)
    return None


def read(type_name: str, document: object) -> Document:
    """Return a document from elsewhere in our form. Raises ProtocolError with the words of `check`."""
    if not isinstance(document, Mapping):
        raise ProtocolError(f"expected an object for {type_name}")
    message = _build_leniently(type_name, document)
    if not message.IsInitialized():
        raise ProtocolError(_missing(message))
    return plan_of(type_name).document(message)


def normalize(type_name: str, document: Mapping[str, Any]) -> Document:
    """Return a document from elsewhere in our form: unknown fields gone, numbers of their field's type.

    Raises ProtocolError when it does not fit the type; missing required fields are left to `check`.
    """
    return plan_of(type_name).document(_build_leniently(type_name, document))


def with_defaults(type_name: str, document: Mapping[str, Any]) -> Document:
    """Return a document as Mesos' JSON shows it: absent optional fields that have an explicit default are there.

    Source: Mesos 3rdparty/stout/include/stout/protobuf.hpp, JSON of a protobuf.
    """
    return _filled(_fillings(type_name), document)


def _translated(from_type: str, to_type: str, document: Mapping[str, Any]) -> Document:
    """Return the document of another type with the same wire form; required fields may be missing in both."""
    data = compiled.encoded(from_type, document)
    if data is None:
        data = _build(from_type, document).SerializePartialToString()
    found = compiled.decoded(to_type, data)
    return plan_of(to_type).document(_parse(to_type, data, partial=True)) if found is None else found


def _bytes(type_name: str, message: Message) -> bytes:
    try:
        return message.SerializeToString(deterministic=True)
    except EncodeError as error:
        raise ProtocolError(f"{type_name}: {error}") from None


_NOT_OURS = (Unusual, TypeError, ValueError, RecursionError)
"""What a plan raises for a document that is not written as we write it."""


def _build(type_name: str, document: Mapping[str, Any]) -> Message:
    try:
        return plan_of(type_name).message(document)
    except _NOT_OURS:
        pass
    message = message_class(type_name)()
    try:
        json_format.ParseDict(dict(document), message, ignore_unknown_fields=True)
    except (json_format.ParseError, TypeError, ValueError, AttributeError, RecursionError, SystemError) as error:
        # SystemError is protobuf's own for a field's name that is not UTF-8.
        raise ProtocolError(f"{type_name}: {error}") from None
    return message


def _build_leniently(type_name: str, document: Mapping[str, Any]) -> Message:
    """Build from a document that others wrote: as lenient, and as strict, as Mesos."""
    try:
        return _build(type_name, lenient(message_class(type_name).DESCRIPTOR, document))
    except RecursionError:
        raise ProtocolError(f"{type_name}: nested too deeply") from None
    except ProtocolError as error:
        raise ProtocolError(f"{type_name}: {str(error).removeprefix(f'{type_name}: ')}") from None


def _parse(type_name: str, data: bytes, *, partial: bool = False) -> Message:
    message = message_class(type_name)()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise ProtocolError(f"{type_name}: {error}") from None
    if not partial and not message.IsInitialized():
        raise ProtocolError(f"{type_name}: {_missing(message)}")
    return message


def _missing(message: Any) -> str:
    return f"Missing required fields: {', '.join(message.FindInitializationErrors())}"


class _Filling(NamedTuple):
    """What `with_defaults` knows of a field. Asking descriptors each time made a long GET_TASKS block its program."""

    name: str
    default: Any
    inner: Callable[[], tuple[_Filling, ...]] | None
    repeated: bool


@cache
def _fillings(type_name: str) -> tuple[_Filling, ...]:
    descriptor = pool().FindMessageTypeByName(type_name)

    def filling(field: FieldDescriptor) -> _Filling:
        said = field.has_default_value and (descriptor.name, field.name) not in _SILENT_DEFAULTS
        entry = field.message_type
        # A function: some messages contain messages of their own type.
        inner = None if entry is None or entry.GetOptions().map_entry else partial(_fillings, entry.full_name)
        return _Filling(field.name, _default(field) if said else None, inner, field.is_repeated)

    return tuple(map(filling, descriptor.fields))


def _filled(fillings: tuple[_Filling, ...], document: Mapping[str, Any]) -> Document:
    filled: Document = {}
    for name, default, inner, repeated in fillings:
        value = document.get(name)
        if value is None:
            if default is not None:
                filled[name] = default
        elif inner is None:
            filled[name] = value
        elif repeated:
            filled[name] = [_filled(inner(), item) for item in value]
        else:
            filled[name] = _filled(inner(), value)
    return filled


def _default(field: FieldDescriptor) -> Any:
    names = None if field.enum_type is None else field.enum_type.values_by_number
    return field.default_value if names is None else names[field.default_value].name
