"""A containerizer without containers: tests end them, and it keeps the promises of the real one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec.structs

from mesos_gpu.container.attached.switchboard import Attachment, Switchboard
from mesos_gpu.container.life.execution import Execution
from mesos_gpu.container.spec.config import ContainerConfig, Ready, SessionConfig, Size, Termination, check_config
from mesos_gpu.container.state.checkpoints import Record
from mesos_gpu.errors import Conflict, MesosGpuError, NotEnoughGpus, NotFound
from tests.fakes.local_files import OwnFiles, own_files


class FakeContainerizer:
    """`running` and `ended` outlive one agent: give the same dicts to the next fake to play a restart."""

    def __init__(
        self,
        *,
        gpus: int = 0,
        running: dict[str, ContainerConfig | None] | None = None,
        ended: dict[str, Termination] | None = None,
    ) -> None:
        self.gpus = gpus
        self.running: dict[str, ContainerConfig | None] = {} if running is None else running
        self.ended: dict[str, Termination] = {} if ended is None else ended
        self.launched: list[ContainerConfig] = []
        self.kills: list[tuple[str, float]] = []
        self.resized: list[tuple[str, Size]] = []
        self.recovered: frozenset[str] | None = None
        self.fail_with: MesosGpuError | None = None
        self.launches_go_on = asyncio.Event()
        self.launches_go_on.set()
        self.resizes_go_on = asyncio.Event()
        self.resizes_go_on.set()
        self.obeys = True
        self.executed: list[Execution] = []
        self.exit_codes: list[int] = []
        self.pull_says: Sequence[str] = ()
        self.networks: dict[str, Sequence[Mapping[str, Any]]] = {}
        self._waiting: dict[str, asyncio.Event] = {}

    async def recover(self, live: Collection[str]) -> None:
        self.recovered = frozenset(live)
        for container_id in set(self.running) - self.recovered:
            del self.running[container_id]

    async def launch(
        self, config: ContainerConfig, progress: Callable[[str], None] | None = None, ready: Ready | None = None
    ) -> int:
        check_config(config)
        for text in self.pull_says if progress is not None else ():
            progress(text)
        if config.container_id in self.running:
            raise Conflict(config.container_id)
        held = sum(c.gpus for c in self.running.values() if c is not None)
        if held + config.gpus > self.gpus:
            raise NotEnoughGpus(asked=config.gpus, free=self.gpus - held)
        self.launched.append(config)
        await self.launches_go_on.wait()
        if ready is not None:
            await ready()
        if self.fail_with is not None:
            raise self.fail_with
        self.running[config.container_id] = config
        return 4711

    async def wait(self, container_id: str) -> Termination:
        if container_id not in self.ended:
            if container_id not in self.running:
                raise NotFound(container_id)
            await self._waiting.setdefault(container_id, asyncio.Event()).wait()
        return self.ended[container_id]

    async def resize(self, container_id: str, size: Size) -> None:
        await self.resizes_go_on.wait()
        config = self.running.get(container_id)
        if config is None:
            raise NotFound(container_id)
        held = sum(c.gpus for c in self.running.values() if c is not None and c is not config)
        if held + size.gpus > self.gpus:
            raise NotEnoughGpus(asked=size.gpus - config.gpus, free=self.gpus - held - config.gpus)
        self.running[container_id] = msgspec.structs.replace(
            config, cpus_milli=size.cpus_milli, mem_bytes=size.mem_bytes, gpus=size.gpus
        )
        self.resized.append((container_id, size))

    def files(self, config: ContainerConfig) -> AbstractAsyncContextManager[OwnFiles]:
        return own_files()

    async def revoke_stale(self) -> None:
        pass

    def pid_of(self, container_id: str) -> int | None:
        return 4711 if container_id in self.running else None

    def expect(self) -> None:
        pass

    def network_infos(self, container_id: str) -> Sequence[Mapping[str, Any]]:
        return self.networks.get(container_id, ())

    def network_namespace(self, container_id: str) -> int | None:
        return None

    async def kill(self, container_id: str, grace_s: float) -> None:
        if container_id not in self.running and container_id not in self.ended:
            raise NotFound(container_id)
        self.kills.append((container_id, grace_s))
        if self.obeys and container_id in self.running:
            self.end(container_id, Termination(signal=15 if grace_s else 9))

    async def execute(self, container_id: str, execution: Execution) -> int:
        if container_id not in self.running:
            raise NotFound(container_id)
        self.executed.append(execution)
        return self.exit_codes.pop(0) if self.exit_codes else 0

    async def destroy(self, container_id: str) -> None:
        if container_id in self.running:
            self.end(container_id, Termination(signal=9))
        self.ended.pop(container_id, None)

    def containers(self) -> Collection[str]:
        return frozenset(self.running)

    async def usage(self, container_id: str) -> dict[str, Any]:
        if container_id not in self.running:
            raise NotFound(container_id)
        return {"timestamp": 1.0, "mem_limit_bytes": 64 << 20}

    async def enter(self, config: SessionConfig) -> Attachment:
        raise NotFound(config.container_id)

    async def send_signal(self, container_id: str, number: int, grace_s: float | None = None) -> None:
        if container_id not in self.running:
            raise NotFound(container_id)
        self.end(container_id, Termination(signal=number))

    def record(self, container_id: str) -> Record:
        if container_id not in self.running:
            raise NotFound(container_id)
        config = self.running[container_id]
        sandbox = "" if config is None else str(config.sandbox)
        return Record(container_id=container_id, step="running", boot_id="", sandbox=sandbox, pid=4711)

    def switchboard(self, container_id: str) -> Switchboard | None:
        self.record(container_id)
        return None

    async def close(self) -> None:
        pass

    def end(self, container_id: str, termination: Termination) -> None:
        """End a container, as a process that exits."""
        del self.running[container_id]
        self.ended[container_id] = termination
        self._waiting.setdefault(container_id, asyncio.Event()).set()
