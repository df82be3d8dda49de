"""The program `mesos-gpu-master`: reads its flags, opens a master, and serves until told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from typing import Any

from mesos_gpu.master.configuration import read_configuration
from mesos_gpu.master.engine.collector import Collector
from mesos_gpu.master.flags import COMMAND_LINE, MasterFlags
from mesos_gpu.master.running import RunningMaster
from mesos_gpu.mesos.dcos.switches import filters_gpus
from mesos_gpu.mesos.flags import strangers
from mesos_gpu.process.program import EXIT_OK, read_flags, read_switches, run_program, write_ready_file
from mesos_gpu.process.secure.tls import Tls, open_tls

log = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the master until SIGTERM or SIGINT."""
    flags, said = read_flags(COMMAND_LINE, argv)

    async def run_and_report(stop: asyncio.Event) -> int:
        for line in [*said, *strangers(os.environ, COMMAND_LINE.known())]:
            log.warning("%s", line)
        return await run(with_switches(flags), stop)

    return run_program(COMMAND_LINE.program, run_and_report, max_log_bytes=flags.max_log_size)


def with_switches(flags: MasterFlags) -> MasterFlags:
    """Return the flags as the switches of DC/OS and its configuration file change them. Raises BadFlag."""
    switches = read_switches(flags.dcos_config)
    scarce = filters_gpus(flags.gpus_are_scarce, flags.filter_gpu_resources, switches)
    return flags.replace(filter_gpu_resources=scarce)


async def run(flags: MasterFlags, stop: asyncio.Event) -> int:
    """Run a master with these flags until `stop` is set. Raises MesosGpuError when it cannot work."""
    master = await open_master(flags, open_tls(os.environ))
    following = asyncio.ensure_future(master.live.follow())
    collector = Collector()
    collector.begin()
    try:
        write_ready_file(flags.ready_file, {"url": master.url, "id": master.engine.state.id})
        await _until(stop, master.engine.failed)
    finally:
        collector.end()
        following.cancel()
        await master.close()
    return EXIT_OK


async def open_master(flags: MasterFlags, tls: Tls | None = None) -> RunningMaster:
    """Start a master with these flags. Raises MesosGpuError when it cannot work."""
    master = RunningMaster(read_configuration(flags), tls)
    await master.serve()
    return master


async def _until(stop: asyncio.Event, failed: asyncio.Future[None]) -> None:
    """Return when `stop` is set; raise what `failed` holds when that comes first."""
    stopping = asyncio.ensure_future(stop.wait())
    ends: list[asyncio.Future[Any]] = [stopping, failed]
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if failed.done():
            failed.result()
    finally:
        stopping.cancel()


if __name__ == "__main__":
    sys.exit(main())
