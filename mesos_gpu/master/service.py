"""The program `mesos-gpu-master`: puts the real parts together and runs until told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mesos_gpu.errors import Unavailable
from mesos_gpu.master.agent_link.authentication import Authenticators
from mesos_gpu.master.agent_link.link import PROCESS_ID, AgentLink
from mesos_gpu.master.agent_link.observers import Pace, RemovalLimit
from mesos_gpu.master.api.access import open_access
from mesos_gpu.master.api.operator_api import VERSION, OperatorApi
from mesos_gpu.master.driver_link.link import DriverLink
from mesos_gpu.master.engine.engine import Engine, clock
from mesos_gpu.master.events.timers import CollectRegistry
from mesos_gpu.master.flags import FLAGS, check_flags, flags_as_text, removal_interval_s, removal_share, settings
from mesos_gpu.master.leadership import Leadership
from mesos_gpu.master.mesos_flags import FOREIGN, OLD_NAMES
from mesos_gpu.master.model.record import Record
from mesos_gpu.master.registry.registrar import Registrar
from mesos_gpu.master.registry.registry import Registry
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.master.views.views import master_info
from mesos_gpu.mesos.foreign import parser_flags, settle, strangers
from mesos_gpu.mesos.leader import Leader, parse_zk_url, write_node
from mesos_gpu.mesos.libprocess import Message
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.program import EXIT_OK, READY_FILE, read_flags, run_program, write_ready_file
from mesos_gpu.process.tls import Tls, open_tls
from mesos_gpu.process.zookeeper import ZkGroup, ZkValue

log = logging.getLogger(__name__)

NAME = "mesos-gpu-master"
OWN_FLAGS = frozenset(flag.name for flag in (*FLAGS, READY_FILE))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the master until SIGTERM or SIGINT."""
    flags = read_flags(NAME, [*FLAGS, *parser_flags(FOREIGN, FLAGS, OLD_NAMES)], argv)
    return run_program(NAME, lambda stop: run(_settled(flags), stop))


def _settled(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags that we act on; the log says what of an existing unit file does nothing. Raises BadFlag."""
    mine, said = settle(FOREIGN, flags, OWN_FLAGS, OLD_NAMES)
    for line in [*said, *strangers(os.environ, flags)]:
        log.warning("%s", line)
    return mine


async def run(flags: Mapping[str, Any], stop: asyncio.Event) -> int:
    """Run a master with these flags until `stop` is set. Raises MesosGpuError when it cannot work."""
    master = await open_master(flags, open_tls(os.environ))
    try:
        write_ready_file(flags["ready_file"], {"url": master.url, "id": master.engine.state.id})
        await _until(stop, master.engine.failed)
    finally:
        await master.close()
    return EXIT_OK


@dataclass(frozen=True, slots=True)
class RunningMaster:
    """A master that serves: it leads, or stands by until it does."""

    engine: Engine
    registrar: Registrar
    endpoint: Endpoint
    link: AgentLink
    leadership: Leadership
    group: ZkGroup | None = None

    @property
    def url(self) -> str:
        """Return where the HTTP API is."""
        return self.endpoint.url

    async def close(self) -> None:
        """Stop serving; agents and schedulers see their connections end, and another master may lead."""
        self.engine.stop()
        self.link.stop()
        await self.endpoint.stop()
        if self.group is not None:
            await self.group.close()
        await self.registrar.close()


async def open_master(flags: Mapping[str, Any], tls: Tls | None = None) -> RunningMaster:
    """Start a master with these flags. Raises MesosGpuError when it cannot work."""
    check_flags(flags)
    access = open_access(flags)
    endpoint = Endpoint(
        flags["ip"], flags["port"], advertise_ip=flags["advertise_ip"], advertise_port=flags["advertise_port"], tls=tls
    )
    state = MasterState({"id": str(uuid.uuid4())}, settings(flags, access.acls), clock())
    leadership = Leadership(state.id)
    group = None if flags["zk"] is None else _group(flags, leadership, lambda: elected(), lambda why: engine.fail(why))
    registrar = Registrar(Registry(Path(flags["work_dir"]) if group is None else _zk_registry(flags, group)))
    engine = Engine(state, registrar)
    if group is None:
        state.recover(await registrar.recover(state.id))
    shown = flags_as_text(flags)
    app = OperatorApi(
        engine,
        shown,
        cluster=flags["cluster"],
        system=system_metrics,
        json_suffixes=flags["json_suffixes"],
        log_file=flags["external_log_file"],
        gate=access.gate,
    ).make_app()
    app.middlewares.append(leadership.middleware())
    endpoint.spawn(PROCESS_ID, _not_leading)
    await endpoint.start(app)
    # Nobody has been answered yet: a request takes more turns of the loop than there were since the port opened.
    pid = endpoint.pid(PROCESS_ID)
    shown["port"] = str(pid.port)
    state.master_info = master_info(state.id, flags["hostname"] or pid.ip, VERSION, pid)
    authenticators = Authenticators(endpoint, access.secrets)
    link = AgentLink(
        engine,
        endpoint,
        Pace(flags["agent_ping_timeout"], flags["max_agent_ping_timeouts"]),
        authenticators,
        only_authenticated=flags["authenticate_agents"],
        limit=RemovalLimit(removal_interval_s(flags["agent_removal_rate_limit"])),
        patience_s=flags["agent_reregister_timeout"],
        most_missing=removal_share(flags["recovery_agent_removal_limit"]),
    )
    engine.agents, link.drivers = link, DriverLink(engine, endpoint, authenticators)

    def elected() -> None:
        recovery = asyncio.ensure_future(registrar.recover(state.id))
        recovery.add_done_callback(recovered)

    def recovered(recovery: asyncio.Future[Record]) -> None:
        if recovery.cancelled() or engine.stopped:
            recovery.cancelled() or recovery.exception()
            return
        try:
            state.recover(recovery.result())
        except Unavailable as error:
            engine.fail(str(error))
            return
        lead()

    def lead() -> None:
        """Begin to lead: what the registry holds is ours now."""
        state.elected = clock()
        leadership.take()
        link.listen()
        engine.start()
        link.call_back()
        engine.every(flags["registry_gc_interval"], CollectRegistry())
        log.info("master %s leads at %s, %d agents in the registry", state.id, pid, len(state.recovered))

    if group is None:
        lead()
    else:
        log.info("master %s at %s waits for its election in %s", state.id, pid, group.session.url)
        group.join(write_node(state.master_info))
    return RunningMaster(engine, registrar, endpoint, link, leadership, group)


def _group(
    flags: Mapping[str, Any], leadership: Leadership, elected: Callable[[], None], fail: Callable[[str], None]
) -> ZkGroup:
    """Return the group of masters that this one is about to join.

    A master that was elected leads until it ends: when another leads, or it cannot know whether, it stops (as Mesos).
    """

    def heard(leader: Leader | None) -> None:
        was_elected = leadership.elected
        ours = leadership.heard(leader)
        if was_elected and not ours:
            fail(f"lost the leadership to {leader.pid if leader is not None else 'nobody'}; start it again to stand by")
        elif ours and not was_elected:
            elected()
        elif leader is not None and not ours:
            log.info("standing by; %s leads", leader.pid)

    def lost() -> None:
        if leadership.elected:
            fail("lost the session with ZooKeeper, so another master may lead; start it again to stand by")

    return ZkGroup(parse_zk_url("zk", flags["zk"]), heard, session_timeout_s=flags["zk_session_timeout"], on_lost=lost)


def _zk_registry(flags: Mapping[str, Any], group: ZkGroup) -> ZkValue:
    return ZkValue(group.session, "mesos-gpu-registry", patience_s=flags["registry_store_timeout"])


def _not_leading(message: Message) -> None:
    """A master that does not lead takes messages and drops them: they are never redirected (libprocess.md 5)."""
    log.debug("not leading: dropping %s from %s", message.name, message.sender)


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
