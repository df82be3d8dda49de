"""Who is at the other end of a connection: asked of the kernel, so that nobody can say to be another."""

from __future__ import annotations

import os
import re
import socket
import stat
import struct
from pathlib import Path

from mesos_gpu.simulated.machine import Peer

NVIDIA_MAJOR = 195
_UCRED = struct.Struct("3i")


def peer_of(connection: socket.socket, root: str) -> Peer:
    """Return who connected: SO_PEERCRED, and what /proc says of that process. `root`: of the containers' cgroups."""
    pid, _, _ = _UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    text = _read(f"/proc/{pid}/cgroup")
    inner = re.search(r"^NSpid:.*?(\d+)$", _read(f"/proc/{pid}/status"), re.MULTILINE)
    try:
        namespace = Path(f"/proc/{pid}/ns/pid").stat().st_ino
    except OSError:
        namespace = 0
    return Peer(pid, _owner(text, root), _cgroups(text), int(inner[1]) if inner else pid, namespace)


def owner_of(pid: int, root: str) -> str:
    """Return the container that a process is in, by its cgroup below `root`; "" for none."""
    return _owner(_read(f"/proc/{pid}/cgroup"), root)


def _owner(cgroups: str, root: str) -> str:
    found = re.search(rf"/{re.escape(root)}/([^/\n]+)", cgroups)
    return found[1] if found else ""


def may_use(peer: Peer, card: int) -> bool:
    """Return whether a process has the node of a card; one in no container may use all."""
    if not peer.owner:
        return True
    try:
        node = Path(f"/proc/{peer.pid}/root/dev/nvidia{card}").stat()
    except OSError:
        return False
    return stat.S_ISCHR(node.st_mode) and node.st_rdev == os.makedev(NVIDIA_MAJOR, card)


def may_use_part(peer: Peer, minor: int) -> bool:
    """Return whether a process has the node of a MIG instance; one in no container may use all."""
    if not peer.owner:
        return True
    try:
        node = Path(f"/proc/{peer.pid}/root/dev/nvidia-caps/nvidia-cap{minor}").stat()
    except OSError:
        return False
    return stat.S_ISCHR(node.st_mode) and os.minor(node.st_rdev) == minor


def _cgroups(text: str) -> frozenset[str]:
    """Return the paths of a process's cgroups, those of version 1 also with the name of their hierarchy before them."""
    found = set()
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        found.add(path)
        for controller in (controllers.removeprefix("name="), *controllers.split(",")):
            if controller:
                found.add(f"/{controller}{path}")
    return frozenset(found)


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
