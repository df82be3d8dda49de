"""Whose program is at the other end of a connection on this machine: what the kernel knows, without any secret.

Sources: Linux Documentation/networking/proc_net_tcp.rst (the uid of a socket), unix(7) (SO_PEERCRED).
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = 0
_PROC_NET = Path("/proc/net")
_ADDRESS, _PEER, _UID, _INODE = 1, 2, 7, 9
"""Columns of /proc/net/tcp."""
_NOBODYS = "0"
"""The inode of a socket whose program has closed it; its uid is shown as 0, whoever's it was (sock_i_uid)."""


def is_same_user(connection: socket.socket, proc_net: Path = _PROC_NET) -> bool:
    """Return whether the program at the other end of an accepted connection runs on this machine as root or as we do.

    False also when it cannot be told: it has closed its end already, or is on another machine or in another network
    namespace.
    """
    return uid_of_peer(connection, proc_net) in (ROOT, os.geteuid())


def uid_of_peer(connection: socket.socket, proc_net: Path = _PROC_NET) -> int | None:
    """Return the user id of the socket at the other end, None when this machine's kernel knows none."""
    if connection.family == socket.AF_UNIX:
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", credentials)[1])
    try:
        theirs, ours = connection.getpeername()[:2], connection.getsockname()[:2]
    except OSError:
        return None
    for table, version in (("tcp", 4), ("tcp6", 6)):
        ends = [_written(address, port, version) for address, port in (theirs, ours)]
        for row in _rows(proc_net / table):
            if [row[_ADDRESS], row[_PEER]] == ends:
                return None if row[_INODE] == _NOBODYS else int(row[_UID])
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
    ip: ipaddress.IPv4Address | ipaddress.IPv6Address = ipaddress.ip_address(address.partition("%")[0])
    if version == 4 and isinstance(ip, ipaddress.IPv6Address):
        ip = ip.ipv4_mapped or ip
    elif version == 6 and isinstance(ip, ipaddress.IPv4Address):
        ip = ipaddress.IPv6Address(f"::ffff:{ip}")
    order = "<" if sys.byteorder == "little" else ">"
    words = struct.unpack(f"{order}{len(ip.packed) // 4}I", ip.packed)
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"
