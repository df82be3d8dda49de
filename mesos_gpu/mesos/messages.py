"""Mesos' messages: JSON documents in, protobuf bytes out, and back; internal (v0) and v1 forms of the same thing.

Inside a process a message is a plain document: field names as in the protobuf, enums as their names, bytes as base64
text, 64-bit integers as integers, and an absent field absent. Master and agent keep v1 documents and speak internal
messages; as the bytes of both forms are the same, a document goes to bytes, and bytes to a document, in one step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

from mesos_gpu import native
from mesos_gpu.errors import ProtocolError
from mesos_gpu.mesos.codec import compiled
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.schema import Field, enum_names, field_names, fields_of, is_message, v1_name

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


def prepare() -> None:
    """Read now what reading and writing messages takes, so that processes that are forked later share it.

    Where the codec is compiled that is the tables alone: most services never need the protobuf library.
    """
    if native.TABLE is None:
        from mesos_gpu.mesos.message_types import pool

        _library()
        pool()
    else:
        is_message("")


def _library() -> Any:
    """Return Python's way, which is read when it is first needed: `codec.library`."""
    from mesos_gpu.mesos.codec import library

    return library


def encode(type_name: str, document: Mapping[str, Any]) -> bytes:
    """Return the protobuf bytes of a document. Raises ProtocolError when it does not fit the type."""
    data = compiled.encoded(type_name, document)
    return _library().encode(type_name, document) if data is None else data


def encode_from_v1(internal_type: str, document: Mapping[str, Any]) -> bytes:
    """Return the bytes of an internal message whose parts, where v1 has a type for them, are v1 documents.

    What only the internal message has (`slave_id` beside a task) has its own name. Raises ProtocolError.
    """
    data = compiled.encoded(internal_type, document, True)
    return _library().encode_from_v1(internal_type, document, devolve) if data is None else data


def encode_from_parts(internal_type: str, document: Mapping[str, Any]) -> bytes:
    """Return the same, where all v1 documents in it are of what `read` or `decode` returned. Raises ProtocolError.

    Each of their values is of its field's type, and is not looked at again.
    """
    data = compiled.encoded(internal_type, document, True)
    return _library().encode_from_parts(internal_type, document, devolve) if data is None else data


def decode(type_name: str, data: bytes) -> Document:
    """Return the document of protobuf bytes. Raises ProtocolError when they do not parse or miss a required field."""
    document = compiled.decoded(type_name, data)
    return _library().decode(type_name, data) if document is None else document


def decode_to_v1(internal_type: str, data: bytes) -> Document:
    """Return the document of an internal message, with v1 documents for parts that v1 has a type for.

    The one field that v1 has not, `checkpoint` of SlaveInfo, is kept. Raises ProtocolError as `decode`.
    """
    document = compiled.decoded(internal_type, data, True)
    return _library().decode(internal_type, data, v1=True) if document is None else document


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
    found: Document = _library().read(type_name, document)
    return found


def normalize(type_name: str, document: Mapping[str, Any]) -> Document:
    """Return a document from elsewhere in our form: unknown fields gone, numbers of their field's type.

    Raises ProtocolError when it does not fit the type; missing required fields are left to `check`.
    """
    found: Document = _library().read(type_name, document, partial=True)
    return found


def with_defaults(type_name: str, document: Mapping[str, Any]) -> Document:
    """Return a document as Mesos' JSON shows it: absent optional fields that have an explicit default are there.

    Source: Mesos 3rdparty/stout/include/stout/protobuf.hpp, JSON of a protobuf.
    """
    return _filled(_fillings(type_name), document)


def _translated(from_type: str, to_type: str, document: Mapping[str, Any]) -> Document:
    """Return the document of another type with the same wire form; required fields may be missing in both."""
    data = compiled.encoded(from_type, document)
    if data is None:
        data = _library().encode(from_type, document, partial=True)
    found = compiled.decoded(to_type, data)
    return _library().decode(to_type, data, partial=True) if found is None else found


class _Filling(NamedTuple):
    """What `with_defaults` knows of a field. Asking descriptors each time made a long GET_TASKS block its program."""

    name: str
    default: Any
    inner: Callable[[], tuple[_Filling, ...]] | None
    repeated: bool


@cache
def _fillings(type_name: str) -> tuple[_Filling, ...]:
    short = type_name.rpartition(".")[2]

    def filling(field: Field) -> _Filling:
        said = None if (short, field.name) in _SILENT_DEFAULTS else field.default
        # A function: some messages contain messages of their own type.
        inner = partial(_fillings, field.type) if is_message(field.type) and not field.is_map else None
        return _Filling(field.name, said, inner, field.label == "repeated")

    return tuple(map(filling, fields_of(type_name)))


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
