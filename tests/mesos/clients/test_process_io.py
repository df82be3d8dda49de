"""ProcessIO as documents."""

from __future__ import annotations

import base64
import json

import pytest

from mesos_gpu.errors import ProtocolError
from mesos_gpu.mesos.clients import process_io
from mesos_gpu.mesos.clients.process_io import Output, exit_status, output_of
from mesos_gpu.mesos.recordio import RecordDecoder


def sent(record: bytes) -> dict[str, object]:
    (data,) = RecordDecoder().feed(record)
    call = json.loads(data)
    assert call["type"] == "ATTACH_CONTAINER_INPUT"
    return call["attach_container_input"]  # type: ignore[no-any-return]


def test_records_are_mesos_own() -> None:
    assert sent(process_io.feeding({"value": "c"})) == {"type": "CONTAINER_ID", "container_id": {"value": "c"}}
    text = base64.b64encode(b"\xff\0").decode()
    assert sent(process_io.typed(b"\xff\0"))["process_io"] == {"type": "DATA", "data": {"type": "STDIN", "data": text}}
    window = {"window_size": {"rows": 3, "columns": 4}}
    control = {"type": "CONTROL", "control": {"type": "TTY_INFO", "tty_info": window}}
    assert sent(process_io.resized(3, 4))["process_io"] == control
    beat = {"type": "HEARTBEAT", "heartbeat": {"interval": {"nanoseconds": 1_500_000_000}}}
    assert sent(process_io.heartbeat(1.5))["process_io"] == {"type": "CONTROL", "control": beat}


def test_output_is_read_and_a_heartbeat_is_none() -> None:
    assert output_of(b'{"type":"DATA","data":{"type":"STDERR","data":"ZXJyCg=="}}') == Output(True, b"err\n")
    assert output_of(b'{"type":"DATA","data":{"type":"STDOUT"}}') == Output(False, b"")
    assert output_of(b'{"type":"CONTROL","control":{"type":"HEARTBEAT"}}') is None


@pytest.mark.parametrize("record", [b"", b"[]", b"{}", b'{"type":"DATA"}', b'{"type":"DATA","data":7}', b"\xff"])
def test_a_record_that_is_none_is_the_agents_fault(record: bytes) -> None:
    with pytest.raises(ProtocolError, match="ProcessIO"):
        output_of(record)


@pytest.mark.parametrize(("waited", "status"), [(0, 0), (3 << 8, 3), (9, 137), (15 | 0x80, 143)])
def test_how_a_process_ended_is_told_as_a_shell_does(waited: int, status: int) -> None:
    assert exit_status(waited) == status
