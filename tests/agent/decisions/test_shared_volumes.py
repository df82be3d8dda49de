"""Shared persistent volumes on an agent: many tasks and executors at once, and whose the folder is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.agent.decisions.handle import handle
from mesos_gpu.agent.decisions.state import AgentState
from mesos_gpu.agent.launching.executor_launch import executor_container, late_volume
from mesos_gpu.agent.model import actions as act
from mesos_gpu.agent.model.executors import Executor, ExecutorKey, ExecutorPatience
from mesos_gpu.agent.model.tasks import Phase, Task
from mesos_gpu.container.spec.config import Volume
from mesos_gpu.mesos.messages import devolve
from tests.support.agent.documents import FRAMEWORK_ID, IDENTITY, at, framework, key, new_state, run, scalar, task
from tests.support.agent.live import FRAMEWORK, live_agent

ML = {"reservations": [{"type": "DYNAMIC", "role": "ml"}]}


def volume(name: str = "v", mode: str = "RW", path: str = "data", **more: Any) -> dict[str, Any]:
    disk = {"persistence": {"id": name}, "volume": {"container_path": path, "mode": mode}}
    return {**scalar("disk", 10.0), **ML, "disk": disk, "shared": {}, **more}


def using(task_id: str, *volumes: dict[str, Any], line: str = "sleep 1", **more: Any) -> dict[str, Any]:
    return task(task_id, line, **more) | {"resources": [scalar("cpus", 0.1), scalar("mem", 32.0), *volumes]}


def launched(state: AgentState, *infos: dict[str, Any]) -> tuple[Volume, ...]:
    (launch,) = [action for action in handle(state, run(*infos), at()) if isinstance(action, act.Launch)]
    return launch.config.volumes


def test_only_the_first_of_its_users_is_given_the_folder() -> None:
    state = new_state()
    (first,) = launched(state, using("a", volume()))
    (second,) = launched(state, using("b", volume(mode="RO")))
    assert (first.source, first.in_use, first.read_only) == ("/var/lib/mesos/volumes/roles/ml/v", False, False)
    assert (second.source, second.in_use, second.read_only) == (first.source, True, True)
    (other,) = launched(state, using("c", volume("w")))
    assert not other.in_use


def test_of_a_volume_that_is_not_shared_every_user_is_the_first() -> None:
    state = new_state()
    alone = {name: value for name, value in volume().items() if name != "shared"}
    assert [launched(state, using(name, alone))[0].in_use for name in ("a", "b")] == [False, False]


INFO = {"executor_id": {"value": "e"}, "command": {"value": "run"}, "resources": [scalar("cpus", 0.1)]}
EXECUTOR = Executor(ExecutorKey(FRAMEWORK_ID, "e"), INFO, "c1", "/sandbox")


def hosted(info: dict[str, Any], phase: Phase = Phase.RUNNING) -> Task:
    return Task(key(info["name"]), info, "e", "c1", "", phase=phase, hosted=True)


def test_an_executor_has_it_once_and_may_write_if_one_of_its_tasks_may() -> None:
    tasks = [hosted(using("a", volume(mode="RO"))), hosted(using("b", volume())), hosted(using("c", volume(path="x")))]
    spec = executor_container(IDENTITY, framework(), EXECUTOR, tasks, ExecutorPatience())
    assert [(v.destination, v.read_only) for v in spec.volumes] == [("data", False), ("x", False)]


@pytest.mark.parametrize(
    ("live", "wanted", "joins"),
    [
        ([hosted(using("a", volume()))], volume(), True),
        ([hosted(using("a", volume()))], volume(mode="RO"), True),
        ([hosted(using("a", volume(mode="RO")))], volume(), False),
        ([hosted(using("a", volume()))], volume(path="elsewhere"), False),
        ([hosted(using("a", volume("w")))], volume(), False),
        ([hosted(using("a", volume()), Phase.OVER)], volume(), False),
    ],
)
def test_a_task_joins_an_executor_whose_live_tasks_have_its_volume(
    live: list[Task], wanted: dict[str, Any], joins: bool
) -> None:
    assert (late_volume(IDENTITY, EXECUTOR, [using("b", wanted)], live) is None) == joins


POD = {
    "type": "DEFAULT",
    "executor_id": {"value": "pod"},
    "framework_id": {"value": FRAMEWORK_ID},
    "resources": [scalar("cpus", 0.1), scalar("mem", 64.0), scalar("disk", 8.0)],
}
WAIT = "until [ -s data/{0} ]; do sleep 0.02; done; cat data/{0}"


@pytest.mark.root
async def test_two_tasks_and_a_group_share_a_folder_while_they_run(tmp_path: Path) -> None:
    """The first has it; a reader of another user sees what it says, a group answers, and only then the first ends."""
    async with live_agent(tmp_path) as agent:
        kept = {name: value for name, value in volume().items() if name != "allocation_info"}
        agent.master.send("CheckpointResourcesMessage", {"resources": [devolve("mesos.Resource", kept)]})
        folder = tmp_path / "work" / "volumes" / "roles" / "ml" / "v"
        await agent.until(folder.exists)
        first = f"echo hello > data/a; {WAIT.format('c')}"
        agent.master.run(FRAMEWORK, devolve("mesos.TaskInfo", using("first", volume(), line=first)))
        reads = f"{WAIT.format('a')}; touch data/x || echo may not write; stat -c %U data"
        nobody = {**using("reads", volume(mode="RO")), "command": {"value": reads, "user": "nobody"}}
        await agent.reaches("first", "TASK_RUNNING")
        agent.master.run(FRAMEWORK, devolve("mesos.TaskInfo", nobody))
        await agent.reaches("reads", "TASK_FINISHED")
        assert (await agent.said("reads")).splitlines() == ["hello", "may not write", "root"]

        group = [
            using("g1", volume(), line=f"{WAIT.format('a')} > data/b"),
            using("g2", volume(), line=f"{WAIT.format('b')} > data/c.new; mv data/c.new data/c"),
        ]
        document = {"tasks": [devolve("mesos.TaskInfo", one) for one in group]}
        executor = devolve("mesos.ExecutorInfo", POD)
        asked = {"framework": FRAMEWORK, "executor": executor, "task_group": document, "launch_executor": True}
        agent.master.send("RunTaskGroupMessage", asked)
        for name in ("g1", "g2", "first"):
            await agent.reaches(name, "TASK_FINISHED")
        assert await agent.said("first") == "hello\n"
        assert sorted(path.name for path in folder.iterdir()) == ["a", "b", "c"]
