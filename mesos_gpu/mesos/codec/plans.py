"""Documents to protobuf messages and back, by a plan of each type's fields that is made once.

The protobuf library's own JSON asks its descriptors about every field of every message, which takes ten times as long
as the bytes do. A plan knows what each field is, so that a document becomes the arguments of the message's
constructor, which is C. It takes only what is surely written as we write it; for all else there is `Unusual`, and the
library's JSON decides.

A plan may be written in v1 words: an internal message (`mesos.internal.RunTaskMessage`) holds parts (`mesos.TaskInfo`)
whose bytes are those of their v1 types and whose fields have other names there, `agent_id` for `slave_id`.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter
from typing import Any, TypeAlias

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from mesos_gpu.mesos.descriptors import DURATION, FLOATS, INTEGERS
from mesos_gpu.mesos.message_types import message_class, pool
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.schema import is_message, not_in_v1, v1_name

_MAX_DEPTH = 100
"""Messages in messages: what the protobuf library's JSON takes, too."""
_NOT_FINITE = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
"""How protobuf's JSON writes doubles that JSON has no number for."""
_BEYOND = {name: float(text) for text, name in _NOT_FINITE.items()}

_Write: TypeAlias = Callable[[Any, int], Any]
"""From a document's value to a constructor's argument; the number is how deep we are. Raises Unusual."""
_Read: TypeAlias = Callable[[Any], Any]
"""From a message's value to a document's."""


class Unusual(Exception):
    """A value is not written as we write it; it may be good all the same."""


class Plan:
    """How documents of one type are written and read."""

    __slots__ = ("_absent", "_descriptor", "_names", "_parts", "_reads", "_spelled", "_v1", "_writes", "kind")

    def __init__(self, type_name: str, *, v1: bool) -> None:
        """Plan for an internal or v1 type; with `v1` its parts, and itself, have the names that v1 gives them."""
        self.kind = message_class(type_name)
        self._v1 = v1
        self._descriptor: Descriptor = pool().FindMessageTypeByName(type_name)
        evolved = v1_name(type_name)
        self._spelled = pool().FindMessageTypeByName(evolved) if v1 and is_message(evolved) else self._descriptor
        self._absent = {field.name for field in not_in_v1(type_name)}
        """What documents may have and messages have not."""
        # Made when they are first needed: some messages contain messages of their own type.
        self._writes: dict[str, tuple[str, type | None, _Write]] = {}
        self._reads: dict[FieldDescriptor, tuple[str, _Read | None]] = {}
        self._parts: dict[str, tuple[str, type[Message], type[Message]]] = {}

    def message(self, document: Mapping[str, Any]) -> Message:
        """Return the message of a document. Raises Unusual, or what the constructor raises: TypeError, ValueError."""
        return self.kind(**self.arguments(document, 0))

    def arguments(self, document: Any, depth: int) -> Document:
        """Return what the message's constructor takes. Raises Unusual."""
        if depth >= _MAX_DEPTH or not isinstance(document, dict):
            raise Unusual
        writes = self._writes or self._plan_writes()
        arguments = {}
        for name, value in document.items():
            field = writes.get(name)
            if field is None:
                if name in self._absent:
                    continue
                raise Unusual
            own, plain, write = field
            if value.__class__ is plain:
                arguments[own] = value
            elif value is not None:
                arguments[own] = write(value, depth)
        return arguments

    def message_of_parts(self, document: Mapping[str, Any]) -> Message:
        """Return the same of a document whose parts in v1 words were read here: each value is of its field's type.

        What takes nearly all the time of `message`, to look at each value, has been done then: parts go to their v1
        types' constructors as they are, and over as bytes. Raises what `message` does, for bytes in them, too.
        """
        writes, parts, arguments = self._writes or self._plan_writes(), self._parts or self._plan_parts(), {}
        for name, value in document.items():
            part = parts.get(name)
            if part is not None and isinstance(value, dict):
                own, kind, spelled = part
                arguments[own] = kind.FromString(spelled(**value).SerializePartialToString())
            elif name not in writes:
                raise Unusual
            else:
                own, _, write = writes[name]
                arguments[own] = write(value, 0)
        return self.kind(**arguments)

    def document(self, message: Message) -> Document:
        """Return the document of a message: the fields that are set, in the order of their numbers."""
        reads = self._reads or self._plan_reads()
        document = {}
        for field, value in message.ListFields():
            name, read = reads[field]
            document[name] = value if read is None else read(value)
        return document

    def reader(self) -> _Read:
        """Return what makes documents of messages: `document`, or something quicker.

        Two of three messages inside a message are one value (an id, a scalar, a role): asking for a list of their
        fields takes three times as long as the value does.
        """
        if len(self._descriptor.fields) != 1:
            return self.document
        (field,) = self._descriptor.fields
        if field.is_repeated or field.message_type is not None:
            return self.document
        own, name, of, read = field.name, self._name(field), attrgetter(field.name), self._value_reader(field)
        if read is None:
            return lambda message: {name: of(message)} if message.HasField(own) else {}
        return lambda message: {name: read(of(message))} if message.HasField(own) else {}

    def own_words(self, document: Mapping[str, Any], translate: Callable[[str, Mapping[str, Any]], Document]) -> Any:
        """Return a document in v1 words with every part that v1 has a type for put by `translate(type, part)`."""
        if self._spelled is not self._descriptor:
            known = self._spelled.fields_by_number
            only_here = [field.name for field in self._descriptor.fields if field.number not in known]
            kept = {name: document[name] for name in only_here if name in document}
            return translate(self._descriptor.full_name, document) | kept
        fields = self._descriptor.fields_by_name
        found = {}
        for name, value in document.items():
            inner = fields[name].message_type if name in fields else None
            if inner is None or not isinstance(value, (dict, list, tuple)):
                found[name] = value
            else:
                part = plan_of(inner.full_name, v1=True)
                found[name] = (
                    part.own_words(value, translate)
                    if isinstance(value, dict)
                    else [part.own_words(one, translate) if isinstance(one, dict) else one for one in value]
                )
        return found

    def _name(self, field: FieldDescriptor) -> str:
        """Return a field's name in our words; one that v1 does not have (SlaveInfo's checkpoint) keeps its own."""
        spelled = self._spelled.fields_by_number.get(field.number)
        return field.name if spelled is None else spelled.name

    def _enum(self, field: FieldDescriptor) -> EnumDescriptor:
        spelled: Any = self._spelled.fields_by_number.get(field.number, field)
        enum: EnumDescriptor = spelled.enum_type
        return enum

    def _plan_writes(self) -> dict[str, tuple[str, type | None, _Write]]:
        """Return, by name here: name in the message, the class whose values it takes as they are, how others go."""
        self._writes = {}
        for field in self._descriptor.fields:
            write = self._writer(field)
            self._writes[self._name(field)] = (field.name, _PLAIN.get(write), write)
        return self._writes

    def _plan_parts(self) -> dict[str, tuple[str, type[Message], type[Message]]]:
        """Return, by name here, the fields that v1 has a type for: name in the message, its class, and that of v1."""
        self._parts = {}
        for field in self._descriptor.fields:
            entry = field.message_type
            if entry is not None and not field.is_repeated and is_message(v1_name(entry.full_name)):
                kinds = message_class(entry.full_name), message_class(v1_name(entry.full_name))
                self._parts[self._name(field)] = (field.name, *kinds)
        return self._parts

    def _plan_reads(self) -> dict[FieldDescriptor, tuple[str, _Read | None]]:
        self._reads = {field: (self._name(field), self._reader(field)) for field in self._descriptor.fields}
        return self._reads

    def _writer(self, field: FieldDescriptor) -> _Write:
        if _is_map(field):
            return _map_of(self._value_writer(_value_of(field)))
        write = self._value_writer(field)
        return _list_of(write) if field.is_repeated else write

    def _value_writer(self, field: FieldDescriptor) -> _Write:
        if field.message_type is not None:
            if field.message_type.full_name == DURATION:
                return _duration
            inner = plan_of(field.message_type.full_name, v1=self._v1)
            return lambda value, depth: inner.arguments(value, depth + 1)
        if field.enum_type is not None:
            return _one_of({name: value.number for name, value in self._enum(field).values_by_name.items()})
        if field.type == FieldDescriptor.TYPE_BYTES:
            return _from_base64
        if field.cpp_type in INTEGERS:
            return _integer
        if field.cpp_type in FLOATS:
            return _number
        return _truth if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL else _text

    def _reader(self, field: FieldDescriptor) -> _Read | None:
        if _is_map(field):
            read = self._value_reader(_value_of(field))
            return dict if read is None else lambda values: {key: read(values[key]) for key in values}
        one = self._value_reader(field)
        if not field.is_repeated:
            return one
        return list if one is None else lambda values: [one(value) for value in values]

    def _value_reader(self, field: FieldDescriptor) -> _Read | None:
        if field.message_type is not None:
            return plan_of(field.message_type.full_name, v1=self._v1).reader()
        if field.enum_type is not None:
            names = {number: value.name for number, value in self._enum(field).values_by_number.items()}
            return lambda number: names.get(number, number)
        if field.type == FieldDescriptor.TYPE_BYTES:
            return lambda value: base64.b64encode(value).decode("ascii")
        return _finite if field.cpp_type in FLOATS else None


@cache
def plan_of(type_name: str, *, v1: bool = False) -> Plan:
    """Return the plan of a type. Raises ProtocolError for an unknown type."""
    return Plan(type_name, v1=v1)


def _is_map(field: FieldDescriptor) -> bool:
    entry = field.message_type
    return field.is_repeated and entry is not None and bool(entry.GetOptions().map_entry)


def _value_of(field: FieldDescriptor) -> FieldDescriptor:
    entry: Any = field.message_type
    value: FieldDescriptor = entry.fields_by_name["value"]
    return value


# The class itself is compared: True is an int for isinstance, and no number for Mesos.


def _text(value: Any, depth: int) -> Any:
    if value.__class__ is not str:
        raise Unusual
    return value


def _integer(value: Any, depth: int) -> Any:
    if value.__class__ is not int:
        raise Unusual
    return value


def _truth(value: Any, depth: int) -> Any:
    if value.__class__ is not bool:
        raise Unusual
    return value


_PLAIN: Mapping[_Write, type] = {_text: str, _integer: int, _truth: bool}


def _number(value: Any, depth: int) -> Any:
    if value.__class__ is str and value in _BEYOND:
        return _BEYOND[value]
    if value.__class__ is not int and (value.__class__ is not float or not math.isfinite(value)):
        raise Unusual
    return value


def _one_of(numbers: Mapping[str, int]) -> _Write:
    def write(value: Any, depth: int) -> Any:
        number = numbers.get(value) if value.__class__ is str else None
        if number is None:
            raise Unusual
        return number

    return write


def _from_base64(value: Any, depth: int) -> bytes:
    if value.__class__ is not str:
        raise Unusual
    # As the protobuf library reads it: without padding, too, and with the letters of URLs.
    encoded = value.encode()
    return base64.urlsafe_b64decode(encoded + b"=" * (4 - len(encoded) % 4))


def _duration(value: Any, depth: int) -> Any:
    raise Unusual


def _list_of(write: _Write) -> _Write:
    def write_all(values: Any, depth: int) -> Any:
        if not isinstance(values, (list, tuple)):
            raise Unusual
        return [write(value, depth) for value in values]

    return write_all


def _map_of(write: _Write) -> _Write:
    def write_all(values: Any, depth: int) -> Any:
        if not isinstance(values, dict):
            raise Unusual
        return {_text(key, depth): write(value, depth) for key, value in values.items()}

    return write_all


def _finite(value: float) -> float | str:
    return value if math.isfinite(value) else _NOT_FINITE[str(value)]
