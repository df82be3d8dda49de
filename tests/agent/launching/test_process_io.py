"""The records that input and output of a container travel in, in JSON and in protobuf."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from mesos_gpu.agent.launching.process_io import (
    JSON,
    PROTOBUF,
    Resized,
    Typed,
    heartbeat_record,
    input_of,
    output_record,
    read_input,
)
from mesos_gpu.errors import BadInput
from mesos_gpu.mesos import messages
from mesos_gpu.mesos.recordio import RecordDecoder
from tests.support.golden import Golden

CALL, PROCESS_IO = "mesos.v1.agent.Call", "mesos.v1.agent.ProcessIO"
HEARTBEAT = {
    "type": "CONTROL",
    "control": {"type": "HEARTBEAT", "heartbeat": {"interval": {"nanoseconds": 15 * 10**9}}},
}


def call(**attach: Any) -> dict[str, Any]:
    return {"type": "ATTACH_CONTAINER_INPUT", "attach_container_input": attach}


def typed(data: bytes, stream: str = "STDIN") -> dict[str, Any]:
    io = {"type": "DATA", "data": {"type": stream, "data": base64.b64encode(data).decode()}}
    return {"type": "PROCESS_IO", "process_io": io}


def control(**fields: Any) -> dict[str, Any]:
    return {"type": "PROCESS_IO", "process_io": {"type": "CONTROL", "control": fields}}


def written(document: dict[str, Any], message_type: str) -> bytes:
    return messages.encode(CALL, document) if message_type == PROTOBUF else json.dumps(document).encode()


def io_in(record: bytes, message_type: str) -> dict[str, Any]:
    [data] = RecordDecoder().feed(record)
    return messages.decode(PROCESS_IO, data) if message_type == PROTOBUF else json.loads(data)


@pytest.mark.parametrize("message_type", [JSON, PROTOBUF])
def test_output_goes_as_a_record_that_names_its_stream(message_type: str) -> None:
    said = io_in(output_record("STDERR", b"\x00\xff no", message_type), message_type)
    assert said["type"] == "DATA"
    assert said["data"]["type"] == "STDERR"
    assert base64.b64decode(said["data"]["data"]) == b"\x00\xff no"


@pytest.mark.parametrize("message_type", [JSON, PROTOBUF])
def test_a_heartbeat_says_when_the_next_one_comes(message_type: str) -> None:
    assert io_in(heartbeat_record(15, message_type), message_type) == HEARTBEAT


@pytest.mark.parametrize("message_type", [JSON, PROTOBUF])
@pytest.mark.parametrize(
    ("attach", "means"),
    [
        (typed(b"ls\n"), Typed(b"ls\n")),
        (typed(b""), Typed(b"")),
        (control(type="TTY_INFO", tty_info={"window_size": {"rows": 50, "columns": 132}}), Resized(50, 132)),
        ({"type": "PROCESS_IO", "process_io": HEARTBEAT}, None),
    ],
)
def test_input_is_typed_text_a_window_or_a_heartbeat(
    attach: dict[str, Any], means: Typed | Resized | None, message_type: str
) -> None:
    assert input_of(read_input(written(call(**attach), message_type), message_type)) == means


def test_the_first_record_names_the_container(golden: Golden) -> None:
    first = call(type="CONTAINER_ID", container_id={"value": "c"})
    assert read_input(json.dumps(first).encode(), JSON) == first["attach_container_input"]
    with pytest.raises(BadInput) as refused:
        input_of(first["attach_container_input"])
    assert str(refused.value) == golden


@pytest.mark.parametrize(
    ("record", "message_type"),
    [
        (b"{", JSON),
        (b"[]", JSON),
        (b"\xff\xff", PROTOBUF),
        (b'{"type": "KILL_CONTAINER"}', JSON),
        (b'{"type": "ATTACH_CONTAINER_INPUT"}', JSON),
        (json.dumps(call()).encode(), JSON),
        (json.dumps(call(type="CONTAINER_ID")).encode(), JSON),
        (json.dumps(call(type="PROCESS_IO")).encode(), JSON),
    ],
)
def test_a_record_that_is_no_input_is_refused_in_words(record: bytes, message_type: str, golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        read_input(record, message_type)
    if message_type == JSON:  # what is wrong with the other is in protobuf's words
        assert str(refused.value) == golden


@pytest.mark.parametrize(
    "attach",
    [
        typed(b"x", "STDOUT"),
        {"type": "PROCESS_IO", "process_io": {"type": "DATA"}},
        {"type": "PROCESS_IO", "process_io": {}},
        control(),
        control(type="TTY_INFO"),
        control(type="TTY_INFO", tty_info={"window_size": {"rows": 1}}),
    ],
)
def test_input_that_says_nothing_is_refused_in_words(attach: dict[str, Any], golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        input_of(attach)
    assert str(refused.value) == golden
