"""No container is frozen while it is ended, or something is begun in it: a command, a check, a session, a signal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from mesos_gpu.agent.gpus.turns import Turns
from mesos_gpu.agent.running.containers import Containers
from mesos_gpu.agent.running.shared_containers import SharedContainers
from mesos_gpu.container.spec.config import ContainerConfig
from mesos_gpu.isolator.plan import LaunchPlan
from mesos_gpu.mesos.ids import ContainerId

A = ContainerId("a")


class Scene:
    """Turns and a containerizer in one, which note what is done to a container that may be frozen."""

    def __init__(self) -> None:
        self.may_freeze = True
        self.frozen_at: list[str] = []
        self.done: list[str] = []

    @asynccontextmanager
    async def entered(self, container_id: ContainerId) -> AsyncIterator[None]:
        self.may_freeze = False
        yield
        self.may_freeze = True

    async def thaw(self, container_id: ContainerId) -> None:
        self.may_freeze = False

    async def add(self, container_ids: Any) -> None:
        """Everybody takes turns already."""

    async def remove(self, container_id: ContainerId) -> None:
        """It takes turns no more."""

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def call(*arguments: object) -> int:
            self.done.append(name)
            if self.may_freeze:
                self.frozen_at.append(name)
            return 0

        return call


class Config:
    """What is asked of it before it is handed on."""

    container_id, cdi_devices = A, ()


CALLS: dict[str, Callable[[SharedContainers], Coroutine[Any, Any, Any]]] = {
    "launch": lambda it: it.launch(cast(ContainerConfig, Config())),
    "kill": lambda it: it.kill(A, 3.0),
    "destroy": lambda it: it.destroy(A),
    "execute": lambda it: it.execute(A, cast(Any, None)),  # also how checks are run
    "enter": lambda it: it.enter(cast(Any, Config())),
    "send_signal": lambda it: it.send_signal(A, 10),
}


@pytest.mark.parametrize("name", CALLS)
async def test_it_is_thawed_before(name: str) -> None:
    scene = Scene()
    containers = SharedContainers(cast(Containers, scene), cast(Turns, scene), lambda devices: LaunchPlan())
    await CALLS[name](containers)
    assert (scene.done, scene.frozen_at) == ([name], [])
