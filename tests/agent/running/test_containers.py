"""What carries out launches and kills: GPUs that are about to be free are waited for."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from mesos_gpu.agent.gpus.turns import Turns
from mesos_gpu.agent.model import actions as act
from mesos_gpu.agent.model import events as ev
from mesos_gpu.agent.model.executors import ExecutorKey
from mesos_gpu.agent.model.updates import TaskKey
from mesos_gpu.agent.running.containers import Containers, Runner
from mesos_gpu.agent.running.default_executor import PROGRAM, default_executor
from mesos_gpu.agent.running.shared_containers import SharedContainers
from mesos_gpu.container.spec.config import ContainerConfig, Size, Termination
from mesos_gpu.isolator.plan import LaunchPlan
from mesos_gpu.mesos.ids import ContainerId
from tests.fakes.containerizer import FakeContainerizer
from tests.support.folders import open_folder
from tests.support.golden import Golden


class Stage:
    """A runner over a containerizer with one GPU, and what it reports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.containers = FakeContainerizer(gpus=1)
        self.containers.obeys = False
        self.events: asyncio.Queue[ev.Event] = asyncio.Queue()
        self.runner = Runner(self.containers, self.events.put_nowait)

    def launch(self, name: str) -> None:
        config = ContainerConfig(name, self.folder / name, ("true",), {}, None, 0, 1, 1)
        self.runner.launch(act.Launch(TaskKey("framework", name), config))

    def kill(self, name: str) -> None:
        self.runner.kill(act.Kill(TaskKey("framework", name), name, 3.0))

    async def asked_to_end(self) -> None:
        while not self.containers.kills:  # noqa: ASYNC110 - the fake tells nobody
            await asyncio.sleep(0)

    async def next(self) -> ev.Event:
        return await self.events.get()


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


async def test_a_launch_waits_for_the_gpu_of_a_container_that_was_asked_to_end(stage: Stage) -> None:
    stage.launch("old")
    assert isinstance(await stage.next(), ev.Launched)
    stage.kill("old")
    stage.launch("new")
    await stage.asked_to_end()
    assert stage.events.empty(), "it neither failed nor ran yet"
    stage.containers.end("old", Termination(signal=15))
    seen = {type(await stage.next()) for _ in range(2)}
    assert seen == {ev.Ended, ev.Launched}
    assert list(stage.containers.running) == ["new"]
    await stage.runner.stop()


async def test_a_launch_fails_at_once_when_no_gpu_is_about_to_be_free(stage: Stage, golden: Golden) -> None:
    stage.launch("old")
    assert isinstance(await stage.next(), ev.Launched)
    stage.launch("new")
    failed = await stage.next()
    assert isinstance(failed, ev.LaunchFailed)
    assert str(failed) == golden
    await stage.runner.stop()


async def test_a_launch_waits_for_the_gpu_that_an_executor_gives_back(stage: Stage) -> None:
    stage.launch("executor")
    assert isinstance(await stage.next(), ev.Launched)
    stage.containers.resizes_go_on.clear()
    stage.runner.resize(act.Resize(ExecutorKey("framework", "executor"), "executor", Size(100, 1, 0), round=1))
    stage.launch("new")
    while not stage.runner._waiting:  # noqa: ASYNC110 - nobody tells of it
        await asyncio.sleep(0)
    stage.containers.resizes_go_on.set()
    assert {type(await stage.next()) for _ in range(2)} == {ev.Resized, ev.Launched}
    await stage.runner.stop()


async def test_a_container_that_cannot_grow_is_told_in_words(stage: Stage, golden: Golden) -> None:
    stage.launch("executor")
    assert isinstance(await stage.next(), ev.Launched)
    stage.runner.resize(act.Resize(ExecutorKey("framework", "executor"), "executor", Size(100, 1, 3), round=1))
    resized = await stage.next()
    assert isinstance(resized, ev.Resized)
    assert resized.problem == golden
    stage.runner.resize(act.Resize(ExecutorKey("framework", "gone"), "gone", Size(100, 1, 3), round=1))
    assert await stage.next() == ev.Resized(ExecutorKey("framework", "gone"), "gone", 1, golden)
    await stage.runner.stop()


async def test_a_launch_that_waits_can_be_killed(stage: Stage) -> None:
    stage.launch("old")
    assert isinstance(await stage.next(), ev.Launched)
    stage.kill("old")
    stage.launch("new")
    await stage.asked_to_end()
    stage.kill("new")
    assert isinstance(await stage.next(), ev.LaunchFailed)
    assert list(stage.containers.running) == ["old"]
    await stage.runner.stop()


def test_it_is_our_own_unless_containers_users_cannot_get_to_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As for a Python below root's home; folders of pytest are closed alike."""
    closed = tmp_path / "python3"
    closed.touch()
    with open_folder() as place:
        link = place / "python3"
        link.symlink_to(closed)
        (open_to_all := place / "python").touch()
        asked = [str(closed), None, str(link), str(open_to_all)]
        assert default_executor(remapped=False, pythons=asked) == (sys.executable, "-S", str(PROGRAM))
        assert default_executor(remapped=True, pythons=asked) == (str(open_to_all), "-S", str(PROGRAM))
        assert not caplog.text
        assert default_executor(remapped=True, pythons=asked[:3]) == (sys.executable, "-S", str(PROGRAM))
    (warning,) = caplog.messages
    assert str(closed) in warning
    assert PROGRAM.is_file()


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
