"""Carries out what the state decided about containers, and reports back how it went, as events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Protocol

from mesos_gpu import stages
from mesos_gpu.agent.disk.sandbox import make_sandbox
from mesos_gpu.agent.fetch.fetcher import Fetcher, LocalFiles
from mesos_gpu.agent.model import actions as act
from mesos_gpu.agent.model import events as ev
from mesos_gpu.agent.model.events import Owner
from mesos_gpu.agent.model.fetch_uris import Item
from mesos_gpu.container.attached.switchboard import Attachment, Switchboard
from mesos_gpu.container.life.execution import Execution
from mesos_gpu.container.spec.config import ContainerConfig, Ready, SessionConfig, Size, Termination
from mesos_gpu.container.state.checkpoints import Record
from mesos_gpu.errors import ContainerError, MesosGpuError, NotEnoughGpus, NotFound
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.resource import Document

log = logging.getLogger(__name__)

LAUNCH_PATIENCE_S = 5.0
"""How long a stop waits for launches that are under way; one cut off would fail a task for nothing."""


PULL_WORD_EVERY_S = 3.0
"""How often a task's owner hears at most how far the pull of its image is."""


class PullReport:
    """Passes on what a pull says of itself, but not all of it."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._next_s = 0.0

    def __call__(self, text: str) -> None:
        """Take word of how far the pull is."""
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._next_s:
            self._next_s = now_s + PULL_WORD_EVERY_S
            self._say(text)


class Containers(Protocol):
    """What the agent asks of a containerizer; `mesos_gpu.container.Containerizer` is the real one."""

    async def recover(self, live: Collection[ContainerId]) -> None:
        """Re-attach to `live`, destroy every other container of ours."""

    async def launch(
        self, config: ContainerConfig, progress: Callable[[str], None] | None = None, ready: Ready | None = None
    ) -> int:
        """Start a container and return the pid of its init; after an error nothing of it is left.

        `progress` is told how far a pull of its image is. `ready` is waited for before anything in it runs; what it
        raises ends the launch.
        """

    def files(self, config: ContainerConfig) -> AbstractAsyncContextManager[LocalFiles]:
        """Return a context with what opens the host's files as a container that is launched next will.

        Raises NotFound for a parent that does not run, and on entering BadInput, ContainerError.
        """

    def expect(self) -> None:
        """A container will be launched in a moment: what can be waited for before it is known may begin."""

    async def wait(self, container_id: ContainerId) -> Termination:
        """Return how it ended, once what it held is free. Raises NotFound."""

    async def resize(self, container_id: ContainerId, size: Size) -> None:
        """Make a running container as large as this. Raises MesosGpuError; it then holds what it held, or more."""

    async def revoke_stale(self) -> None:
        """Deny containers the devices that belong to no GPU of theirs any more."""

    def pid_of(self, container_id: ContainerId) -> int | None:
        """Return the init of a running container, None when it does not run."""

    def network_infos(self, container_id: ContainerId) -> Sequence[Mapping[str, Any]]:
        """Return the NetworkInfos of those it joined, with its addresses; nothing for the host's."""

    def network_namespace(self, container_id: ContainerId) -> int | None:
        """Return a descriptor of its network namespace, None when that is the host's. Do not close it."""

    async def kill(self, container_id: ContainerId, grace_s: float) -> None:
        """Ask every process in it to end, and end them after the grace."""

    async def execute(self, container_id: ContainerId, execution: Execution) -> int:
        """Run one more command in it; return the exit status. Raises NotFound, ContainerError."""

    async def destroy(self, container_id: ContainerId) -> None:
        """End it at once; nothing happens when there is none."""

    def containers(self) -> Collection[ContainerId]:
        """Return the ids of those that run."""

    async def usage(self, container_id: ContainerId) -> dict[str, Any]:
        """Return its ResourceStatistics."""

    async def enter(self, config: SessionConfig) -> Attachment:
        """Run a command inside a running container; return what it says. Raises MesosGpuError."""

    async def send_signal(self, container_id: ContainerId, number: int, grace_s: float | None = None) -> None:
        """Send a signal; after SIGTERM processes can outlive the first by `grace_s`. Raises NotFound, BadInput."""

    def record(self, container_id: ContainerId) -> Record:
        """Return what is on record of one that runs. Raises NotFound."""

    def switchboard(self, container_id: ContainerId) -> Switchboard | None:
        """Return what input and output of one that runs go through, None for files. Raises NotFound."""

    async def close(self) -> None:
        """Stop watching; containers run on."""


class Devices(Protocol):
    """What is asked of the host of device plugins; `mesos_gpu.agent.devices.host.DeviceHost` is the real one."""

    on_change: Callable[[], None]
    """Called when `totals` may have changed."""

    @property
    def totals(self) -> Mapping[str, int]:
        """Return how many units of each resource may be offered."""

    @property
    def held(self) -> Mapping[ContainerId, Mapping[str, Iterable[str]]]:
        """Return the ids of the devices of each container, by resource."""

    @property
    def there(self) -> Mapping[str, Sequence[str]]:
        """Return the ids of all healthy devices, by resource."""

    def recover(self, live: Collection[ContainerId]) -> None:
        """Take up what `live` containers held before a restart; what others held is free."""

    async def start(self) -> None:
        """Let plugins register."""

    async def close(self) -> None:
        """Have nothing more to do with plugins; what is held stays held."""

    async def prepare(self, config: ContainerConfig) -> ContainerConfig:
        """Give a container the devices that it asks for. Raises NotEnoughGpus where others still have them."""

    def release(self, container: ContainerId) -> None:
        """Free what a container holds, once nothing of it is left."""


class Runner:
    """Runs launches, waits and kills side by side; each reports through `post`.

    `rebooted` says why containers of a former process are not there.
    """

    def __init__(
        self,
        containers: Containers,
        post: Callable[[ev.Event], None],
        fetcher: Fetcher | None = None,
        devices: Devices | None = None,
    ) -> None:
        self._containers, self._post, self._fetcher = containers, post, fetcher
        self._devices = devices
        self._fetches: dict[str, asyncio.Task[None]] = {}
        self.rebooted = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._launching: set[asyncio.Future[None]] = set()
        self._ending: set[str] = set()
        self._waiting: set[str] = set()
        self._unwanted: set[str] = set()
        self._changed = asyncio.Event()
        self._resizing: dict[str, asyncio.Lock] = {}
        self._gpus: dict[str, int] = {}
        """How many GPUs each container that may be resized was last to have."""
        self._shrinking: set[str] = set()

    def expect(self) -> None:
        """Tasks have come from the master, of which some will be launched."""
        stages.arrived()
        self._containers.expect()

    def launch(self, action: act.Launch, ready: Ready | None = None) -> None:
        """Make the sandbox and launch, once it is `ready` to run; then wait for the end."""
        self._start(self._launch(action, ready))

    def watch(self, action: act.Watch) -> None:
        """Wait for a container that a former process launched."""
        self._start(self._watch(action))

    def kill(self, action: act.Kill) -> None:
        """Ask a container to end."""
        self._start(self._kill(action))

    def resize(self, action: act.Resize) -> None:
        """Make a container larger or smaller; of one container, in the order asked for."""
        # The master hears of the end of a task before its GPUs are given back; who comes for them waits from now on.
        if action.size.gpus < self._gpus.get(action.container_id, 0):
            self._shrinking.add(action.container_id)
        self._gpus[action.container_id] = action.size.gpus
        self._start(self._resize(action))

    def forget(self, action: act.Forget) -> None:
        """Let the containerizer forget a container that ended."""
        self._start(self._containers.destroy(action.container_id))

    async def stop(self) -> None:
        """Let launches come to their end, then stop waiting; containers run on."""
        if self._launching:
            await asyncio.wait(self._launching, timeout=LAUNCH_PATIENCE_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a container's work failed", exc_info=task.exception())

    async def _launch(self, action: act.Launch, ready: Ready | None) -> None:
        stages.begin(action.config.container_id)
        launching: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._launching.add(launching)
        try:
            launched = await self._try(action, ready)
        finally:
            self._launching.discard(launching)
            launching.cancel()
        if launched:
            await self._wait(action.key, action.config.container_id)
        else:
            self._released(action.config.container_id)

    async def _try(self, action: act.Launch, ready: Ready | None) -> bool:
        """Launch and report; return whether there is a container now."""
        key, config = action.key, action.config
        try:
            # While things are fetched into it the sandbox is the agent's; the fetcher hands it over.
            make_sandbox(config.sandbox, None if action.fetch else config.user)
            stages.mark("sandbox made")
            if action.fetch:
                await self._fetch(config, action.fetch)
                stages.mark("fetched")
            report = PullReport(lambda text: self._post(ev.Pulling(key, text)))
            pid = await self._launch_when_free(config, report, ready)
        except MesosGpuError as error:
            self._post(ev.LaunchFailed(key, str(error)))
            return False
        except Exception as error:
            log.exception("launching %s of %s", config.container_id, key)
            await self._containers.destroy(config.container_id)
            self._post(ev.LaunchFailed(key, f"{type(error).__name__}: {error}"))
            return False
        self._gpus.setdefault(config.container_id, config.gpus)
        self._post(ev.Launched(key, pid, self._networks(config.container_id)))
        stages.mark("TASK_RUNNING sent")
        return True

    def _networks(self, container_id: ContainerId) -> tuple[Document, ...]:
        return tuple(dict(info) for info in self._containers.network_infos(container_id))

    async def _fetch(self, config: ContainerConfig, items: tuple[Item, ...]) -> None:
        """Fetch what the command asks for; `_kill` ends it."""
        if self._fetcher is None:
            raise ContainerError("this agent fetches nothing")
        local_files = partial(self._containers.files, config)
        fetch = self._fetcher.fetch(config.container_id, config.sandbox, items, config.user, local_files)
        work = self._fetches[config.container_id] = asyncio.ensure_future(fetch)
        try:
            await work
        except asyncio.CancelledError:
            if config.container_id in self._fetches:
                raise
            raise ContainerError("the task was ended while its URIs were fetched") from None
        finally:
            self._fetches.pop(config.container_id, None)

    async def _launch_when_free(
        self, config: ContainerConfig, progress: Callable[[str], None], ready: Ready | None
    ) -> int:
        """Launch; where GPUs are short, wait for containers that were asked to end and still hold theirs.

        The master counts the GPUs of a framework that was torn down as free at once, and offers them (MESOS-8038).
        """
        self._waiting.add(config.container_id)
        try:
            while True:
                try:
                    if self._devices is not None:
                        config = await self._devices.prepare(config)
                    return await self._containers.launch(config, progress, ready)
                except NotEnoughGpus:
                    if not (self._ending or self._shrinking) or config.container_id in self._unwanted:
                        raise
                    await self._changed.wait()
        finally:
            self._waiting.discard(config.container_id)
            self._unwanted.discard(config.container_id)

    def _released(self, container_id: ContainerId) -> None:
        if self._devices is not None:
            self._devices.release(container_id)
        self._ending.discard(container_id)
        self._gpus.pop(container_id, None)
        self._shrinking.discard(container_id)
        self._change()

    def _change(self) -> None:
        """Wake whoever waits for GPUs, to look again."""
        self._changed.set()
        self._changed.clear()

    async def _watch(self, action: act.Watch) -> None:
        if action.launching and action.container_id in self._containers.containers():
            self._post(ev.Launched(action.key, None, self._networks(action.container_id)))
        await self._wait(action.key, action.container_id)

    async def _wait(self, key: Owner, container_id: ContainerId) -> None:
        try:
            ending = await self._containers.wait(container_id)
        except NotFound:
            self._post(ev.Vanished(key, self.rebooted))
            return
        finally:
            self._released(container_id)
        self._post(ev.Ended(key, ending))
        stages.mark("end sent")
        stages.end()

    async def _resize(self, action: act.Resize) -> None:
        problem: str | None = None
        container_id = action.container_id
        async with self._resizing.setdefault(container_id, asyncio.Lock()):
            try:
                await self._resize_when_free(action)
            except NotFound:
                problem = "the container has ended"
            except MesosGpuError as error:
                problem = str(error)
                log.warning("resizing %s of %s: %s", container_id, action.key, error)
        self._shrinking.discard(container_id)
        if container_id not in self._containers.containers():
            self._resizing.pop(container_id, None)
        self._change()  # what it gave back, another may wait for
        self._post(ev.Resized(action.key, container_id, action.round, problem))

    async def _resize_when_free(self, action: act.Resize) -> None:
        while True:
            try:
                await self._containers.resize(action.container_id, action.size)
                return
            except NotEnoughGpus:
                if not self._ending and not self._shrinking - {action.container_id}:
                    raise
                await self._changed.wait()

    async def _kill(self, action: act.Kill) -> None:
        fetch = self._fetches.pop(action.container_id, None)
        if fetch is not None:
            fetch.cancel()
            return
        if action.container_id in self._waiting:
            self._unwanted.add(action.container_id)
            self._change()
        if action.container_id in self._containers.containers():
            self._ending.add(action.container_id)
        try:
            await self._containers.kill(action.container_id, action.grace_s)
        except NotFound:
            log.info("%s of %s ended before it could be killed", action.container_id, action.key)
        except MesosGpuError as error:
            log.warning("killing %s of %s: %s; destroying it", action.container_id, action.key, error)
            await self._containers.destroy(action.container_id)
