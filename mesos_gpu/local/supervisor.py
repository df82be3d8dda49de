"""The process that starts the services in order, keeps them running, and stops them in order."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import IO, Any

import msgspec

from mesos_gpu.base.file_locks import locked
from mesos_gpu.errors import Conflict, MesosGpuError, Unavailable
from mesos_gpu.gpu.drivers import open_driver
from mesos_gpu.local import plan
from mesos_gpu.local.control import Control, socket_path
from mesos_gpu.local.credentials import prepare_credentials
from mesos_gpu.local.ending import AGENT_STOP_S, KEEP_TASKS, LEFT_BEHIND_S, STOP_S, check_ended
from mesos_gpu.local.forking.forks import Forks, Preloading
from mesos_gpu.local.forking.ports import port_for
from mesos_gpu.local.forking.service import ServiceProcess
from mesos_gpu.local.growing import Pools, start_all
from mesos_gpu.local.layouts import open_layout, says_make
from mesos_gpu.local.members import marathon_of
from mesos_gpu.local.membership import Membership
from mesos_gpu.local.network import prepare_network, remove_network
from mesos_gpu.local.plan import GpuChoice, UpOptions
from mesos_gpu.local.pools import Layout, Seat
from mesos_gpu.local.record import Box, Records, Service, end_left_behind, left_behind, start_time, still_running
from mesos_gpu.process.access import LOOK_S

log = logging.getLogger(__name__)

PRIVATE = 0o700
"""The services' state and what they say is for whoever brought the box up: definitions of apps have passwords."""


class Supervisor:
    """One box. `run` returns when it has been stopped."""

    def __init__(
        self,
        options: UpOptions,
        preloading: Preloading | None = None,
        mark: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`preloading`: the process that services are to be forked from, where it is there already.

        `mark` is told of each stage of the start that is done.
        """
        self._mark = mark
        self._options = options
        self._forks = Forks(options.work_dir, preloading)
        self._runtime_dir = plan.runtime_dir(options.work_dir)
        self._records = Records(options.work_dir)
        self._services: list[ServiceProcess] = []
        self._lock: IO[bytes] | None = None
        self._gpus = GpuChoice("none")
        self._at = ""
        self._stopping = False
        self.layout = Layout()
        self._membership = (
            None if options.group is None else Membership(options.group, options.members, self._set_members)
        )
        enter = None if self._membership is None else self._let_in
        self._control = Control(options.work_dir, Pools(options.work_dir, self).answer, enter)

    async def run(self, ready: Callable[[Box, GpuChoice], None]) -> None:
        """Bring the box up, call `ready`, and keep it up until SIGTERM, SIGINT or KEEP_TASKS arrives.

        Raises Conflict when the box of this work_dir runs already, Unavailable when a service cannot start; then
        no service is left running, and tasks that an earlier box left behind run on for the next `up`. Raises
        Unavailable, too, when it was told to end the tasks and cannot say that they have ended.
        """
        stop, keep_tasks = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, stop.set)

        def stop_and_keep_tasks() -> None:
            keep_tasks.set()
            stop.set()

        loop.add_signal_handler(KEEP_TASKS, stop_and_keep_tasks)
        try:
            self._prepare()
            self._forks.begin()
            await self._be_up(ready, stop, keep_tasks)
        finally:
            await self._forks.close()
        if not keep_tasks.is_set():
            check_ended(self._options.work_dir)

    async def _be_up(
        self, ready: Callable[[Box, GpuChoice], None], stop: asyncio.Event, keep_tasks: asyncio.Event
    ) -> None:
        """Bring the box up and call `ready`; stop it when it is to be stopped, or does not come up."""
        loop = asyncio.get_running_loop()
        found, came_up = left_behind(self._runtime_dir), False
        starting = loop.create_task(self._start())
        try:
            await asyncio.wait(
                [starting, stopping := loop.create_task(stop.wait())], return_when=asyncio.FIRST_COMPLETED
            )
            if starting.done():
                ready(*starting.result())
                came_up = True
                await self._until(stopping)
            stopping.cancel()
        finally:
            starting.cancel()
            with suppress(asyncio.CancelledError, MesosGpuError):
                await starting
            # A box that could not come up has no say in what ran before it.
            failed = bool(found) and not came_up and not stop.is_set()
            await self._stop(keep_tasks=failed or keep_tasks.is_set())

    async def _until(self, stopping: asyncio.Task[Any]) -> None:
        """Follow who is in the group until the box is to stop."""
        following = None if self._membership is None else asyncio.ensure_future(self._membership.follow())
        try:
            await stopping
        finally:
            if following is not None:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)

    def _prepare(self) -> None:
        work_dir = self._options.work_dir
        try:
            work_dir.mkdir(parents=True, exist_ok=True)
            self._take(work_dir)
            for folder in (work_dir / "log", work_dir / "run", work_dir / "marathon", work_dir / "master"):
                folder.mkdir(mode=PRIVATE, exist_ok=True)
                folder.chmod(PRIVATE)  # one of a box of before, too
            if not self._options.open:
                prepare_credentials(work_dir, self._options.members)
            prepare_network(work_dir)
        except OSError as error:
            raise Unavailable(
                f"cannot use {work_dir} as work_dir: {error.strerror}; choose another --work_dir"
            ) from None
        self._records.remove()

    def _take(self, work_dir: Path) -> None:
        """Have the folder, before anything in it is changed, until this process dies, however it does.

        Raises Conflict, OSError.
        """
        lock = locked(work_dir / "lock")
        if lock is None:
            box = self._records.read()
            where = "" if box is None else f": master {box.master.url}, Marathon {box.marathon.url}"
            raise Conflict(
                f"a box is already running in {work_dir}{where}; "
                "`mesos-gpu down` stops it, and another --work_dir makes a second one"
            )
        self._lock = os.fdopen(lock, "wb")

    async def _start(self) -> tuple[Box, GpuChoice]:
        self._gpus = gpus = choose_gpus(self._options)
        self.layout = open_layout(self._options, gpus)
        self._mark("prepared")
        master = await self._service(plan.master_spec(self._options)).start()
        self._mark("master ready")
        self._at = f"--master={master.url.removeprefix('http://')}"
        agents = [self._service(spec) for spec in plan.agent_specs(self._options, gpus, self.layout)]
        marathon = self._service(plan.marathon_spec(self._options))
        # Those whose apps are to come back; others get theirs when they ask.
        back = [name for name in self._options.members if plan.store_of(self._options.work_dir, name).exists()]
        theirs = [self._members_marathon(name) for name in back]
        await _all(self._started(service) for service in (*agents, marathon, *theirs))
        await self._control.open()
        return self._note(), gpus

    async def _started(self, service: ServiceProcess) -> Service:
        found = await service.start(self._at)
        self._mark(f"{service.spec.name} ready")
        return found

    async def start_agents(self, layout: Layout, seats: Sequence[Seat]) -> None:
        """Start more agents and note them. Raises Unavailable when one does not start; then none of them runs."""
        if self._stopping:
            raise Unavailable("the box is being stopped")
        new = [self._service(plan.agent_spec(self._options, self._gpus, layout, seat)) for seat in seats]
        try:
            await start_all([service.start(self._at) for service in new])
        except BaseException:
            await self.end_agents([service.spec.name for service in new])
            raise
        self._note()

    async def end_agents(self, names: Sequence[str]) -> None:
        """End agents and their tasks, and forget them."""
        gone = [service for service in self._services if service.spec.name in names]
        await asyncio.gather(*(service.stop(signal.SIGUSR1, AGENT_STOP_S) for service in gone))
        self._services = [service for service in self._services if service not in gone]
        self._note()

    def shown(self) -> Mapping[str, Mapping[str, Any]]:
        """Return url and number of GPUs of each agent by name."""
        return {agent.name: {"url": agent.url, "gpus": agent.gpus} for agent in self._box().agents}

    async def _let_in(self, uid: int) -> Mapping[str, Any]:
        """Return where the Marathon of a member is, which is started if need be. Raises Unavailable for others."""
        name = self._member(uid)
        if name is None and self._membership is not None:
            await self._membership.look()  # he may have become one a moment ago
            name = self._member(uid)
        if name is None or self._stopping:
            raise Unavailable(f"this box lets in the members of the group {self._options.group} alone")
        known = next((one for one in self._services if one.spec.name == marathon_of(name)), None)
        if known is None:
            known = self._members_marathon(name)
            try:
                await known.start(self._at)
            except BaseException:
                self._services.remove(known)
                raise
            self._note()
        return {"marathon": "" if known.service is None else known.service.url}

    def _member(self, uid: int) -> str | None:
        return next((name for name, number in self._options.members.items() if number == uid), None)

    async def _set_members(self, members: Mapping[str, int]) -> None:
        """Let these in and nobody else, from now on: their ways in, the lists, and the Marathons of who is gone."""
        work_dir, before = self._options.work_dir, self._options.members
        await asyncio.to_thread(prepare_credentials, work_dir, members)
        self._options = replace(self._options, members=members)
        gone = {marathon_of(name) for name, uid in before.items() if members.get(name) != uid}
        leaving = [service for service in self._services if service.spec.name in gone]
        self._services = [service for service in self._services if service not in leaving]
        await asyncio.gather(*(service.stop(signal.SIGTERM, STOP_S) for service in leaving))
        if members.keys() - before.keys():
            await asyncio.sleep(2 * LOOK_S)  # until master and agents have read who they are
        self._note()

    def _members_marathon(self, name: str) -> ServiceProcess:
        folder = plan.store_of(self._options.work_dir, name).parent
        folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        return self._service(plan.member_spec(self._options, name))

    def _note(self) -> Box:
        box = self._box()
        self._records.write(box)
        self._records.write_ports(box)
        return box

    def _service(self, spec: plan.ServiceSpec) -> ServiceProcess:
        work_dir = self._options.work_dir
        if spec.port == 0:
            others = {service.spec.port for service in self._services}
            spec = replace(spec, port=port_for(self._records.ports().get(spec.name, 0), others))
        log_file = work_dir / "log" / f"{spec.name}.log"
        service = ServiceProcess(
            spec, self._forks, work_dir / "run", log_file, lambda: self._records.write(self._box())
        )
        self._services.append(service)
        return service

    def _box(self) -> Box:
        known = {s.spec.name: s.service for s in self._services if s.service is not None}
        agents = [
            msgspec.structs.replace(known[seat.name], name=seat.name, pool=seat.pool)
            for seat in self.layout.seats
            if seat.name in known
        ]
        master, marathon = known["master"], known["marathon"]
        members = [
            msgspec.structs.replace(known[name], name=name)
            for name in map(marathon_of, self._options.members)
            if name in known
        ]
        return Box(
            os.getpid(),
            start_time(os.getpid()),
            master,
            agents,
            marathon,
            self._options.open,
            members,
            str(socket_path(self._options.work_dir)),
        )

    async def _stop(self, *, keep_tasks: bool) -> None:
        """Stop the scheduler first, so that it does not replace the tasks that then end with the agents."""
        self._stopping = True
        await self._control.close()
        if not self._services:
            return
        master, *agents = [s for s in self._services if not s.spec.name.startswith("marathon")]
        marathons = [s for s in self._services if s.spec.name.startswith("marathon")]
        await asyncio.gather(*(marathon.stop(signal.SIGTERM, STOP_S) for marathon in marathons))
        end_agent = signal.SIGTERM if keep_tasks else signal.SIGUSR1
        await asyncio.gather(*(agent.stop(end_agent, AGENT_STOP_S) for agent in agents))
        await master.stop(signal.SIGTERM, STOP_S)
        if not keep_tasks:
            await self._end_left_behind()
        try:
            self._records.remove()
        except Unavailable as error:
            log.warning("cannot remove the note of the box, which says processes that are gone: %s", error)
        # The next agent needs the records of containers that may still run, or it gives their GPUs out again.
        if not keep_tasks and not left_behind(self._runtime_dir):
            remove_network(self._options.work_dir)
            _remove_runtime_dir(self._runtime_dir)

    async def _end_left_behind(self) -> None:
        """End the containers of agents that are gone, or could not end them."""
        end_left_behind(self._runtime_dir)
        end = monotonic() + LEFT_BEHIND_S
        while still_running(self._runtime_dir) and monotonic() < end:  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.02)


def choose_gpus(options: UpOptions) -> GpuChoice:
    """Return where the GPUs come from: what was asked for, else NVML where a driver answers, else simulated ones."""
    asked = options.gpu_driver
    if options.enable_gpu_isolation is False:
        return GpuChoice("none")
    if asked in ("simulated", "none"):
        return GpuChoice(asked)
    if asked is None and says_make(options):
        return GpuChoice("simulated")
    if asked is None:
        # That there is no driver is said once, beside the simulated GPUs; a machine without one is an ordinary case.
        logging.getLogger("mesos_gpu.gpu").setLevel(logging.ERROR)
    driver = open_driver("nvml" if asked == "nvml" else "auto")
    found = tuple(gpu.index for gpu in driver.gpus())
    if driver.kind == "nvml" and (found or asked == "nvml"):
        return GpuChoice("nvml", found)
    return GpuChoice("simulated", chosen_because="no NVIDIA driver answers on this machine")


async def _all(starts: Iterable[Coroutine[None, None, Service]]) -> None:
    """Wait for all; when one fails, give the others up before its error is raised, so that none ends up running."""
    tasks = [asyncio.ensure_future(start) for start in starts]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _remove_runtime_dir(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    # The parent is shared by all boxes of this machine; the last one takes it away.
    with suppress(OSError):
        folder.parent.rmdir()
