"""Malformed HTTP requests: raw bytes for a listener, and bodies for its endpoints."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

Listener: TypeAlias = tuple[str, int] | Path
"""A TCP address, or a socket file."""
HOST = b"Host: localhost\r\n"
POST = b"POST / HTTP/1.1\r\n" + HOST
RAW: Mapping[str, bytes] = {
    "no HTTP": b"garbage\r\n\r\n",
    "an unknown method": b"XYZ / HTTP/1.1\r\n" + HOST + b"\r\n",
    "a version that does not exist": b"GET / HTTP/9.1\r\n" + HOST + b"\r\n",
    "four words": b"GET / / HTTP/1.1\r\n" + HOST + b"\r\n",
    "no Host": b"GET / HTTP/1.1\r\n\r\n",
    "a path that is not ASCII": b"GET /\xff\xfe HTTP/1.1\r\n" + HOST + b"\r\n",
    "a path of 100,000 bytes": b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    "a header with a null byte": b"GET / HTTP/1.1\r\n" + HOST + b"A\x00B: c\r\n\r\n",
    "a header without a colon": b"GET / HTTP/1.1\r\n" + HOST + b"A\r\n\r\n",
    "a header of 100,000 bytes": b"GET / HTTP/1.1\r\n" + HOST + b"A: " + b"b" * 100_000 + b"\r\n\r\n",
    "20,000 headers": b"GET / HTTP/1.1\r\n" + HOST + b"A: b\r\n" * 20_000 + b"\r\n",
    "a negative length": POST + b"Content-Length: -1\r\n\r\n",
    "a length in words": POST + b"Content-Length: abc\r\n\r\n",
    "a length with an exponent": POST + b"Content-Length: 1e3\r\n\r\n",
    "a length in Arabic digits": POST + "Content-Length: \u0663\r\n\r\n".encode(),
    "two lengths": POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "a length of a terabyte": POST + b"Content-Length: 1099511627776\r\n\r\n",
    "a length beyond 64 bits": POST + b"Content-Length: 99999999999999999999999\r\n\r\n",
    "a length and chunks": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "an unknown transfer encoding": POST + b"Transfer-Encoding: rot13\r\n\r\n",
    "a chunk whose size is no number": POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n0\r\n\r\n",
    "a negative chunk": POST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\nab\r\n0\r\n\r\n",
    "a body that is not gzip": POST + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
    "an encoding that does not exist": POST + b"Content-Encoding: \xff\r\nContent-Length: 5\r\n\r\nhello",
}
BODIES: Mapping[str, bytes] = {
    "arrays in arrays": b"[" * 200_000,
    "objects in objects": b'{"a":' * 200_000,
    "a lone surrogate": b'{"type": "\\ud800", "id": "\\ud800", "Name": "\\ud800"}',
    "no UTF-8": b'{"type": "\xff\xfe"}',
    "UTF-16": '{"type": "GET_HEALTH"}'.encode("utf-16"),
    "no JSON": b"{",
    "a null byte": b"\x00",
    "no object": b"3",
    "a number of 5,000 digits": b"1" * 5_000,
}


def connected(listener: Listener) -> socket.socket:
    """Return a new connection."""
    family = socket.AF_UNIX if isinstance(listener, Path) else socket.AF_INET
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.connect(str(listener) if isinstance(listener, Path) else listener)
    except BaseException:
        connection.close()
        raise
    return connection


def answer(listener: Listener, request: bytes, *, patience_s: float) -> bytes:
    """Send bytes and return the first bytes of what comes back, b"" when the connection is closed without an answer."""
    with connected(listener) as connection:
        connection.settimeout(patience_s)
        try:
            connection.sendall(request)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it was refused before it had come whole; the answer is there
        try:
            return connection.recv(4096)
        except ConnectionResetError:
            return b""


def listeners(pids: set[int], folders: Iterable[Path]) -> dict[Listener, int]:
    """Return where these processes listen, with their pids: TCP addresses, and socket files below these folders.

    A long path is bound by way of /proc/self/fd, so that the kernel's list of sockets has no more than its last part.
    """
    files = {path.name: path for folder in folders for path in folder.rglob("*") if path.is_socket()}
    sockets = {}
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = str(descriptor.readlink())
            except FileNotFoundError:
                continue
            if target.startswith("socket:["):
                sockets[target[8:-1]] = pid
    found: dict[Listener, int] = {}
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == "0A" and words[9] in sockets:
            address, port = words[1].split(":")
            found[socket.inet_ntoa(bytes.fromhex(address)[::-1]), int(port, 16)] = sockets[words[9]]
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        words = line.split(None, 7)
        accepts = int(words[3], 16) & 0x10000  # __SO_ACCEPTCON of linux/net.h
        if accepts and words[6] in sockets and len(words) == 8:
            path = Path(words[7])
            found[path if path.exists() else files[path.name]] = sockets[words[6]]
    return found


def memory_kib(pid: int) -> int:
    """Return how much memory a process has had at most."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise LookupError(pid)
