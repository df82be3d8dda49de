"""The plans of messages against the protobuf library's own JSON, which they stand in for."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import EncodeError, Message
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import ProtocolError
from mesos_gpu.mesos import messages
from mesos_gpu.mesos.codec.shapes import read_quickly
from mesos_gpu.mesos.message_types import message_class, pool
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.schema import is_message, v1_name
from tests.support.mesos_documents import ENVELOPES, RECORDED, TYPES, document_of, spoiled

pytestmark = pytest.mark.usefixtures("each_codec")

NO_NUMBER = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
F, S, T = ({"value": text} for text in ("f", "S0", "t"))
GPU: Document = {"name": "gpus", "type": "SCALAR", "scalar": {"value": 1.0}, "role": "*"}
TASK: Document = {"name": "t", "task_id": T, "agent_id": S, "resources": [GPU], "command": {"value": "true"}}
CALLS: list[Document] = [
    {"framework_id": F, "type": "REVIVE"},
    {"framework_id": F, "type": "DECLINE", "decline": {"offer_ids": [{"value": "o"}]}},
    {"framework_id": F, "type": "ACKNOWLEDGE", "acknowledge": {"agent_id": S, "task_id": T, "uuid": "AAE="}},
    {
        "framework_id": F,
        "type": "ACCEPT",
        "accept": {
            "offer_ids": [{"value": "o"}],
            "operations": [{"type": "LAUNCH", "launch": {"task_infos": [TASK]}}],
            "filters": {"refuse_seconds": 120.0},
        },
    },
]


def by_the_library(type_name: str, document: Document) -> Message | None:
    message = message_class(type_name)()
    try:
        json_format.ParseDict(document, message, ignore_unknown_fields=True)
    except (json_format.ParseError, TypeError, ValueError, AttributeError, SystemError):
        return None
    return message


def bytes_by_the_library(type_name: str, document: Document) -> bytes | None:
    message = by_the_library(type_name, document)
    try:
        return None if message is None else message.SerializeToString(deterministic=True)
    except EncodeError:
        return None


def shown(message: Message) -> Document:
    """What the descriptors say of a message, field by field."""

    def one(field: FieldDescriptor, value: Any) -> Any:
        if field.message_type is not None:
            return shown(value)
        if field.enum_type is not None:
            return field.enum_type.values_by_number[value].name
        if isinstance(value, bytes):
            return base64.b64encode(value).decode()
        return NO_NUMBER[str(value)] if isinstance(value, float) and not math.isfinite(value) else value

    found = {}
    for field, value in message.ListFields():
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            found[field.name] = {key: one(entry.fields_by_name["value"], value[key]) for key in value}
        else:
            found[field.name] = [one(field, each) for each in value] if field.is_repeated else one(field, value)
    return found


def encoded(type_name: str, document: Document) -> bytes | None:
    try:
        return messages.encode(type_name, document)
    except ProtocolError:
        return None


@given(st.data())
def test_bytes_and_documents_are_those_of_the_library(data: st.DataObject) -> None:
    type_name = data.draw(st.sampled_from(TYPES))
    document = data.draw(document_of(type_name))
    expected = bytes_by_the_library(type_name, document)
    assert expected is not None
    assert messages.encode(type_name, document) == expected
    message = message_class(type_name)()
    message.ParseFromString(expected)
    assert list(messages.decode(type_name, expected).items()) == list(shown(message).items())


@given(st.data())
def test_what_we_would_not_write_comes_to_what_the_library_makes_of_it(data: st.DataObject) -> None:
    type_name = data.draw(st.sampled_from(TYPES))
    document = data.draw(document_of(type_name).flatmap(spoiled))
    assert encoded(type_name, document) == bytes_by_the_library(type_name, document)


@given(st.data())
def test_an_internal_message_of_v1_documents_is_that_of_internal_ones(data: st.DataObject) -> None:
    type_name = data.draw(st.sampled_from(ENVELOPES))
    wire = messages.encode(type_name, data.draw(document_of(type_name)))
    internal = messages.decode(type_name, wire)
    evolved = messages.decode_to_v1(type_name, wire)
    assert evolved == with_v1_parts(type_name, internal)
    assert messages.encode_from_v1(type_name, evolved) == wire


@given(st.data())
def test_parts_that_were_read_here_come_to_the_same_bytes(data: st.DataObject) -> None:
    type_name = data.draw(st.sampled_from([name for name in ENVELOPES if "RunTask" in name]))
    wire = messages.encode(type_name, data.draw(document_of(type_name)))
    assert messages.encode_from_parts(type_name, messages.decode_to_v1(type_name, wire)) == wire


@given(st.data())
def test_strange_v1_parts_come_to_what_devolving_them_makes(data: st.DataObject) -> None:
    document = data.draw(document_of("mesos.v1.TaskInfo").flatmap(spoiled))
    envelope = {"framework": {"name": "f", "user": "u"}, "pid": "", "launch_executor": True}
    try:
        internal = messages.devolve("mesos.TaskInfo", document)
        expected = messages.encode("mesos.internal.RunTaskMessage", {**envelope, "task": internal})
    except ProtocolError:
        expected = b""
    try:
        found = messages.encode_from_v1("mesos.internal.RunTaskMessage", {**envelope, "task": document})
    except ProtocolError:
        found = b""
    assert found == expected


@given(st.data())
def test_what_is_read_quickly_is_what_it_comes_to_slowly(data: st.DataObject) -> None:
    type_name = data.draw(st.sampled_from(TYPES))
    document = data.draw(st.one_of(document_of(type_name), document_of(type_name).flatmap(spoiled)))
    body = json.dumps(document).encode()
    quickly = read_quickly(type_name, body)
    if quickly is not None:
        assert json.dumps(quickly) == json.dumps(messages.read(type_name, json.loads(body)))


@pytest.mark.parametrize("call", CALLS, ids=lambda call: str(call["type"]))
def test_what_schedulers_say_all_day_is_read_quickly(call: Document) -> None:
    assert read_quickly("mesos.v1.scheduler.Call", json.dumps(call).encode()) == call


@pytest.mark.parametrize(
    "body",
    [
        b'{"type": "REVIVE", "flavour": 1}',
        b'{"type": "DECLINE", "decline": {"offer_ids": {"value": "o"}}}',
        b'{"type": "DECLINE", "decline": {"filters": {"refuse_seconds": true}}}',
        b'{"type": "DECLINE", "decline": {"offer_ids": [{}]}}',
        b'{"type": "REVIVE", "revive": null}',
        b'{"type": "ACKNOWLEDGE", "acknowledge": {"agent_id": {"value": "S"}, "task_id": {"value": "t"}, "uuid": 5}}',
        b'{"type": "REVIVE"',
        b'["REVIVE"]',
        b'{"type": "\xff"}',
    ],
)
def test_what_may_be_good_all_the_same_is_left_to_who_knows(body: bytes) -> None:
    assert read_quickly("mesos.v1.scheduler.Call", body) is None


def with_v1_parts(type_name: str, document: Document) -> Document:
    """An internal document with its parts evolved one by one, but for the checkpoint of SlaveInfo, which v1 lacks."""
    if is_message(v1_name(type_name)):
        kept = {"checkpoint": document["checkpoint"]} if "checkpoint" in document and "Slave" in type_name else {}
        return {**messages.evolve(type_name, document), **kept}
    fields = pool().FindMessageTypeByName(type_name).fields_by_name
    found = dict(document)
    for name, value in document.items():
        inner = fields[name].message_type
        if inner is not None:
            many = isinstance(value, list)
            parts = [with_v1_parts(inner.full_name, one) for one in (value if many else [value])]
            found[name] = parts if many else parts[0]
    return found


def test_a_launch_needs_nothing_but_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's own JSON, ten times as slow, is for what others wrote strangely."""
    monkeypatch.setattr(json_format, "ParseDict", None)
    for recorded in RECORDED:
        data = base64.b64decode(recorded["body_base64"])
        name = recorded["message"]
        assert messages.encode(name, messages.decode(name, data)) == data
        assert messages.encode_from_v1(name, messages.decode_to_v1(name, data)) == data


def test_nested_too_deeply_is_refused_as_by_the_library() -> None:
    def nested(levels: int) -> Document:
        document: Document = {"value": "c"}
        for _ in range(levels):
            document = {"value": "c", "parent": document}
        return document

    for levels in (98, 99, 100, 101, 2000):
        assert encoded("mesos.v1.ContainerID", nested(levels)) == bytes_by_the_library(
            "mesos.v1.ContainerID", nested(levels)
        ), levels
