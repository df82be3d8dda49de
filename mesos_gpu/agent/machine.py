"""Facts of this machine that an agent's resources are made of."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from pathlib import Path

from mesos_gpu.agent.resources import Machine
from mesos_gpu.errors import BadFlag, Unavailable
from mesos_gpu.mesos.libprocess import Pid

MASTER_ID = "master"
DEFAULT_MASTER_PORT = 5050
_MIB = 1024 * 1024


def measure(work_dir: Path) -> Machine:
    """Return CPUs, memory and the size of the file system under `work_dir`, which must exist."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(cpus=os.cpu_count() or 1, mem_mib=memory // _MIB, disk_mib=shutil.disk_usage(work_dir).total // _MIB)


async def find_master(text: str | None) -> Pid:
    """Return the pid that `--master` names: `host:port`, or `master@host:port`; a name is resolved once, as in Mesos.

    Raises BadFlag for another form, Unavailable for a name that does not resolve.
    """
    if not text:
        raise BadFlag("master", "is needed: where the master listens, for example 127.0.0.1:5050")
    if text.startswith("zk://"):
        raise BadFlag("master", "finding the master through ZooKeeper is not supported yet; name it as host:port")
    host, _, port = text.removeprefix(f"{MASTER_ID}@").partition(":")
    if not host or (port and not port.isdigit()) or int(port or DEFAULT_MASTER_PORT) > 65535:
        raise BadFlag("master", f"'{text}' is not host:port")
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, int(port or DEFAULT_MASTER_PORT), family=socket.AF_INET, type=socket.SOCK_STREAM
        )
    except OSError as error:
        raise Unavailable(f"--master={text}: cannot resolve {host}: {error.strerror}") from None
    ip, number = found[0][4][:2]
    return Pid(MASTER_ID, str(ip), int(number))
