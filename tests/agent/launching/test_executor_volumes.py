"""Persistent volumes of executors: their own, and those of the tasks that they are started for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.agent.api.container_api import _make_sandbox
from mesos_gpu.agent.launching.executor_launch import executor_container, late_volume
from mesos_gpu.agent.launching.nested import container_config, seen_of_parent
from mesos_gpu.agent.model.executors import Executor, ExecutorKey, ExecutorPatience
from mesos_gpu.agent.model.tasks import Task
from mesos_gpu.container.spec.config import ContainerConfig, Volume
from mesos_gpu.container.state.checkpoints import Record
from mesos_gpu.errors import BadInput
from tests.support.agent.documents import FRAMEWORK_ID, IDENTITY, framework, key, scalar, task
from tests.support.golden import Golden


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
    spec = executor_container(IDENTITY, framework(), EXECUTOR, tasks, ExecutorPatience())
    assert spec.volumes == (shown("own"), shown("data"))


def test_a_volume_that_comes_too_late_is_refused_in_words(golden: Golden) -> None:
    assert late_volume(IDENTITY, EXECUTOR, [task("c", resources=[volume("own")]), task("d")]) is None
    words = late_volume(IDENTITY, EXECUTOR, [task("c", resources=[volume("new")])])
    assert words is not None
    assert words == golden


def test_a_task_of_a_group_sees_its_executors_volume_and_nothing_that_it_leads_to(
    tmp_path: Path, golden: Golden
) -> None:
    """The volume lies elsewhere: what is named below it in the executor's sandbox is taken from there."""
    sandbox, data = tmp_path / "sandbox", tmp_path / "volumes" / "data"
    for folder in (sandbox, data / "sub"):
        folder.mkdir(parents=True)
    (data / "way-out").symlink_to("/etc")

    def nested(path: str, *, read_only: bool = False) -> tuple[ContainerConfig, list[Volume]]:
        shared = [Volume(str(data), "data", read_only, owned=True)]
        source = {"type": "SANDBOX_PATH", "sandbox_path": {"type": "PARENT", "path": path}}
        call = {
            "container_id": {"value": "c", "parent": {"value": "p"}},
            "command": {"value": "true"},
            "container": {"type": "MESOS", "volumes": [{"container_path": "x", "mode": "RW", "source": source}]},
        }
        found = container_config(
            IDENTITY, call, parent_sandbox=str(sandbox), parent_user=None, parent_volumes=tuple(shared)
        )
        return found, shared

    config, shared = nested("data")
    assert config.volumes == (Volume(str(data), "x"),)
    assert seen_of_parent(config, str(sandbox), shared) == [(str(data), str(data))]
    assert nested("data", read_only=True)[0].volumes == (Volume(str(data), "x", read_only=True),)
    inside, shared = nested("data/sub")
    assert seen_of_parent(inside, str(sandbox), shared) == [(str(data / "sub"), str(data))]
    (beside,) = nested("database")[0].volumes
    assert beside.source == str(sandbox / "database")
    parent = Record(container_id="p", step="running", boot_id="b", sandbox=str(sandbox), volumes=tuple(shared))
    with pytest.raises(BadInput) as refused:
        _make_sandbox(nested("data/way-out")[0], parent, sandbox)
    assert str(refused.value) == golden
    _make_sandbox(nested("data/new/deep")[0], parent, sandbox)
    assert (data / "new" / "deep").is_dir()
