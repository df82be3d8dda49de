"""libprocess framing without sockets: messages in, bytes out; bytes in, messages out.

A message is an HTTP POST to `/<process id>/<message name>` that says who sent it in `Libprocess-From` (or
`User-Agent: libprocess/<pid>`); the body is the protobuf.
Source: Mesos 3rdparty/libprocess/src/{encoder,decoder}.hpp.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from msgspec import Struct

from mesos_gpu.errors import ProtocolError

MAX_HEAD = 64 * 1024
"""Bytes in the largest request head we accept."""
MAX_BODY = 64 * 1024 * 1024
"""Bytes in the largest message we accept."""
MAX_CHUNK_LINE = 1024
"""Bytes in the largest line that says how long a chunk is."""

_PID = re.compile(r"^(?P<id>[^@]*)@(?P<ip>[^:@]+):(?P<port>\d{1,5})$")
_LENGTH = re.compile(r"^[0-9]{1,12}$")
_SIZE = re.compile(rb"^[0-9a-fA-F]{1,8}$")
_LONGEST_SIZE = 10
"""Bytes in the longest line of a chunk's size that is written as libprocess does, its end with it."""
_END_OF_BODY = b"\r\n0\r\n\r\n"
"""What follows the one chunk of a message: its end, and the chunk that is none."""
_AGENT_PREFIX = "libprocess/"
ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Pid:
    """A process: `id@ip:port`. Equality is by all three."""

    id: str
    ip: str
    port: int
    host: str | None = field(default=None, compare=False, repr=False)
    """How it was called by whoever said where it is: the name that its certificate must have."""

    @classmethod
    def parse(cls, text: str) -> Pid:
        """Read `slave(1)@127.0.0.1:5051`. Raises ProtocolError on anything else."""
        match = _PID.match(text)
        if match is None or int(match["port"]) > 65535:
            raise ProtocolError(f"{text!r} is not a libprocess pid (id@ip:port)")
        return cls(match["id"], match["ip"], int(match["port"]))

    @property
    def address(self) -> tuple[str, int]:
        """Return (ip, port): what a link is keyed by."""
        return self.ip, self.port

    def __str__(self) -> str:
        return f"{self.id}@{self.ip}:{self.port}"


class Message(Struct, frozen=True):
    """One message: from whom, to which local process id, its protobuf full name and bytes."""

    sender: Pid
    target: str
    name: str
    body: bytes
    connection: int = 0
    """Which connection it came over, in the order in which they were accepted; 0: it is this program's own."""


class _Head(NamedTuple):
    """What the head of a message says."""

    sender: Pid
    target: str
    name: str
    length: int | None
    """Bytes in the body; None where they come in chunks."""


def encode(sender: Pid, to: Pid, name: str, body: bytes) -> bytes:
    """Return the request that carries a message, as libprocess writes it: one chunk, or no body at all."""
    pid = f"{sender.id}@{sender.ip}:{sender.port}"
    head = (
        f"POST /{to.id}/{name} HTTP/1.1\r\n"
        f"User-Agent: {_AGENT_PREFIX}{pid}\r\n"
        f"Libprocess-From: {pid}\r\n"
        "Connection: Keep-Alive\r\n"
        f"Host: {to.ip}:{to.port}\r\n"
    )
    if not body:
        return f"{head}\r\n".encode("latin-1")
    head = f"{head}Transfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n"
    return b"".join((head.encode("latin-1"), body, _END_OF_BODY))


def is_message_head(head: bytes) -> bool:
    """Return whether a request head is a libprocess message and not an ordinary HTTP request."""
    if not head.startswith(b"POST "):
        return False
    headers = _headers(head)
    return "libprocess-from" in headers or headers.get("user-agent", "").startswith(_AGENT_PREFIX)


class MessageDecoder:
    """Bytes of one connection in, messages out; any splitting, pipelined requests, chunked or of a given length.

    It holds at most one incomplete message: MAX_HEAD and MAX_BODY bytes, and a chunk's line.
    """

    def __init__(self, connection: int = 0) -> None:
        """Begin; `connection` is what messages say that they came over."""
        self._connection = connection
        self._buffer = bytearray()
        self._head: _Head | None = None
        self._body = bytearray()
        self.error: ProtocolError | None = None
        """Why nothing more can be read: not libprocess, or too big. What came before it was returned."""

    def feed(self, data: bytes) -> list[Message]:
        """Return the messages that `data` completes; after the first unreadable one, `error` is set and none follow."""
        messages: list[Message] = []
        if self.error is None:
            try:
                if self._head is None and not self._buffer:
                    taken = self._take_whole(data, messages)
                    if taken == len(data):
                        return messages
                    self._buffer += data[taken:] if taken else data
                    self._read_rest(messages)
                else:
                    self._buffer += data
                    if self._read_one(messages):
                        # What follows came with `data`, so that it is copied here once.
                        del self._buffer[: self._take_whole(bytes(self._buffer), messages)]
                        self._read_rest(messages)
            except ProtocolError as error:
                self.error = error
                self._buffer.clear()
        return messages

    def _take_whole(self, data: bytes, messages: list[Message]) -> int:
        """Add the messages that `data` begins with, return how many bytes they are. Raises ProtocolError.

        Those that are there whole and as `encode` writes them, as nearly all are: one chunk, or no body. It ends before
        anything else, which the functions below read or refuse.
        """
        at = 0
        while 0 <= (end := data.find(b"\r\n\r\n", at)) <= at + _MAX_KNOWN_HEAD:
            sender, target, name, length = _read_known(data[at : end + 2])
            end += 4
            if length is None:
                line = data.find(b"\r\n", end, end + _LONGEST_SIZE)
                start = line + 2
                stop = start + (_chunk_size(data[end:line]) if line > 0 else 0)
                if stop <= start or not data.startswith(_END_OF_BODY, stop):
                    break
                body, at = data[start:stop], stop + len(_END_OF_BODY)
            elif length == 0:
                body, at = b"", end
            else:
                break
            messages.append(Message(sender, target, name, body, self._connection))
        return at

    def _read_rest(self, messages: list[Message]) -> None:
        while self._read_one(messages):
            pass

    def _read_one(self, messages: list[Message]) -> bool:
        """Add the next message of the buffer if it is whole; return whether it is. Raises ProtocolError."""
        if not (self._read_head() and self._read_body()):
            return False
        assert self._head is not None
        sender, target, name, _ = self._head
        messages.append(Message(sender, target, name, bytes(self._body), self._connection))
        self._head = None
        return True

    def _read_head(self) -> bool:
        """Take the head off the buffer unless that is done; return whether it is. Raises ProtocolError."""
        if self._head is not None:
            return True
        end = self._buffer.find(b"\r\n\r\n")
        if end > MAX_HEAD or (end < 0 and len(self._buffer) > MAX_HEAD):
            raise ProtocolError(f"no end of a request head in the first {MAX_HEAD} bytes")
        if end < 0:
            return False
        head = bytes(self._buffer[: end + 2])
        del self._buffer[: end + 4]
        self._body = bytearray()
        self._head = _read_known(head) if end <= _MAX_KNOWN_HEAD else _read(head)
        return True

    def _read_body(self) -> bool:
        """Take what is there of the body off the buffer; return whether it is whole. Raises ProtocolError."""
        assert self._head is not None
        length = self._head.length
        if length is None:
            return self._read_chunks()
        if len(self._buffer) < length:
            return False
        self._body += self._buffer[:length]
        del self._buffer[:length]
        return True

    def _read_chunks(self) -> bool:
        while True:
            end = self._buffer.find(b"\r\n", 0, MAX_CHUNK_LINE)
            if end < 0:
                if len(self._buffer) >= MAX_CHUNK_LINE:
                    raise ProtocolError(f"no chunk size in {MAX_CHUNK_LINE} bytes")
                return False
            digits = bytes(self._buffer[:end]).split(b";")[0].strip()
            if not _SIZE.match(digits):
                raise ProtocolError(f"{digits!r} is not a chunk size")
            size = int(digits, 16)
            if len(self._body) + size > MAX_BODY:
                raise ProtocolError(f"a message over the limit of {MAX_BODY} bytes")
            stop = end + 2 + size
            if len(self._buffer) < stop + 2:
                return False
            if self._buffer[stop : stop + 2] != b"\r\n":
                raise ProtocolError("a chunk is longer than it said")
            self._body += self._buffer[end + 2 : stop]
            del self._buffer[: stop + 2]
            if size == 0:
                return True


def _headers(head: bytes) -> dict[str, str]:
    lines = head.decode("latin-1").split("\r\n")[1:]
    pairs = (line.partition(":") for line in lines if line)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _read(head: bytes) -> _Head:
    """Return what a head says. Raises ProtocolError."""
    headers = _headers(head)
    length = None
    if headers.get("transfer-encoding", "").lower() != "chunked":
        text = headers.get("content-length", "0")
        if not _LENGTH.match(text) or int(text) > MAX_BODY:
            raise ProtocolError(f"Content-Length {text!r} is not a number up to {MAX_BODY}")
        length = int(text)
    line = head.split(b"\r\n", 1)[0].decode("latin-1")
    parts = line.split(" ")
    if len(parts) != 3 or parts[0] != "POST" or not parts[1].startswith("/") or "/" not in parts[1][1:]:
        raise ProtocolError(f"{line!r} is not a libprocess request line (POST /<process id>/<message> HTTP/1.1)")
    target, _, name = parts[1][1:].partition("/")
    sender = headers.get("libprocess-from") or headers.get("user-agent", "").removeprefix(_AGENT_PREFIX)
    return _Head(Pid.parse(sender), unquote(target), name, length)


@lru_cache(maxsize=1024)
def _chunk_size(digits: bytes) -> int:
    """Return the bytes in a chunk of this size; 0 for what is none, or too large."""
    size = int(digits, 16) if _SIZE.match(digits) else 0
    return size if size <= MAX_BODY else 0


# A peer says the same few heads each time; reading one again takes longer than the rest of a message.
_read_known = lru_cache(maxsize=256)(_read)
_MAX_KNOWN_HEAD = 1024
"""Bytes in the largest head that is remembered, so that nobody fills our memory with them."""
