"""Persistent volumes of executors: their own, and those of the tasks that they are started for."""

from __future__ import annotations

from typing import Any

from mesos_gpu.agent.executor_launch import executor_spec, late_volume
from mesos_gpu.agent.executors import Executor, ExecutorKey, ExecutorPatience
from mesos_gpu.agent.tasks import Task
from mesos_gpu.container.config import Volume
from tests.agent.documents import FRAMEWORK_ID, IDENTITY, framework, key, scalar, task


def volume(name: str) -> dict[str, Any]:
    disk = {"persistence": {"id": name}, "volume": {"container_path": name, "mode": "RW"}}
    return {**scalar("disk", 10.0), "reservations": [{"type": "DYNAMIC", "role": "ml"}], "disk": disk}


def shown(name: str) -> Volume:
    return Volume(f"/var/lib/mesos/volumes/roles/ml/{name}", name, owned=True)


INFO = {"executor_id": {"value": "e"}, "command": {"value": "run"}, "resources": [scalar("cpus", 0.1), volume("own")]}
EXECUTOR = Executor(ExecutorKey(FRAMEWORK_ID, "e"), INFO, "c1", "/sandbox")


def test_an_executor_has_its_own_volumes_and_those_of_its_first_tasks_once() -> None:
    infos = [task("a", resources=[volume("data")]), task("b", resources=[volume("data"), volume("own")])]
    tasks = [Task(key(info["name"]), info, "e", "c1", "", hosted=True) for info in infos]
    spec = executor_spec(IDENTITY, framework(), EXECUTOR, tasks, ExecutorPatience())
    assert spec.volumes == (shown("own"), shown("data"))


def test_a_volume_that_comes_too_late_is_refused_in_words() -> None:
    assert late_volume(IDENTITY, EXECUTOR, [task("c", resources=[volume("own")]), task("d")]) is None
    words = late_volume(IDENTITY, EXECUTOR, [task("c", resources=[volume("new")])])
    assert words is not None
    assert "cannot be given the persistent volume at new" in words
