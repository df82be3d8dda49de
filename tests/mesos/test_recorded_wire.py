"""All that went between a real master and agent: read, and written again, byte for byte."""

from __future__ import annotations

import base64
import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mesos_gpu.mesos import libprocess
from mesos_gpu.mesos.libprocess import MessageDecoder, Pid, is_message_head
from mesos_gpu.mesos.messages import decode, encode
from tests.support import places
from tests.support.histories import examples

RECORDED: list[dict[str, Any]] = json.loads((places.RECORDED / "libprocess.json").read_text())


def bytes_of(recorded: dict[str, Any]) -> bytes:
    """The request as it went over the wire, its body in one chunk."""
    headers = "".join(f"{name}: {value}\r\n" for name, value in recorded["headers"].items())
    body = base64.b64decode(recorded["body_base64"])
    tail = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if body else b""
    return f"{recorded['request_line']}\r\n{headers}\r\n".encode() + tail


def name_of(recorded: dict[str, Any]) -> str:
    return str(recorded["message"]).rpartition(".")[2]


@pytest.mark.parametrize("recorded", RECORDED, ids=name_of)
def test_each_is_read_and_its_body_written_again_to_the_same_bytes(recorded: dict[str, Any]) -> None:
    data = bytes_of(recorded)
    assert is_message_head(data[: data.index(b"\r\n\r\n") + 2])
    (message,) = MessageDecoder().feed(data)
    assert message.name == recorded["message"]
    assert str(message.sender) == recorded["headers"]["Libprocess-From"]
    assert encode(message.name, decode(message.name, message.body)) == base64.b64decode(recorded["body_base64"])


@pytest.mark.parametrize("recorded", RECORDED, ids=name_of)
def test_our_request_is_the_real_one(recorded: dict[str, Any]) -> None:
    (message,) = MessageDecoder().feed(bytes_of(recorded))
    host, _, port = recorded["headers"]["Host"].partition(":")
    ours = libprocess.encode(message.sender, Pid(message.target, host, int(port)), message.name, message.body)
    head, _, body = ours.partition(b"\r\n\r\n")
    line, *headers = head.decode().split("\r\n")
    assert line == recorded["request_line"]
    assert dict(header.split(": ", 1) for header in headers) == recorded["headers"]
    assert ours.endswith(body)


@settings(max_examples=examples(30))
@given(st.lists(st.integers(0, 40_000), max_size=40))
def test_the_whole_recording_on_one_connection_is_the_same_for_any_splitting(cuts: list[int]) -> None:
    data = b"".join(map(bytes_of, RECORDED))
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    decoder = MessageDecoder()
    messages = [m for a, b in itertools.pairwise(edges) for m in decoder.feed(data[a:b])]
    assert [(m.name, base64.b64encode(m.body).decode()) for m in messages] == [
        (recorded["message"], recorded["body_base64"]) for recorded in RECORDED
    ]
