"""The connection over which calls go to the master: kept, with nothing made anew for each call, several on their way.

Half of what http.client takes for a call goes into reading the headers of a `202 Accepted` as those of a mail.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from http.client import BadStatusLine, HTTPException, IncompleteRead, LineTooLong
from io import BufferedReader

from msgspec import Struct

_MOST_LINE, _MOST_LINES, _MOST_BODY = 65_536, 100, 1 << 20
"""Bytes of a line of a head, lines of it, and bytes of a body, at most."""


class Answered(Struct, frozen=True):
    """What a call was answered."""

    status: int
    body: bytes


class CallConnection:
    """A connection that is opened with the first call, and again with the first one after it broke. For one thread."""

    def __init__(self, host: str, port: int, timeout_s: float) -> None:
        """`timeout_s` is for how long the other side may take to connect, or to go on with an answer."""
        self._address, self._timeout_s = (host, port), timeout_s
        self._host = f"{host}:{port}".encode("ascii")
        self._socket: socket.socket | None = None
        self._reader: BufferedReader | None = None

    def close(self) -> None:
        """Hang up; from any thread: who waits for an answer in another is told so."""
        reader, connection = self._reader, self._socket
        self._reader = self._socket = None
        if connection is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)  # else the reader would wait for the other thread to let it go
            connection.close()
        if reader is not None:
            reader.close()

    def posted(self, path: str, headers: Mapping[str, str], bodies: Sequence[bytes]) -> Iterator[Answered]:
        """Send each body, all at once, and yield the answers in their order, each as it comes.

        Raises ConnectionError or HTTPException when the connection breaks, or what comes is no answer: the calls that
        were not answered may have arrived or not. Raises TimeoutError, OSError.
        """
        try:
            connection, reader = self._opened()
            lines = b"".join(f"{name}: {value}\r\n".encode("latin-1") for name, value in headers.items())
            head = b"POST %b HTTP/1.1\r\nHost: %b\r\n%b" % (path.encode("ascii"), self._host, lines)
            connection.sendall(b"".join(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body) for body in bodies))
            for number, _ in enumerate(bodies, 1):
                answer, goes_on = _answer(reader)
                yield answer
                if not goes_on:
                    self.close()
                    if number < len(bodies):
                        raise ConnectionResetError("the master closed the connection before it had answered all calls")
        except ValueError:  # what a reader says that was closed meanwhile
            self.close()
            raise ConnectionResetError("the connection was closed meanwhile") from None
        except BaseException:
            self.close()
            raise

    def _opened(self) -> tuple[socket.socket, BufferedReader]:
        connection, reader = self._socket, self._reader
        if connection is None or reader is None:
            connection = socket.create_connection(self._address, self._timeout_s)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            reader = connection.makefile("rb")
            self._socket, self._reader = connection, reader
        return connection, reader


def _answer(reader: BufferedReader) -> tuple[Answered, bool]:
    """Return an answer, and whether the connection stays for others."""
    status, headers = _head(reader)
    while status == 100:
        status, headers = _head(reader)
    goes_on = headers.get(b"connection", b"").lower() != b"close"
    if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
        return Answered(status, _chunks(reader)), goes_on
    if b"content-length" in headers:
        return Answered(status, _exactly(reader, _size(headers[b"content-length"], 10))), goes_on
    if status == 204:
        return Answered(status, b""), goes_on
    return Answered(status, reader.read(_MOST_BODY)), False


def _head(reader: BufferedReader) -> tuple[int, dict[bytes, bytes]]:
    line = reader.readline(_MOST_LINE + 1)
    if not line:
        raise ConnectionResetError("the master closed the connection without an answer")
    words = line.split(None, 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
        raise BadStatusLine(line[:200].decode("latin-1"))
    headers: dict[bytes, bytes] = {}
    for _ in range(_MOST_LINES):
        line = reader.readline(_MOST_LINE + 1)
        if len(line) > _MOST_LINE:
            raise LineTooLong("header line")
        if line in (b"\r\n", b"\n"):
            return int(words[1]), headers
        if not line:
            raise IncompleteRead(b"")
        name, _, value = line.partition(b":")
        headers[name.strip().lower()] = value.strip()
    raise HTTPException(f"got more than {_MOST_LINES} headers")


def _chunks(reader: BufferedReader) -> bytes:
    found = b""
    while size := _size(reader.readline(_MOST_LINE).partition(b";")[0], 16):
        found += _exactly(reader, size)
        _size(b"%x" % len(found), 16)
        reader.readline(_MOST_LINE)
    while reader.readline(_MOST_LINE) not in (b"\r\n", b"\n", b""):
        pass
    return found


def _size(text: bytes, base: int) -> int:
    try:
        size = int(text, base)
    except ValueError:
        raise HTTPException(f"{text[:40]!r} is no length") from None
    if not 0 <= size <= _MOST_BODY:
        raise HTTPException(f"an answer of {size} bytes is not taken")
    return size


def _exactly(reader: BufferedReader, size: int) -> bytes:
    found = reader.read(size)
    if len(found) < size:
        raise IncompleteRead(found, size - len(found))
    return found
