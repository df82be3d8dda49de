"""Calls over a kept connection: several on their way, answers in their order, and every way in which it may break."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from http.client import HTTPException

import pytest

from mesos_gpu.marathon.engine.call_connection import Answered, CallConnection

ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
HEADERS = {"Content-Type": "application/json", "Mesos-Stream-Id": "s1"}


class Script:
    """A server that takes so many requests of a connection, then sends what it is told and closes, for each in turn."""

    def __init__(self) -> None:
        self.turns: list[tuple[int, bytes]] = []
        self.requests: list[list[tuple[str, bytes]]] = []
        self.heard = threading.Event()
        """Set when a request is there."""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(60)
        self.port = self._listening.getsockname()[1]
        self._thread: threading.Thread | None = None

    def play(self, *turns: tuple[int, bytes]) -> None:
        self.turns = list(turns)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for count, answer in self.turns:
            connection, _ = self._listening.accept()
            connection.settimeout(60)
            with connection, connection.makefile("rb") as reader:
                taken: list[tuple[str, bytes]] = []
                self.requests.append(taken)
                for _ in range(count):
                    lines = list(iter(reader.readline, b"\r\n")) if reader.peek(1) else []
                    if not lines:
                        return  # the other side has hung up
                    length = next(int(line.split(b":")[1]) for line in lines if line.startswith(b"Content-Length"))
                    taken.append((b"".join(lines).decode(), reader.read(length)))
                    self.heard.set()
                connection.sendall(answer)

    def close(self) -> None:
        if self._thread is not None:
            self._thread.join(60)
        self._listening.close()


@pytest.fixture
def script() -> Iterator[Script]:
    made = Script()
    yield made
    made.close()


@pytest.fixture
def connection(script: Script) -> Iterator[CallConnection]:
    made = CallConnection("127.0.0.1", script.port, 60.0)
    yield made
    made.close()


def post(connection: CallConnection, *bodies: bytes) -> list[Answered]:
    return list(connection.posted("/api/v1/scheduler", HEADERS, bodies))


def test_all_calls_are_sent_before_one_is_answered_and_the_answers_come_in_order(
    script: Script, connection: CallConnection
) -> None:
    refused = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 3\r\n\r\nno!"
    chunked = b"HTTP/1.1 503 x\r\nTransfer-Encoding: chunked\r\n\r\n3;x=1\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n"
    script.play(
        (5, ACCEPTED + refused + b"HTTP/1.1 100 Continue\r\n\r\n" + chunked + b"HTTP/1.1 204 x\r\n\r\n" + ACCEPTED)
    )
    assert post(connection, b"1", b"22", b"333", b"4", b"5") == [
        Answered(202, b""),
        Answered(400, b"no!"),
        Answered(503, b"abcde"),
        Answered(204, b""),
        Answered(202, b""),
    ]
    ((head, first), *others), *_ = script.requests
    assert head.startswith("POST /api/v1/scheduler HTTP/1.1\r\nHost: 127.0.0.1:")
    assert "Mesos-Stream-Id: s1\r\n" in head
    assert [first, *(body for _, body in others)] == [b"1", b"22", b"333", b"4", b"5"]


def test_the_connection_is_kept_and_made_again_where_the_master_closes_it(
    script: Script, connection: CallConnection
) -> None:
    closing = b"HTTP/1.1 202 Accepted\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    script.play((1, closing), (1, b"HTTP/1.1 202 Accepted\r\n\r\nto the end"))
    assert post(connection, b"1") == [Answered(202, b"")]
    assert post(connection, b"2") == [Answered(202, b"to the end")]
    assert [[body for _, body in taken] for taken in script.requests] == [[b"1"], [b"2"]]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", ConnectionError),
        (ACCEPTED, ConnectionError),
        (ACCEPTED.replace(b"Content", b"Connection: close\r\nContent"), ConnectionError),
        (ACCEPTED + b"HTTP/1.1 202", HTTPException),
        (ACCEPTED + b"HTTP/1.1 202 x\r\nContent-Length: 5\r\n\r\nabc", HTTPException),
        (ACCEPTED + b"HTTP/1.1 202 x\r\nContent-Length: many\r\n\r\n", HTTPException),
        (ACCEPTED + b"HTTP/1.1 202 x\r\nContent-Length: 99999999\r\n\r\n", HTTPException),
        (ACCEPTED + b"HTTP/1.1 202 x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", HTTPException),
        (ACCEPTED + b"HTTP/1.1 202 x\r\n" + b"a: b\r\n" * 101, HTTPException),
        (ACCEPTED + b"HTTP/1.1 202 x\r\nA: " + b"b" * 70_000, HTTPException),
        (ACCEPTED + b"RTSP/1.0 200 OK\r\n\r\n", HTTPException),
    ],
)
def test_whatever_is_no_answer_breaks_the_connection_and_the_next_call_makes_another(
    script: Script, connection: CallConnection, answer: bytes, error: type[Exception]
) -> None:
    script.play((2, answer), (1, ACCEPTED))
    answered = []
    with pytest.raises(error):
        answered += [each.status for each in connection.posted("/", HEADERS, [b"1", b"2"])]
    assert post(connection, b"3") == [Answered(202, b"")]


def test_who_waits_for_an_answer_is_told_when_another_thread_hangs_up(
    script: Script, connection: CallConnection
) -> None:
    def hang_up() -> None:
        script.heard.wait(60)
        connection.close()

    closing = threading.Thread(target=hang_up)
    closing.start()
    play: Callable[..., None] = script.play
    play((2, b""))  # waits for a second call, which never comes
    with pytest.raises((ConnectionError, HTTPException)):
        list(connection.posted("/", HEADERS, [b"1"]))
    closing.join(60)
