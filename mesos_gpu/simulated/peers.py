"""Who is at the other end of a connection: asked of the kernel, so that nobody can say to be another."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterable
from pathlib import Path

from mesos_gpu.base.linux.cgroups import Membership, cgroups_of, container_of
from mesos_gpu.base.linux.peers import credentials_of
from mesos_gpu.base.linux.processes import read_status
from mesos_gpu.simulated.machine import Peer

NVIDIA_MAJOR = 195


def peer_of(connection: socket.socket, root: str) -> Peer:
    """Return the process that connected, and what the kernel knows of it. `root`: of the containers' cgroups."""
    pid = credentials_of(connection).pid
    try:
        memberships, status = cgroups_of(pid) or (), read_status(pid) or {}
        namespace = Path(f"/proc/{pid}/ns/pid").stat().st_ino
    except OSError:
        memberships, status, namespace = (), {}, 0
    inner = status.get("NSpid", str(pid)).split()[-1]
    return Peer(pid, container_of(memberships, root), _names(memberships), int(inner), namespace)


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


def _names(memberships: Iterable[Membership]) -> frozenset[str]:
    """Return the paths of a process's cgroups, those of version 1 also with the name of their hierarchy before them."""
    found = set()
    for one in memberships:
        found.add(one.path)
        for controller in (",".join(one.controllers).removeprefix("name="), *one.controllers):
            if controller:
                found.add(f"/{controller}{one.path}")
    return frozenset(found)
