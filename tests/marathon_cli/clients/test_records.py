"""ProcessIO as documents, and the keys that detach."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marathon_cli.clients import records
from marathon_cli.clients.records import DetachKeys, Output, keys, output_of
from mesos_gpu.errors import BadInput, ProtocolError
from mesos_gpu.mesos.recordio import RecordDecoder

LEAVE = b"\x10\x11"


def feed(watch: DetachKeys, pieces: list[bytes]) -> tuple[bytes, bool]:
    passed = b""
    for piece in pieces:
        data, detached = watch.feed(piece)
        passed += data
        if detached:
            return passed, True
    return passed, False


@given(st.lists(st.binary(max_size=8).map(lambda data: bytes(b % 4 + 0x0F for b in data))))
def test_keys_are_found_and_the_rest_passed_on_in_order_however_it_is_typed(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    passed, detached = feed(DetachKeys(LEAVE), pieces)
    before, found, _ = whole.partition(LEAVE)
    assert detached == bool(found)
    if detached:
        assert passed == before
    else:
        # Only what may be the begin of the keys is kept back.
        assert whole.startswith(passed)
        assert len(whole) - len(passed) == (1 if whole.endswith(LEAVE[:1]) else 0)


def test_without_keys_everything_is_passed_on() -> None:
    assert DetachKeys(b"").feed(LEAVE) == (LEAVE, False)


@pytest.mark.parametrize(
    ("text", "sequence"),
    [("ctrl-p,ctrl-q", LEAVE), ("Ctrl-],x", b"\x1dx"), ("a", b"a"), ("ctrl-@", b"\0"), ("ctrl-_", b"\x1f"), ("", b"")],
)
def test_keys_are_written_as_docker_writes_them(text: str, sequence: bytes) -> None:
    assert keys(text) == sequence


@pytest.mark.parametrize("text", ["ctrl-", "ctrl-pp", "ctrl-1", "xy", "ctrl-p,", "ä", "ctrl-p,,ctrl-q"])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="is no key"):
        keys(text)


def sent(record: bytes) -> dict[str, object]:
    (data,) = RecordDecoder().feed(record)
    call = json.loads(data)
    assert call["type"] == "ATTACH_CONTAINER_INPUT"
    return call["attach_container_input"]  # type: ignore[no-any-return]


def test_records_are_mesos_own() -> None:
    assert sent(records.feeding({"value": "c"})) == {"type": "CONTAINER_ID", "container_id": {"value": "c"}}
    text = base64.b64encode(b"\xff\0").decode()
    assert sent(records.typed(b"\xff\0"))["process_io"] == {"type": "DATA", "data": {"type": "STDIN", "data": text}}
    window = {"window_size": {"rows": 3, "columns": 4}}
    control = {"type": "CONTROL", "control": {"type": "TTY_INFO", "tty_info": window}}
    assert sent(records.resized(3, 4))["process_io"] == control
    beat = {"type": "HEARTBEAT", "heartbeat": {"interval": {"nanoseconds": 1_500_000_000}}}
    assert sent(records.heartbeat(1.5))["process_io"] == {"type": "CONTROL", "control": beat}


def test_output_is_read_and_a_heartbeat_is_none() -> None:
    assert output_of(b'{"type":"DATA","data":{"type":"STDERR","data":"ZXJyCg=="}}') == Output(True, b"err\n")
    assert output_of(b'{"type":"DATA","data":{"type":"STDOUT"}}') == Output(False, b"")
    assert output_of(b'{"type":"CONTROL","control":{"type":"HEARTBEAT"}}') is None


@pytest.mark.parametrize("record", [b"", b"[]", b"{}", b'{"type":"DATA"}', b'{"type":"DATA","data":7}', b"\xff"])
def test_a_record_that_is_none_is_the_agents_fault(record: bytes) -> None:
    with pytest.raises(ProtocolError, match="no ProcessIO"):
        output_of(record)
