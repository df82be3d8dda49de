"""HTTP/1.1 as far as an executor needs it: one POST per connection, an answer whole or in RecordIO records.

The standard library's client brings ssl and email parsing along, which is most of what a small process would hold.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from typing import Any

from mesos_gpu.errors import ProtocolError
from mesos_gpu.mesos.recordio import RecordDecoder

PIECE = 65536
MAX_HEAD = 65536


class Answer:
    """A response whose body is read from the socket, whichever way its length is told."""

    def __init__(self, connection: socket.socket) -> None:
        """Read the head. Raises OSError, ProtocolError."""
        self._connection = connection
        self._buffer = bytearray()
        head = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        parts = head[0].split(" ", 2)
        if len(parts) < 2 or not parts[1].isdigit():
            raise ProtocolError(f"not an HTTP answer: {head[0]!r}")
        self.status = int(parts[1])
        fields = (line.partition(":")[::2] for line in head[1:])
        self.headers = {name.strip().lower(): value.strip() for name, value in fields}

    def pieces(self) -> Iterator[bytes]:
        """Yield the body as it comes. Raises OSError, ProtocolError for one that is cut short."""
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            while (size := int(self._until(b"\r\n").split(b";")[0] or b"0", 16)) > 0:
                yield self._exactly(size)
                self._exactly(2)
            self._until(b"\r\n")
        elif "content-length" in self.headers:
            yield self._exactly(int(self.headers["content-length"]))
        else:
            while piece := bytes(self._buffer) or self._connection.recv(PIECE):
                self._buffer.clear()
                yield piece

    def body(self) -> bytes:
        """Return the whole body."""
        return b"".join(self.pieces())

    def records(self) -> Iterator[Any]:
        """Yield the JSON records of a stream."""
        decoder = RecordDecoder()
        for piece in self.pieces():
            for record in decoder.feed(piece):
                yield json.loads(record)

    def _until(self, mark: bytes) -> bytes:
        while (end := self._buffer.find(mark)) < 0:
            if len(self._buffer) > MAX_HEAD:
                raise ProtocolError("an HTTP head without an end")
            self._receive()
        found = bytes(self._buffer[:end])
        del self._buffer[: end + len(mark)]
        return found

    def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._receive()
        found = bytes(self._buffer[:size])
        del self._buffer[:size]
        return found

    def _receive(self) -> None:
        piece = self._connection.recv(PIECE)
        if not piece:
            raise ProtocolError("the connection was closed in the middle of an answer")
        self._buffer += piece


def post(
    connection: socket.socket, host: str, path: str, document: Mapping[str, Any], token: str | None = None
) -> Answer:
    """Send a JSON document over a fresh connection and return the answer. Raises OSError, ProtocolError.

    `token` shows who we are (RFC 6750).
    """
    body = json.dumps(document).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nAccept: application/json\r\n"
        f"Connection: close\r\nContent-Length: {len(body)}\r\n"
    )
    head += "\r\n" if token is None else f"Authorization: Bearer {token}\r\n\r\n"
    connection.sendall(head.encode("latin-1") + body)
    return Answer(connection)
