"""The services as they are, put into the simulated world: ports, containers, GPU drivers and logs are its own."""

from __future__ import annotations

import asyncio
import errno
import io
import logging
import os
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from mesos_gpu.agent import machine_gpus, opening
from mesos_gpu.agent import service as agent_service
from mesos_gpu.agent.disk.syncing import Syncing
from mesos_gpu.agent.flags import COMMAND_LINE as AGENT
from mesos_gpu.agent.gpus import care
from mesos_gpu.agent.running import probes
from mesos_gpu.base.file_locks import HeldLock, hold
from mesos_gpu.errors import MesosGpuError, Unavailable
from mesos_gpu.gpu.device import Gpu, HealthEvent
from mesos_gpu.gpu.null import NullDriver
from mesos_gpu.isolator import record_folder
from mesos_gpu.marathon import configuration as marathon_configuration
from mesos_gpu.marathon import service as marathon_service
from mesos_gpu.marathon.engine.election import EXIT_LEADERSHIP_LOST, EXIT_ZOOKEEPER_LOST
from mesos_gpu.marathon.flags import COMMAND_LINE as MARATHON
from mesos_gpu.marathon.store.sqlite import SqliteStore
from mesos_gpu.master import service as master_service
from mesos_gpu.master.flags import COMMAND_LINE as MASTER
from mesos_gpu.mesos.checks import Probe, Result
from mesos_gpu.mesos.flags import CommandLine, F, parse_flags
from mesos_gpu.process import bodies, links, zookeeper
from mesos_gpu.process.endpoint import Endpoint
from mesos_gpu.process.front import Front
from mesos_gpu.process.streams import EventStream
from tests.sim import cards, executors
from tests.sim.containers import SimulatedContainers
from tests.sim.disk import step
from tests.sim.faults import count_to, span
from tests.sim.link import SimulatedLink
from tests.sim.loop import numbered
from tests.sim.machine import Machine
from tests.sim.world import PROCESS, Host, Killed, Process, World
from tests.sim.zookeeper import PORT as ZOOKEEPER_PORT
from tests.sim.zookeeper import Client, Ensemble

MASTER_PORT, AGENT_PORT, MARATHON_PORT = 5050, 5051, 8080
MAY_END = frozenset(f"exit {status}" for status in (0, EXIT_LEADERSHIP_LOST, EXIT_ZOOKEEPER_LOST))
"""How services end by themselves, 0 being that of agents that were marked as gone; anything else is a finding."""
HARMLESS = ("Task was destroyed but it is pending", "Unclosed", "Task exception was never retrieved")


class Driver(NullDriver):
    """A driver of GPUs that are only names; where some are shared it tells their memory, and which are ill."""

    kind = "simulated"

    def __init__(self, machine: Machine, count: int) -> None:
        host, self._machine = machine.host, machine
        size_mib = next((card.memory_mib for card in machine.cards.values()), None)
        self._gpus = tuple(
            Gpu(minor=n, index=n, uuid=f"GPU-{host.name}-{n}", name="Simulated GPU", memory_mib=size_mib)
            for n in range(count)
        )

    def gpus(self) -> tuple[Gpu, ...]:
        """Return the GPUs of the host."""
        return self._gpus

    def watch_health(self, on_event: Callable[[HealthEvent], None]) -> Callable[[], None]:
        """Tell of those that fall ill, as long as who watches lives."""
        self._machine.on_ill = on_event, PROCESS.get()
        return lambda: None

    def retest(self, gpu: Gpu) -> str | None:
        """Return what is wrong with one."""
        if not self._machine.cards:
            return super().retest(gpu)
        if gpu.index not in self._machine.ill:
            self._machine.doubted.discard(gpu.index)
        return self._machine.ill.get(gpu.index)


class _Thread:
    """Stands for the thread in which an agent asks its driver."""

    async def ask(self, work: Callable[[], Any]) -> Any:
        """Return what `work` returns."""
        return await asyncio.get_running_loop().run_in_executor(self, work)  # type: ignore[arg-type]

    def close(self) -> None:
        """Nothing to end."""


class Store(SqliteStore):
    """The real store; when its process dies its file is closed, as the kernel does, and it dies at its writes, too."""

    def __init__(self, *args: Any, **more: Any) -> None:
        process = PROCESS.get()
        super().__init__(*args, **more)
        if process is not None:
            process.at_end.append(self._db.close)

    def save(self, changes: Any) -> None:
        """Save, or die before or after that, or find that the disk fails it."""
        try:
            step("commit")
        except OSError as error:
            raise Unavailable(f"cannot write the store: {error.strerror}") from None
        super().save(changes)
        step("committed")


class _LogOfWorld(logging.Handler):
    """Every line of every service is part of the history; one that says something broke is a finding."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        process = PROCESS.get()
        if process is not None and not process.alive:
            return
        name = "simulator" if process is None else process.name
        text = record.getMessage()
        self._world.tell(name, f"{record.levelname[0]} {record.name}: {text}")
        if record.exc_info and record.exc_info[0] is not None:
            if record.exc_info[0] is Killed or any(word in text for word in HARMLESS):
                return
            told = io.StringIO()
            traceback.print_exception(*record.exc_info, file=told)
            last = told.getvalue().strip().splitlines()
            self._world.finding(f"{name} logs a traceback: {text}: {last[-1]}\n{told.getvalue()}")


@dataclass(frozen=True)
class Shape:
    """How many of what there are. Several masters, or Marathons, elect a leader through ZooKeeper.

    `listed`: agents are told the masters' addresses, and ask them who leads.
    """

    agents: int = 3
    gpus: int = 4
    masters: int = 1
    marathons: int = 1
    listed: bool = False
    shared: int = field(default=0, repr=False)
    """How many GPUs of each agent containers share; the last agent shares one."""

    @classmethod
    def drawn(cls, seed: int, agents: int, gpus: int) -> Shape:
        """Return what the cluster of a seed looks like: three times in five there is one of each service."""
        chance = Random(f"shape of {seed}")
        masters, marathons = chance.choice(((1, 1), (1, 1), (1, 1), (3, 1), (3, 2)))
        return cls(agents, gpus, masters, marathons, listed=masters > 1 and chance.random() < 0.3)


class Cluster:
    """Masters, agents and Marathons, each on a host of its own, and who starts them again when they end.

    The first agent has no GPU: what asks for none waits for such a one, as Marathon keeps GPU machines free of it.
    """

    def __init__(self, world: World, shape: Shape) -> None:
        self.world, self.shape = world, shape
        self.masters = [world.add_host(name) for name in _names("master", shape.masters)]
        self.marathons = [world.add_host(name) for name in _names("marathon", shape.marathons)]
        agents, gpus = shape.agents, shape.gpus
        self.agents = [world.add_host(f"agent-{n}") for n in range(1, agents + 1)]
        self.zookeeper = None
        if shape.masters > 1 or shape.marathons > 1:
            self.zookeeper = Client.ensemble = Ensemble(world, world.add_host("zookeeper"))
        self.gpus = {host.name: 0 if host is self.agents[0] else gpus for host in self.agents}
        self.machines = {host.name: Machine(host) for host in self.agents}
        for host in self.agents if shape.shared else ():
            count = min(self.gpus[host.name], shape.shared if host is not self.agents[-1] else 1)
            self.machines[host.name].cards = cards.cards_of(world.seed, host.name, self.gpus[host.name], count)
        self._programs: dict[str, tuple[Host, Callable[[Host], Awaitable[int]]]] = {
            **{host.name: (host, self._run_master) for host in self.masters},
            **{host.name: (host, self._run_marathon) for host in self.marathons},
            **{host.name: (host, self._run_agent) for host in self.agents},
        }
        self.supervised = True
        self.on_status: Callable[[str, dict[str, Any]], None] = lambda marathon, status: None
        self.on_exit: list[Callable[[Process, str], None]] = []
        """Told of a service that ends by itself, and why."""
        self._install()

    @property
    def names(self) -> list[str]:
        """Return the names of the services."""
        return list(self._programs)

    @property
    def whole(self) -> int:
        """Return how many GPUs are given whole."""
        return sum(self.gpus[name] - len(machine.cards) for name, machine in self.machines.items())

    def host_of(self, name: str) -> Host:
        """Return where a service runs."""
        return self._programs[name][0]

    def start(self, name: str) -> None:
        """Start a service, unless it runs or its host is down."""
        host, program = self._programs[name]
        if host.down or name in self.world.processes:
            return
        process = self.world.spawn(name, host)
        self.world.soon(0.0, self._begin, process, program, process=process)

    def _begin(self, process: Process, program: Callable[[Host], Awaitable[int]]) -> None:
        async def run() -> None:
            try:
                status = await program(process.host)
                why = f"exit {status}"
            except MesosGpuError as error:
                why = str(error)
            except OSError as error:
                why = f"OSError: {error}"
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
                self.world.finding(f"{process.name} ends by a traceback: {traceback.format_exc()}")
            self.world.tell(process.name, f"ends by itself: {why}")
            for told in self.on_exit:
                told(process, why)
            # The disk may be well again by now.
            if not _may_end(why) and process.host.disk.refused_s < self.world.now_s - 60.0:
                self.world.finding(f"{process.name} ends by itself: {why}")
            self.world.kill(process, why=why)
            # Whoever starts services again waits longer where that is in vain.
            ill = process.host.disk.refuse is not None
            self.world.soon(self.world.random.uniform(2.0, 30.0) if ill else 1.0, self._restart, process.name)

        process.kept.append(asyncio.ensure_future(run()))

    def _restart(self, name: str) -> None:
        if self.supervised:
            self.start(name)

    def kill(self, name: str) -> None:
        """Kill a service; it is started again after a while."""
        process = self.world.processes.get(name)
        if process is not None:
            self.world.kill(process)
        self.world.soon(self.world.lasts_s(span(self.world.random, 0.2, 120.0)), self._restart, name)

    def kill_while_writing(self, name: str, most: int = 40) -> None:
        """Kill a service at one of its next writes to the disk, of so many at most."""
        process = self.world.processes.get(name)
        if process is None:
            return
        process.fatal_in = count_to(self.world.random, most)
        pause_s = self.world.lasts_s(span(self.world.random, 0.2, 60.0))
        process.at_end.append(lambda: self.world.soon(pause_s, self._restart, name))

    def kill_while_sending(self, name: str) -> None:
        """Kill a service before one of the next things that it sends."""
        process = self.world.processes.get(name)
        if process is None:
            return
        process.fatal_send = count_to(self.world.random, 60)
        pause_s = self.world.lasts_s(span(self.world.random, 0.2, 60.0))
        process.at_end.append(lambda: self.world.soon(pause_s, self._restart, name))

    def power_cut(self, name: str) -> None:
        """Cut the power of a service's host, and boot it after a while."""
        host = self.host_of(name)
        if host.down:
            return
        host.down = True
        self.world.network.changed()
        process = self.world.processes.get(name)
        if process is not None:
            self.world.kill(process, why="power cut", silent=True)
        if name in self.machines:
            self.machines[name].power_cut()
        host.disk.power_cut()
        self.world.soon(self.world.lasts_s(self.world.random.uniform(5.0, 200.0)), self._boot, name)

    def _boot(self, name: str) -> None:
        host = self.host_of(name)
        host.boots += 1
        host.down = False
        host.booted_s = self.world.now_s
        self.world.tell(name, "the host boots")
        if name in self.machines:
            self.machines[name].boot()
        self.world.network.changed()
        self.world.network.flush()
        self.start(name)

    # The programs.

    @property
    def _master_flag(self) -> str:
        """Return where the master is, as services are told it."""
        if self.zookeeper is None or self.shape.masters == 1:
            return f"{self.masters[0].ip}:{MASTER_PORT}"
        return f"zk://{self.zookeeper.host.ip}:{ZOOKEEPER_PORT}/mesos"

    async def _run_master(self, host: Host) -> int:
        among = {"zk": self._master_flag} if self.shape.masters > 1 else {}
        flags = _flags(
            MASTER, **among, ip=host.ip, port=MASTER_PORT, hostname=host.name, insecure="true",
            work_dir=host.disk.root / "master", check_invariants="true", agent_ping_timeout="15secs",
            max_agent_ping_timeouts=5,
        )  # fmt: skip
        return await master_service.run(flags, asyncio.Event())

    async def _run_marathon(self, host: Host) -> int:
        kept: dict[str, Any] = {"store_path": host.disk.root / "marathon.db"}
        if self.shape.marathons > 1 and self.zookeeper is not None:
            kept = {"zk": f"zk://{self.zookeeper.host.ip}:{ZOOKEEPER_PORT}/marathon"}
        flags = _flags(
            MARATHON, master=self._master_flag, http_address=host.ip, **kept,
            http_port=MARATHON_PORT, hostname=host.name, insecure="true", enable_features="gpu_resources",
            mesos_user="root", mesos_role="marathon", failover_timeout=int(self.world.pacing.pace.failover_s),
            usage_interval=0,  # an HTTP client asks, whose sockets are the real world's
        )  # fmt: skip
        marathon_configuration.checked(flags)
        return await marathon_service._serve(flags, None, asyncio.Event())

    async def _run_agent(self, host: Host) -> int:
        masters = self._master_flag
        if self.shape.listed:
            masters = ",".join(f"{master.ip}:{MASTER_PORT}" for master in self.masters)
        of_cards = {}
        if shared := self.machines[host.name].cards:
            of_cards = {"shared_gpus": ",".join(map(str, shared)), "gpu_retest_interval": "60secs"}
        flags = _flags(
            AGENT, ip=host.ip, port=AGENT_PORT, hostname=host.name, insecure="true", **of_cards,
            master=masters, work_dir=host.disk.root / "agent",
            runtime_dir=host.disk.volatile, resources="cpus:8;mem:8192;disk:10000", gpu_driver="simulated",
            simulated_gpus=self.gpus[host.name], switch_user="false", check_invariants="true",
        )  # fmt: skip
        return await agent_service.run(agent_service.with_switches(flags)[0], asyncio.Event())

    def _driver(self, host: Host) -> Driver:
        return Driver(self.machines[host.name], self.gpus[host.name])

    # What is the world's.

    def _install(self) -> None:
        world = self.world

        def listen(endpoint: Endpoint, front: Callable[[], Any]) -> None:
            listener = world.network.listen(endpoint.ip, endpoint.port, front)
            endpoint._plain.append(listener)  # type: ignore[arg-type]
            endpoint.port = listener.port

        def here() -> Process:
            process = PROCESS.get()
            if process is None:
                raise RuntimeError("this is a step of nobody")
            return process

        async def open_containers(configuration: Any, driver: Any, isolator: Any, images: Any) -> SimulatedContainers:
            return SimulatedContainers(self.machines[here().host.name], isolator)

        def no_lock(work_dir: Path) -> int:
            # A lock is the kernel's to let go of when a process dies; two runs of one service never overlap here.
            return os.open("/dev/null", os.O_RDONLY)

        def hold_until_death(path: Path) -> HeldLock | None:
            # Nothing waits: a process that was killed has released its locks at once.
            lock = hold(path, 0.0)
            process = PROCESS.get()
            if lock is not None and process is not None:
                process.at_end.append(lock.close)
            return lock

        async def probe(asked: Probe, namespace: int | None = None) -> Result:
            try:
                connecting = world.network.connect(asyncio.Protocol, asked.address, asked.port)
                near, _ = await asyncio.wait_for(connecting, asked.timeout_s)
            except asyncio.TimeoutError:
                return Result(error=f"port {asked.port} did not answer")
            except OSError:
                return Result(connected=False)
            near.close()
            return Result(connected=True)

        for owner, name, replacement in (
            (Endpoint, "_listen", listen),
            (probes, "connect", probe),
            (SimulatedLink, "on_status", lambda link, status: self.on_status(here().host.name, status)),
            (zookeeper, "KazooClient", Client),
            (marathon_service, "SqliteStore", Store),
            (marathon_service, "PymesosLink", SimulatedLink),
            (opening, "enter_private_mounts", lambda: None),
            (opening, "_open_containers", open_containers),
            (opening, "read_boot_id", lambda: here().host.boot_id),
            (machine_gpus, "open_driver", lambda *_, **__: self._driver(here().host)),
            (opening, "_lock", no_lock),
            (record_folder, "hold", hold_until_death),
            (Syncing, "begin_threads", lambda self: None),
            (opening, "open_cards", lambda *_: None),
            (care, "DriverThread", _Thread),
            *cards.replacements(lambda: self.machines[here().host.name], _Thread),
        ):
            if not hasattr(owner, name):
                raise RuntimeError(f"{owner} has no {name} any more: the simulator has to follow")
            setattr(owner, name, replacement)
        executors.install()
        for kind in (Front, links._Link, EventStream, bodies._Body):
            numbered(kind)
        root = logging.getLogger()
        root.handlers = [_LogOfWorld(world)]
        root.setLevel(logging.INFO)


def _may_end(why: str) -> bool:
    """Tell whether a service may give up for this: for ZooKeeper's sake, as another leads, or as its disk fails."""
    fails = any(os.strerror(number) in why for number in (errno.ENOSPC, errno.EROFS, errno.EIO))
    return fails or "ZooKeeper" in why or "another scheduler has taken over" in why or why in MAY_END


def _names(service: str, count: int) -> list[str]:
    return [service] if count == 1 else [f"{service}-{n}" for n in range(1, count + 1)]


def _flags(line: CommandLine[F], **given: Any) -> F:
    words = [f"--{name}={value}" for name, value in given.items()]
    return parse_flags(line, words, {}, read_file=lambda path: Path(path).read_text())[0]
