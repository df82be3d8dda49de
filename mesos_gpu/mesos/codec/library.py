"""Documents, messages of the protobuf library and bytes: Python's way, which decides wherever something is unusual.

It is read when something is, where the codec is compiled: the library and the descriptors of all types take 6 MiB.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from google.protobuf import json_format
from google.protobuf.message import DecodeError, EncodeError, Message

from mesos_gpu.errors import ProtocolError
from mesos_gpu.mesos.codec.plans import Unusual, plan_of
from mesos_gpu.mesos.leniency import lenient
from mesos_gpu.mesos.message_types import message_class
from mesos_gpu.mesos.resource import Document

_Devolve: TypeAlias = Callable[[str, Mapping[str, Any]], Document]
"""From the name of an internal type and a v1 document to the internal one."""
_NOT_OURS = (Unusual, TypeError, ValueError, RecursionError)
"""What a plan raises for a document that is not written as we write it."""


def encode(type_name: str, document: Mapping[str, Any], *, partial: bool = False) -> bytes:
    """Return the bytes of a document; with `partial` required fields may be missing. Raises ProtocolError."""
    message = _build(type_name, document)
    return message.SerializePartialToString() if partial else _bytes(type_name, message)


def encode_from_v1(internal_type: str, document: Mapping[str, Any], devolve: _Devolve) -> bytes:
    """See `messages.encode_from_v1`."""
    try:
        message = plan_of(internal_type, v1=True).message(document)
    except _NOT_OURS:
        message = _build(internal_type, plan_of(internal_type, v1=True).own_words(document, devolve))
    return _bytes(internal_type, message)


def encode_from_parts(internal_type: str, document: Mapping[str, Any], devolve: _Devolve) -> bytes:
    """See `messages.encode_from_parts`."""
    try:
        return _bytes(internal_type, plan_of(internal_type, v1=True).message_of_parts(document))
    except (*_NOT_OURS, ProtocolError):
        return encode_from_v1(internal_type, document, devolve)


def decode(type_name: str, data: bytes, *, v1: bool = False, partial: bool = False) -> Document:
    """Return the document of bytes, in v1 words if so; with `partial` required fields may be missing.

    Raises ProtocolError.
    """
    message = message_class(type_name)()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise ProtocolError(f"{type_name}: {error}") from None
    if not partial and not message.IsInitialized():
        raise ProtocolError(f"{type_name}: {_missing(message)}")
    return plan_of(type_name, v1=v1).document(message)


def read(type_name: str, document: Mapping[str, Any], *, partial: bool = False) -> Document:
    """Return a document that others wrote in our form: as lenient, and as strict, as Mesos. Raises ProtocolError."""
    try:
        message = _build(type_name, lenient(message_class(type_name).DESCRIPTOR, document))
    except RecursionError:
        raise ProtocolError(f"{type_name}: nested too deeply") from None
    except ProtocolError as error:
        raise ProtocolError(f"{type_name}: {str(error).removeprefix(f'{type_name}: ')}") from None
    if not partial and not message.IsInitialized():
        raise ProtocolError(_missing(message))
    return plan_of(type_name).document(message)


def _bytes(type_name: str, message: Message) -> bytes:
    try:
        return message.SerializeToString(deterministic=True)
    except EncodeError as error:
        raise ProtocolError(f"{type_name}: {error}") from None


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


def _missing(message: Any) -> str:
    return f"Missing required fields: {', '.join(message.FindInitializationErrors())}"
