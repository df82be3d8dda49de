"""The program `mesos-gpu-master`: puts the real parts together and runs until told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mesos_gpu.master.agent_link import PROCESS_ID, AgentLink
from mesos_gpu.master.engine import Engine, clock
from mesos_gpu.master.flags import FLAGS, check_flags, flags_as_text, settings
from mesos_gpu.master.observers import Pace
from mesos_gpu.master.operator_api import VERSION, OperatorApi
from mesos_gpu.master.registry import Registry
from mesos_gpu.master.state import MasterState
from mesos_gpu.master.views import master_info
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.program import EXIT_OK, read_flags, run_program, write_ready_file

log = logging.getLogger(__name__)

NAME = "mesos-gpu-master"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the master until SIGTERM or SIGINT."""
    flags = read_flags(NAME, FLAGS, argv)
    return run_program(NAME, lambda stop: run(flags, stop))


async def run(flags: Mapping[str, Any], stop: asyncio.Event) -> int:
    """Run a master with these flags until `stop` is set. Raises MesosGpuError when it cannot work."""
    master = await open_master(flags)
    try:
        write_ready_file(flags["ready_file"], {"url": master.url, "id": master.engine.state.id})
        await _until(stop, master.engine.failed)
    finally:
        await master.close()
    return EXIT_OK


@dataclass(frozen=True, slots=True)
class RunningMaster:
    """A master that serves."""

    engine: Engine
    endpoint: Endpoint
    link: AgentLink

    @property
    def url(self) -> str:
        """Return where the HTTP API is."""
        pid = self.endpoint.pid(PROCESS_ID)
        return f"http://{pid.ip}:{pid.port}"

    async def close(self) -> None:
        """Stop serving; agents and schedulers see their connections end."""
        self.engine.stop()
        self.link.stop()
        await self.endpoint.stop()


async def open_master(flags: Mapping[str, Any]) -> RunningMaster:
    """Start a master with these flags. Raises MesosGpuError when it cannot work."""
    check_flags(flags)
    registry = Registry(Path(flags["work_dir"]))
    known = registry.load()
    endpoint = Endpoint(flags["ip"], flags["port"], advertise_ip=flags["advertise_ip"])
    state = MasterState({"id": str(uuid.uuid4())}, settings(flags), clock(), known)
    state.recall(registry.rest)
    engine = Engine(state, registry)
    shown = flags_as_text(flags)
    api = OperatorApi(engine, shown, cluster=flags["cluster"], system=system_metrics)
    await endpoint.start(api.make_app())
    # Nobody has been answered yet: a request takes more turns of the loop than there were since the port opened.
    pid = endpoint.pid(PROCESS_ID)
    shown["port"] = str(pid.port)
    state.master_info = master_info(state.id, flags["hostname"] or pid.ip, VERSION, pid)
    link = AgentLink(engine, endpoint, Pace(flags["agent_ping_timeout"], flags["max_agent_ping_timeouts"]))
    engine.agents = link
    engine.start()
    link.call_back()
    engine.call_later(flags["agent_reregister_timeout"], link.recovery_ended)
    log.info("master %s at %s, %d agents in the registry", state.id, pid, len(known))
    return RunningMaster(engine, endpoint, link)


def system_metrics() -> dict[str, float]:
    """Return what the machine reports, under Mesos' names."""
    load = os.getloadavg()
    page = os.sysconf("SC_PAGE_SIZE")
    return {
        "system/cpus_total": float(os.cpu_count() or 0),
        "system/load_1min": load[0],
        "system/load_5min": load[1],
        "system/load_15min": load[2],
        "system/mem_total_bytes": float(page * os.sysconf("SC_PHYS_PAGES")),
        "system/mem_free_bytes": float(page * os.sysconf("SC_AVPHYS_PAGES")),
    }


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
