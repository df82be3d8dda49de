"""Mesos' messages: JSON documents in, protobuf bytes out, and back; internal (v0) and v1 forms of the same thing.

Inside a process a message is a plain document: field names as in the protobuf, enums as their names, bytes as base64
text, 64-bit integers as integers, and an absent field absent. The protobuf classes are built from the field tables in
messages.json (facts of Mesos 1.12), so that message types have one source.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib.resources import files
from typing import Any, NamedTuple

from google.protobuf import descriptor_pool, duration_pb2, json_format, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, EncodeError, Message

from mesos_gpu.errors import ProtocolError
from mesos_gpu.mesos.descriptors import file_of
from mesos_gpu.mesos.leniency import lenient
from mesos_gpu.mesos.resource import Document

# Types that v1 calls by another name; all others differ by `mesos.v1.` for `mesos.` alone (include/mesos/v1).
_RENAMED = {"SlaveInfo": "AgentInfo", "SlaveID": "AgentID"}
# How protobuf's JSON writes doubles that JSON has no number for.
_NOT_FINITE = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
_V0, _V1 = "mesos.", "mesos.v1."
# Fields with a default that Mesos' JSON leaves out all the same, because they are deprecated.
_SILENT_DEFAULTS = frozenset({("Resource", "role"), ("FrameworkInfo", "role")})


def encode(type_name: str, document: Mapping[str, Any]) -> bytes:
    """Return the protobuf bytes of a document. Raises ProtocolError when it does not fit the type."""
    try:
        return _build(type_name, document).SerializeToString(deterministic=True)
    except EncodeError as error:
        raise ProtocolError(f"{type_name}: {error}") from None


def decode(type_name: str, data: bytes) -> Document:
    """Return the document of protobuf bytes. Raises ProtocolError when they do not parse or miss a required field."""
    return _document(_parse(type_name, data))


def evolve(internal_type: str, document: Mapping[str, Any]) -> Document:
    """Return the v1 document of an internal one, such as `mesos.SlaveInfo`; the wire form of both is the same."""
    data = _build(internal_type, document).SerializePartialToString()
    return _document(_parse(_v1_name(internal_type), data, partial=True))


def devolve(internal_type: str, document: Mapping[str, Any]) -> Document:
    """Return the internal document, of type `internal_type`, of a v1 one."""
    data = _build(_v1_name(internal_type), document).SerializePartialToString()
    return _document(_parse(internal_type, data, partial=True))


def check(type_name: str, document: object) -> str | None:
    """Return what keeps a document from elsewhere from being of this type, or None.

    Unknown fields are ignored, and much is taken for what was meant: see `leniency`.
    """
    if not isinstance(document, Mapping):
        return f"expected an object for {type_name}"
    try:
        message = _build_leniently(type_name, document)
    except ProtocolError as error:
        return str(error)
    return None if message.IsInitialized() else _missing(message)


def normalize(type_name: str, document: Mapping[str, Any]) -> Document:
    """Return a document from elsewhere in our form: unknown fields gone, numbers of their field's type.

    Raises ProtocolError when it does not fit the type; missing required fields are left to `check`.
    """
    return _document(_build_leniently(type_name, document))


def with_defaults(type_name: str, document: Mapping[str, Any]) -> Document:
    """Return a document as Mesos' JSON shows it: absent optional fields that have an explicit default are there.

    Source: Mesos 3rdparty/stout/include/stout/protobuf.hpp, JSON of a protobuf.
    """
    return _filled(_fillings(type_name), document)


def field_names(type_name: str) -> frozenset[str]:
    """Return the names of the fields of a message type. Raises ProtocolError for an unknown type."""
    return frozenset(_message_class(type_name).DESCRIPTOR.fields_by_name)


def enum_names(type_name: str) -> frozenset[str]:
    """Return the value names of an enum type, such as `mesos.v1.TaskState`."""
    return frozenset(_pool().FindEnumTypeByName(type_name).values_by_name)


def is_message(type_name: str) -> bool:
    """Tell whether a message type of this full name exists."""
    try:
        _pool().FindMessageTypeByName(type_name)
    except KeyError:
        return False
    return True


def _v1_name(internal_type: str) -> str:
    head, dot, rest = internal_type.removeprefix(_V0).partition(".")
    return f"{_V1}{_RENAMED.get(head, head)}{dot}{rest}"


def _build(type_name: str, document: Mapping[str, Any]) -> Message:
    message = _message_class(type_name)()
    try:
        json_format.ParseDict(dict(document), message, ignore_unknown_fields=True)
    except (json_format.ParseError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ProtocolError(f"{type_name}: {error}") from None
    return message


def _build_leniently(type_name: str, document: Mapping[str, Any]) -> Message:
    """Build from a document that others wrote: as lenient, and as strict, as Mesos."""
    try:
        return _build(type_name, lenient(_message_class(type_name).DESCRIPTOR, document))
    except RecursionError:
        raise ProtocolError(f"{type_name}: nested too deeply") from None
    except ProtocolError as error:
        raise ProtocolError(f"{type_name}: {str(error).removeprefix(f'{type_name}: ')}") from None


def _parse(type_name: str, data: bytes, *, partial: bool = False) -> Message:
    message = _message_class(type_name)()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise ProtocolError(f"{type_name}: {error}") from None
    if not partial and not message.IsInitialized():
        raise ProtocolError(f"{type_name}: {_missing(message)}")
    return message


def _missing(message: Any) -> str:
    return f"Missing required fields: {', '.join(message.FindInitializationErrors())}"


def _document(message: Message) -> Document:
    return {
        field.name: (_value(field, value) if not field.is_repeated else _items(field, value))
        for field, value in message.ListFields()
    }


class _Filling(NamedTuple):
    """What `with_defaults` knows of a field. Asking descriptors each time made a long GET_TASKS block its program."""

    name: str
    default: Any
    inner: Callable[[], tuple[_Filling, ...]] | None
    repeated: bool


@cache
def _fillings(type_name: str) -> tuple[_Filling, ...]:
    descriptor = _pool().FindMessageTypeByName(type_name)

    def filling(field: FieldDescriptor) -> _Filling:
        said = field.has_default_value and (descriptor.name, field.name) not in _SILENT_DEFAULTS
        entry = field.message_type
        # A function: some messages contain messages of their own type.
        inner = None if entry is None or entry.GetOptions().map_entry else partial(_fillings, entry.full_name)
        return _Filling(field.name, _value(field, field.default_value) if said else None, inner, field.is_repeated)

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


def _items(field: FieldDescriptor, values: Any) -> Any:
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        return {key: _value(entry.fields_by_name["value"], values[key]) for key in values}
    return [_value(field, item) for item in values]


def _value(field: FieldDescriptor, value: Any) -> Any:
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return _document(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    if field.type == FieldDescriptor.TYPE_BYTES:
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, float) and not math.isfinite(value):
        return _NOT_FINITE[str(value)]
    return value


@cache
def _message_class(type_name: str) -> type[Message]:
    try:
        return message_factory.GetMessageClass(_pool().FindMessageTypeByName(type_name))
    except KeyError:
        raise ProtocolError(f"there is no Mesos message {type_name}") from None


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    tables = json.loads(files(__package__).joinpath("messages.json").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(duration_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file_of("mesos", tables["internal"]))
    pool.Add(file_of("mesos.v1", tables["v1"]))
    return pool
