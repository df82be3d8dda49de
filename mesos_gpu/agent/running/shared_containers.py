"""Containers of which some take turns on shared GPUs; none is frozen while something is done to it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from msgspec.structs import replace

from mesos_gpu.agent.fetch.fetcher import LocalFiles
from mesos_gpu.agent.gpus.turns import Turns
from mesos_gpu.agent.running.containers import Containers
from mesos_gpu.container.attached.switchboard import Attachment, Switchboard
from mesos_gpu.container.life.execution import Execution
from mesos_gpu.container.spec.config import ContainerConfig, Ready, SessionConfig, Size, Termination
from mesos_gpu.container.state.checkpoints import Record
from mesos_gpu.isolator.plan import LaunchPlan
from mesos_gpu.mesos.ids import ContainerId


class SharedContainers:
    """A containerizer, and the turns that its containers take; `cdi` says what CDI devices make of a container."""

    def __init__(self, containers: Containers, turns: Turns, cdi: Callable[[Sequence[str]], LaunchPlan]) -> None:
        self._containers, self._turns, self._cdi = containers, turns, cdi

    async def recover(self, live: Collection[ContainerId]) -> None:
        """Re-attach to `live`, which then take turns again."""
        await self._containers.recover(live)
        await self._turns.add(self._containers.containers())

    async def launch(
        self, config: ContainerConfig, progress: Callable[[str], None] | None = None, ready: Ready | None = None
    ) -> int:
        """Start a container; one with a share takes turns from now on.

        Raises BadInput for a CDI device that there is not, besides what the containerizer raises.
        """
        if config.cdi_devices:
            plan, answered = self._cdi(config.cdi_devices), config.device_plan
            config = replace(config, device_plan=plan if answered is None else plan.joined(answered))
        async with self._turns.entered(config.container_id):
            pid = await self._containers.launch(config, progress, ready)
        await self._turns.add([config.container_id])
        return pid

    def files(self, config: ContainerConfig) -> AbstractAsyncContextManager[LocalFiles]:
        """Return a context with what opens the host's files as a container that is launched next will."""
        return self._containers.files(config)

    def expect(self) -> None:
        """A container will be launched in a moment."""
        self._containers.expect()

    async def wait(self, container_id: ContainerId) -> Termination:
        """Return how it ended."""
        try:
            return await self._containers.wait(container_id)
        finally:
            if container_id not in self._containers.containers():
                await self._turns.remove(container_id)

    async def resize(self, container_id: ContainerId, size: Size) -> None:
        """Make a running container as large as this."""
        await self._containers.resize(container_id, size)

    async def revoke_stale(self) -> None:
        """Deny containers the devices that belong to no GPU of theirs any more."""
        await self._containers.revoke_stale()

    def pid_of(self, container_id: ContainerId) -> int | None:
        """Return its init."""
        return self._containers.pid_of(container_id)

    def network_infos(self, container_id: ContainerId) -> Sequence[Mapping[str, Any]]:
        """Return the NetworkInfos of those it joined."""
        return self._containers.network_infos(container_id)

    def network_namespace(self, container_id: ContainerId) -> int | None:
        """Return a descriptor of its network namespace."""
        return self._containers.network_namespace(container_id)

    async def kill(self, container_id: ContainerId, grace_s: float) -> None:
        """Ask every process in it to end; it is frozen no more."""
        await self._turns.thaw(container_id)
        await self._containers.kill(container_id, grace_s)

    async def execute(self, container_id: ContainerId, execution: Execution) -> int:
        """Run one more command in it, which begins at once."""
        async with self._turns.entered(container_id):
            return await self._containers.execute(container_id, execution)

    async def destroy(self, container_id: ContainerId) -> None:
        """End it at once."""
        await self._turns.thaw(container_id)
        await self._containers.destroy(container_id)
        await self._turns.remove(container_id)

    def containers(self) -> Collection[ContainerId]:
        """Return the ids of those that run."""
        return self._containers.containers()

    async def usage(self, container_id: ContainerId) -> dict[str, Any]:
        """Return its ResourceStatistics."""
        return await self._containers.usage(container_id)

    async def enter(self, config: SessionConfig) -> Attachment:
        """Run a command inside a running container, which begins at once."""
        async with self._turns.entered(config.container_id):
            return await self._containers.enter(config)

    async def send_signal(self, container_id: ContainerId, number: int, grace_s: float | None = None) -> None:
        """Send a signal, which arrives at once."""
        async with self._turns.entered(container_id):
            await self._containers.send_signal(container_id, number, grace_s)

    def record(self, container_id: ContainerId) -> Record:
        """Return what is on record of one that runs."""
        return self._containers.record(container_id)

    def switchboard(self, container_id: ContainerId) -> Switchboard | None:
        """Return what input and output of one that runs go through."""
        return self._containers.switchboard(container_id)

    async def close(self) -> None:
        """Stop watching; containers run on, and nobody is frozen."""
        await self._turns.close()
        await self._containers.close()
