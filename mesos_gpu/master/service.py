"""The program `mesos-gpu-master`: reads its flags, opens a master, and serves until told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from mesos_gpu.master.configuration import read_configuration
from mesos_gpu.master.engine.collector import Collector
from mesos_gpu.master.flags import FLAGS
from mesos_gpu.master.mesos_flags import FOREIGN, OLD_NAMES
from mesos_gpu.master.running import RunningMaster
from mesos_gpu.mesos.dcos.switches import master_flags
from mesos_gpu.mesos.foreign import parser_flags, settle, strangers
from mesos_gpu.process.program import EXIT_OK, PROGRAM_FLAGS, read_flags, read_switches, run_program, write_ready_file
from mesos_gpu.process.secure.tls import Tls, open_tls

log = logging.getLogger(__name__)

NAME = "mesos-gpu-master"
OWN_FLAGS = frozenset(flag.name for flag in (*FLAGS, *PROGRAM_FLAGS))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the master until SIGTERM or SIGINT."""
    flags = read_flags(NAME, [*FLAGS, *parser_flags(FOREIGN, FLAGS, OLD_NAMES)], argv)
    return run_program(NAME, lambda stop: run(_settled(flags), stop), max_log_bytes=flags["max_log_size"])


def _settled(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags that we act on; the log says what of an existing unit file does nothing. Raises BadFlag."""
    mine, said = settle(FOREIGN, flags, OWN_FLAGS, OLD_NAMES)
    for line in [*said, *strangers(os.environ, flags)]:
        log.warning("%s", line)
    return master_flags(mine, read_switches(mine["dcos_config"]))


async def run(flags: Mapping[str, Any], stop: asyncio.Event) -> int:
    """Run a master with these flags until `stop` is set. Raises MesosGpuError when it cannot work."""
    master = await open_master(flags, open_tls(os.environ))
    following = asyncio.ensure_future(master.live.follow())
    collector = Collector()
    collector.begin()
    try:
        write_ready_file(flags["ready_file"], {"url": master.url, "id": master.engine.state.id})
        await _until(stop, master.engine.failed)
    finally:
        collector.end()
        following.cancel()
        await master.close()
    return EXIT_OK


async def open_master(flags: Mapping[str, Any], tls: Tls | None = None) -> RunningMaster:
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
