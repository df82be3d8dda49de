"""Answers are read whole, however they are cut and whichever way their length is told."""

from __future__ import annotations

import json
import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import ProtocolError
from mesos_gpu.executor.http1 import Answer, post

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def read(data: bytes, cuts: list[int]) -> bytes:
    """Return the body of an answer that arrives in pieces."""
    ours, theirs = socket.socketpair()
    with ours, theirs:

        def send() -> None:
            places = sorted({min(cut, len(data)) for cut in cuts})
            for start, end in zip([0, *places], [*places, len(data)], strict=True):
                theirs.sendall(data[start:end])
            theirs.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            return Answer(ours).body()
        finally:
            sender.join()


def chunked(body: bytes, sizes: list[int]) -> bytes:
    data = b""
    while body:
        size = sizes.pop() if sizes else len(body)
        data += b"%x\r\n%b\r\n" % (len(body[:size]), body[:size])
        body = body[size:]
    return data + b"0\r\n\r\n"


@given(body=st.binary(max_size=300), cuts=st.lists(st.integers(0, 500), max_size=5), sizes=st.lists(st.integers(1, 50)))
def test_a_body_is_the_same_for_any_framing_and_any_cutting(body: bytes, cuts: list[int], sizes: list[int]) -> None:
    assert read(HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(body), body), cuts) == body
    assert read(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(body, sizes), cuts) == body
    assert read(HEAD + b"\r\n" + body, cuts) == body


@pytest.mark.parametrize("data", [HEAD + b"Content-Length: 5\r\n\r\nabc", b"", b"HTTP/1.1 200", b"no\r\n\r\n"])
def test_an_answer_that_is_cut_short_is_said_to_be(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        read(data, [])


def test_records_come_as_they_arrive() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        record = json.dumps({"type": "HEARTBEAT"}).encode()
        frame = b"%d\n%b" % (len(record), record)
        theirs.sendall(b"%x\r\n%b\r\n" % (len(frame), frame))
        records = post(ours, "agent:1", "/api/v1/executor", {"type": "SUBSCRIBE"}).records()
        assert next(records) == {"type": "HEARTBEAT"}
        request = theirs.recv(65536)
        assert request.startswith(b"POST /api/v1/executor HTTP/1.1\r\nHost: agent:1\r\n")
        assert request.endswith(b'\r\n\r\n{"type": "SUBSCRIBE"}')
