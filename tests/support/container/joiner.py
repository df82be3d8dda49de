"""A program that joins containers to networks as an agent does: one of several on a machine.

For each line `NAMESPACE CONTAINER_ID` it reads, it joins that container with the network namespace at that path for the
host's, and writes `ok`, or what went wrong.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from mesos_gpu.base.linux.libc import call
from mesos_gpu.container.network.netns import CLONE_NEWNET
from mesos_gpu.container.network.networks import Networks
from mesos_gpu.errors import MesosGpuError
from mesos_gpu.mesos.ids import ContainerId


async def join(folder: Path, configs: Path, plugins: Path, lock: Path, container_id: ContainerId, port: int) -> str:
    """Join the network `racing`; return `ok` or the words of the error. Leaves it again."""
    networks = Networks(folder, configs, [plugins], lock=lock)
    mapping = {"host_port": port, "container_port": 80}
    try:
        await networks.prepare(container_id, [{"name": "racing", "port_mappings": [mapping]}], None)
        return "ok"
    except MesosGpuError as error:
        return str(error).replace("\n", " ")
    finally:
        await networks.cleanup(container_id)
        networks.close()


def main() -> None:
    folder, configs, plugins, lock = map(Path, sys.argv[1:5])
    for number, line in enumerate(sys.stdin):
        namespace, container_id = line.split()
        descriptor = os.open(namespace, os.O_RDONLY)
        call("setns", descriptor, CLONE_NEWNET)  # threads have the namespaces of who makes them
        os.close(descriptor)
        print(asyncio.run(join(folder, configs, plugins, lock, ContainerId(container_id), 20000 + number)), flush=True)


if __name__ == "__main__":
    main()
