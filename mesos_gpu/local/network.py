"""Puts the configuration of a box's own network where its agents look, and takes the bridge away with the box."""

from __future__ import annotations

import fcntl
import json
import logging
import socket
import struct
from pathlib import Path

from mesos_gpu.base.files import PUBLIC, write_whole
from mesos_gpu.local.bridge import FILE, bridge_name, choose_subnet, configuration, routed, subnet_of
from mesos_gpu.local.plan import box_id, networks_dir, runtime_dir

SIOCGIFFLAGS, SIOCSIFFLAGS, SIOCBRDELBR, IFF_UP = 0x8913, 0x8914, 0x89A1, 1
_IFREQ = "16sH22x"

log = logging.getLogger(__name__)


def prepare_network(work_dir: Path) -> None:
    """Write the configuration of `mesos-bridge`, with the subnet it had if that is still free.

    Nothing of it exists yet: the plugins make the bridge for the first task that joins.
    """
    path, name = networks_dir(work_dir) / FILE, box_id(work_dir)
    try:
        before = subnet_of(json.loads(path.read_bytes()))
    except (OSError, ValueError):
        before = None
    # While the bridge of this box is there, as after `down --keep_tasks`, the route to it is its own.
    kept = before is not None and Path("/sys/class/net", bridge_name(name)).exists()
    subnet = before if kept else choose_subnet(routed(Path("/proc/net/route").read_text()), name, before)
    if subnet is None:
        path.unlink(missing_ok=True)
        log.warning("no subnet is free for the network of the box, so its tasks can join none")
        return
    document = configuration(name, subnet, str(runtime_dir(work_dir) / "leases"))
    write_whole(path, json.dumps(document, indent=2).encode() + b"\n", mode=PUBLIC, durable=False, folder_mode=0o755)


def remove_network(work_dir: Path) -> None:
    """Remove the bridge, which no task uses any more; nothing happens when there is none."""
    name = bridge_name(box_id(work_dir)).encode()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            found = fcntl.ioctl(any_socket, SIOCGIFFLAGS, struct.pack(_IFREQ, name, 0))
            flags = struct.unpack(_IFREQ, found)[1]
            fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack(_IFREQ, name, flags & ~IFF_UP))
            fcntl.ioctl(any_socket, SIOCBRDELBR, name.ljust(16, b"\0"))
        except OSError:
            return  # it was never made, or we are not root and could not have made it
