"""What frameworks hear of suspensions that they asked for, also when they ask again while the agent is at work."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from mesos_gpu.agent.gpus.suspender import Suspender
from mesos_gpu.agent.loop.suspending import Suspending
from mesos_gpu.agent.model import events as ev
from mesos_gpu.agent.model.executors import ExecutorKey
from mesos_gpu.agent.model.tasks import Phase, Task
from mesos_gpu.agent.model.updates import TaskKey
from mesos_gpu.errors import DeviceError
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.mesos.ids import ContainerId, ExecutorId, FrameworkId, TaskId
from mesos_gpu.mesos.shares.suspending import AT_WORK, NOT_RESUMED, NOT_SUSPENDED, RESUME, SUSPEND, SUSPENDED, data_of

FRAMEWORK, CONTAINER = FrameworkId("F"), ContainerId("c")


class Slow(Suspender):
    """Suspends when it is let, or refuses when it is let."""

    def __init__(self, path: Path) -> None:
        super().__init__(None, None, path, lambda container: ())  # type: ignore[arg-type]
        self.let, self.refuses, self.begun = asyncio.Event(), False, 0

    async def suspend(self, container: ContainerId) -> None:
        self.begun += 1
        await self.let.wait()
        if self.refuses:
            raise DeviceError("CUDA cannot lock process 7")

    async def resume(self, container: ContainerId) -> tuple[Gpu, ...]:
        self.begun += 1
        await self.let.wait()
        raise DeviceError("there is not enough memory for it on the GPU")


class Asked:
    """An agent with one task; `heard` are the messages that its framework is told."""

    def __init__(self, folder: Path) -> None:
        task = Task(TaskKey(FRAMEWORK, TaskId("t")), {}, ExecutorId("t"), CONTAINER, "/s", Phase.RUNNING)  # type: ignore[typeddict-item]
        self.heard: list[str] = []
        self.suspender = Slow(folder / "suspended.json")
        self.suspending = Suspending(self.suspender, lambda: [task], self._told)

    def _told(self, event: ev.Event) -> None:
        assert isinstance(event, ev.GpuIll)
        self.heard.append(event.message)

    async def says(self, words: str, times: int = 1) -> None:
        for _ in range(times):
            message = ev.FrameworkMessage(ExecutorKey(FRAMEWORK, ExecutorId("t")), data_of(words))
            assert self.suspending.heard(message)
            await asyncio.sleep(0)

    async def ends(self) -> None:
        self.suspender.let.set()
        await asyncio.gather(*self.suspending._work)


def begins(heard: Sequence[str], words: Sequence[str]) -> bool:
    return len(heard) == len(words) and all(map(str.startswith, heard, words))


async def test_who_asks_again_while_it_is_done_is_told_so_and_has_one_answer(tmp_path: Path) -> None:
    agent = Asked(tmp_path)
    await agent.says(SUSPEND, times=3)
    await agent.ends()
    assert agent.suspender.begun == 1
    assert begins(agent.heard, [AT_WORK, AT_WORK, SUSPENDED]), agent.heard


@pytest.mark.parametrize(("words", "no"), [(SUSPEND, NOT_SUSPENDED), (RESUME, NOT_RESUMED)])
async def test_what_was_asked_for_twice_and_refused_is_not_done_a_second_time(
    tmp_path: Path, words: str, no: str
) -> None:
    agent = Asked(tmp_path)
    agent.suspender.refuses = True
    await agent.says(words, times=2)
    await agent.ends()
    agent.suspender.refuses = False
    assert agent.suspender.begun == 1, "who was told of a refusal would not know of a suspension"
    assert begins(agent.heard, [AT_WORK, no]), agent.heard
    await agent.says(words)
    await agent.ends()
    assert agent.suspender.begun == 2, "asked anew, it is tried anew"
