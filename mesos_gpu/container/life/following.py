"""A container followed to its end: waited for, judged, everything that it held freed, and remembered for a while."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from mesos_gpu import stages
from mesos_gpu.container.attached.sessions import Child
from mesos_gpu.container.cgroups import Cgroups
from mesos_gpu.container.life.bounds import Bounds
from mesos_gpu.container.life.killing import Killer
from mesos_gpu.container.life.output import see_out
from mesos_gpu.container.life.provisioner import Provisioner
from mesos_gpu.container.life.release import Releaser
from mesos_gpu.container.life.remapping import Remapping
from mesos_gpu.container.network.networks import Networks
from mesos_gpu.container.spec.config import Termination
from mesos_gpu.container.spec.isolation import Isolator
from mesos_gpu.container.spec.nesting import descendants
from mesos_gpu.container.state.checkpoints import ContainerRecords
from mesos_gpu.container.state.endings import judge
from mesos_gpu.container.state.live import LiveContainer
from mesos_gpu.container.supervisor.conmon import Conmon
from mesos_gpu.errors import MesosGpuError
from mesos_gpu.mesos.ids import ContainerId

_T = TypeVar("_T")

FIRST_RETRY_S, LAST_RETRY_S = 0.05, 2.0
REMEMBERED = 1000
"""How many ended containers are kept for `wait`, at most, when nobody calls `destroy` for them."""

log = logging.getLogger(__name__)


class Follower:
    """Follows the `containers` of a containerizer to their end; it takes them out, and puts them into `ended`."""

    def __init__(
        self,
        *,
        containers: dict[ContainerId, LiveContainer],
        ended: dict[ContainerId, Termination],
        conmon: Conmon,
        cgroups: Cgroups,
        isolator: Isolator,
        checkpoints: ContainerRecords,
        bundles: Path,
        releaser: Releaser,
        killer: Killer,
        bounds: Bounds,
        networks: Networks,
        provisioner: Provisioner | None,
        remapping: Remapping,
    ) -> None:
        self._remapping = remapping
        self._containers, self._ended = containers, ended
        self._conmon, self._cgroups, self._isolator = conmon, cgroups, isolator
        self._checkpoints, self._bundles, self._provisioner = checkpoints, bundles, provisioner
        self._releaser, self._killer, self._bounds, self._networks = releaser, killer, bounds, networks
        self._giving: set[asyncio.Task[None]] = set()
        """Who gives back what some that have ended held, when the disk takes it again."""

    def follow(self, container: LiveContainer) -> None:
        """Watch a container that runs, to its end."""
        self._bounds.watch(container)
        container.watcher = asyncio.create_task(self._watch(container))
        container.started.set()

    def close(self) -> None:
        """Give back nothing more; the next process does."""
        for giving in self._giving:
            giving.cancel()

    async def undo(self, container: LiveContainer) -> None:
        """Take away what a launch that failed has left. Raises MesosGpuError, OSError."""
        container_id = container.record.container_id
        try:
            try:
                await _insist(container_id, lambda: self._releaser.release_strays([container_id]))
            except BaseException:  # some process of it may be left, and must not be another container's
                self._remapping.withhold(container.record)
                raise
            await _insist(container_id, lambda: self._networks.cleanup(container_id))
            self._give_back(container_id)
            self._checkpoints.forget(container_id)
        finally:
            self._drop(container)

    async def destroy(self, container_id: ContainerId) -> None:
        """End the container now and forget it; returns when nothing of it is left. Unknown containers are fine."""
        container = self._containers.get(container_id)
        if container is not None:
            container.doomed = True
            container.give_up_pull()
            await container.started.wait()
            self._killer.kill_now(container)
            await container.ended.wait()
        self._forget(container_id)

    def stop_timers(self, container: LiveContainer) -> None:
        """Let go of what would act on a container later."""
        for timer in (container.term_timer, container.kill_timer):
            if timer is not None:
                timer.cancel()
        if container.hold is not None:
            container.hold.cancel()
        self._bounds.leave(container)

    async def _watch(self, container: LiveContainer) -> None:
        container_id = container.record.container_id
        termination = await _insist(container_id, lambda: self._see_end(container))
        self.stop_timers(container)
        container.record = msgspec.structs.replace(container.record, step="ended", termination=termination)
        try:
            self._checkpoints.save(container.record)
        except OSError as error:  # still a container that ended; only a crash right now would forget how
            log.error("cannot record the end of container %s: %s", container_id, error)
        stages.mark("end on record")
        await _insist(container_id, lambda: self._releaser.release(container_id, container.conmon))
        stages.mark("released")
        await _insist(container_id, lambda: self._networks.cleanup(container_id))
        try:
            self._give_back(container_id)
        except (MesosGpuError, OSError) as error:  # its GPUs and image stay held, which is the safe side
            log.error("cannot give back what container %s held, will try again: %s", container_id, error)
            giving = asyncio.create_task(_insist(container_id, lambda: self._give_back_late(container_id)))
            self._giving.add(giving)
            giving.add_done_callback(self._giving.discard)
        stages.mark("GPUs free")
        if container.board is not None:
            container.board.wind_up()
        for child_id in descendants(container_id, self._ended):
            self._forget(child_id)
        self._ended[container_id] = container.termination = termination
        self._drop(container)
        while len(self._ended) > REMEMBERED:
            self._forget(next(iter(self._ended)))

    async def _see_end(self, container: LiveContainer) -> Termination:
        """Wait for the end of a container and all in it, and return how it ended. May be done again."""
        container_id = container.record.container_id
        if container.record.session and container.record.pid and not self._conmon.runtime.leaves_cgroup:
            # runc relays output to its very end, which a process left behind may put off forever.
            if container.first is not None:
                await container.first.wait()
            await self._killer.others_ended(container)
            self._cgroups.kill(container_id)
        if container.init is not None:
            await container.init.wait()
        if container.record.session:
            await self._killer.others_ended(container)
        stages.mark("ended")
        if isinstance(container.init, Child):
            status = container.init.exit_status
            if status != 0:
                self._explain(container)
        else:
            status = await self._conmon.exit_status(container_id, container.conmon)
        stages.mark("status known")
        container.ending = True
        if container.holder is not None:
            await see_out(container.holder)
        if container.rotator is not None:
            await see_out(container.rotator)
        for child_id in descendants(container_id, self._containers):
            await self.destroy(child_id)
        return judge(container, status, self._cgroups)

    def _give_back(self, container_id: ContainerId) -> None:
        """Free what a container held that has no process any more. Raises MesosGpuError, OSError."""
        try:
            if self._provisioner is not None:
                self._provisioner.release(container_id)
        finally:
            self._isolator.cleanup(container_id)

    async def _give_back_late(self, container_id: ContainerId) -> None:
        await asyncio.sleep(LAST_RETRY_S)
        self._give_back(container_id)

    def _explain(self, container: LiveContainer) -> None:
        """Tell who is attached to a session why it could not begin."""
        words = self._conmon.runtime.complaint(self._bundles / container.record.container_id)
        if words is not None and container.board is not None:
            container.board.say("STDERR", f"{words}\n".encode())

    def _drop(self, container: LiveContainer) -> None:
        """Let go of a container in this process and wake who waits for it."""
        if container.board is not None and container.termination is None:
            container.board.close()
        container.close()
        self._containers.pop(container.record.container_id, None)
        container.started.set()
        container.ended.set()

    def _forget(self, container_id: ContainerId) -> None:
        if self._ended.pop(container_id, None) is not None:
            self._checkpoints.forget(container_id)


async def _insist(container_id: ContainerId, work: Callable[[], Awaitable[_T]]) -> _T:
    """Do a part of a container's end until it is done, and return what it returns.

    What it wants for (a descriptor, memory, a thread) comes back; an end that nobody follows any more never comes.
    """
    delay = FIRST_RETRY_S
    while True:
        try:
            return await work()
        except (MesosGpuError, OSError, MemoryError, RuntimeError) as error:
            log.warning(
                "container %s: its end waits, will try again: %s: %s", container_id, type(error).__name__, error
            )
            await asyncio.sleep(delay)
            delay = min(2 * delay, LAST_RETRY_S)
