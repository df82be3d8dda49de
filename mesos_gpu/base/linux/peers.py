"""Which process or user is at the other end of a connection on this machine: what the kernel knows, without a secret.

Sources: unix(7), SO_PEERCRED; Linux Documentation/networking/proc_net_tcp.rst, the uid of a socket.
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PROC_NET = Path("/proc/net")
_LOCAL, _REMOTE, _UID, _INODE = 1, 2, 7, 9
"""Columns of /proc/net/tcp."""
_CLOSED = "0"
"""The inode of a socket whose program has closed it; its uid is shown as 0, whoever's it was (sock_i_uid)."""
_UCRED = struct.Struct("3i")


class Credentials(NamedTuple):
    """The process that connected to, or listens at, a Unix domain socket, as it was at that moment."""

    pid: int
    uid: int
    gid: int


def credentials_of(connection: socket.socket) -> Credentials:
    """Return the other end of a Unix domain socket. `pid` is 0 for one in another pid namespace. Raises OSError."""
    return Credentials(*_UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)))


def uid_of_peer(connection: socket.socket, proc_net: Path = PROC_NET) -> int | None:
    """Return the user id of the other end of a connection; None if this machine's kernel does not know it."""
    if connection.family == socket.AF_UNIX:
        return credentials_of(connection).uid
    try:
        theirs, ours = connection.getpeername()[:2], connection.getsockname()[:2]
    except OSError:
        return None
    return uid_of_socket(theirs, ours, proc_net)


def uid_of_socket(
    local: tuple[str, int], remote: tuple[str, int] | None = None, proc_net: Path = PROC_NET
) -> int | None:
    """Return the user id of this machine's TCP socket with these ends; None if there is none, or it was closed.

    Without `remote`: of the first one that has this local address.
    """
    for table, version in (("tcp", 4), ("tcp6", 6)):
        ends = [None if end is None else _written(*end, version) for end in (local, remote)]
        for row in _rows(proc_net / table):
            if row[_LOCAL] == ends[0] and ends[1] in (None, row[_REMOTE]) and row[_INODE] != _CLOSED:
                return int(row[_UID])
    return None


def _rows(table: Path) -> Iterator[list[str]]:
    try:
        with table.open() as lines:
            next(lines, None)
            yield from (line.split() for line in lines)
    except OSError:
        return


def _written(address: str, port: int, version: int) -> str:
    """Return an end of a connection as the kernel writes it there: words of 4 bytes in the machine's order."""
    address = address.partition("%")[0]
    try:
        packed = socket.inet_pton(socket.AF_INET, address)
    except OSError:
        packed = socket.inet_pton(socket.AF_INET6, address)
    mapped = b"\0" * 10 + b"\xff\xff"
    if version == 4:
        packed = packed.removeprefix(mapped) if len(packed) == 16 else packed
    elif len(packed) == 4:
        packed = mapped + packed
    order = "<" if sys.byteorder == "little" else ">"
    words = struct.unpack(f"{order}{len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"
