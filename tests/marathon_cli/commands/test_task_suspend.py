"""`mesos-gpu task suspend, resume` against a scripted Marathon and master, and two agents."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Answer, Run, ScriptedServer, scripted_server

TASK = "train.instance-1._app.1"
SUSPENDED = [{"container_id": "c1", "phase": "suspended", "gpus": [0]}]


@pytest.fixture
def second() -> Iterator[ScriptedServer]:
    """Yield the agent that the task runs on; the master is at the same address as another."""
    with scripted_server() as server:
        yield server


@pytest.fixture
def cluster(marathon: ScriptedServer, second: ScriptedServer) -> ScriptedServer:
    agents = {"S1": marathon, "S2": second}
    slaves = [{"id": name, "pid": f"slave(1)@{one.url.removeprefix('http://')}"} for name, one in agents.items()]
    marathon.on("GET", "/slaves", {"slaves": slaves})
    status = {"container_status": {"container_id": {"value": "nested", "parent": {"value": "c1"}}}}
    task = {"id": TASK, "slave_id": "S2", "state": "TASK_RUNNING", "statuses": [status]}
    marathon.on("GET", "/tasks", {"tasks": [task]})
    return marathon


@pytest.mark.parametrize("what", ["suspend", "resume"])
def test_the_agent_of_the_task_is_asked(
    cluster: ScriptedServer, second: ScriptedServer, run: Run, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MESOS_GPU_AGENT", cluster.url)
    second.on("POST", f"/gpus/{what}", SUSPENDED)
    result = run("task", what, "train", "-o", "json")
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"task": TASK, "suspended": SUSPENDED})
    assert [(one.method, one.path, one.body) for one in second.requests] == [
        ("POST", f"/gpus/{what}", {"container_id": "c1"})
    ]
    assert not any(one.path.startswith("/gpus") for one in cluster.requests)


def test_another_may_be_named(cluster: ScriptedServer, second: ScriptedServer, run: Run) -> None:
    cluster.on("POST", "/gpus/suspend", SUSPENDED)
    assert run("task", "suspend", "train", "--agent", cluster.url).exit_code == 0
    assert second.requests == []


def test_what_it_refuses_is_said(cluster: ScriptedServer, second: ScriptedServer, run: Run, golden: Golden) -> None:
    second.on("POST", "/gpus/suspend", Answer(403, b"Only this machine may suspend and resume what runs on it."))
    result = run("task", "suspend", "train")
    assert result.exit_code != 0
    assert result.stderr == golden
    second.on("POST", "/gpus/suspend", Answer(404, b""))
    assert run("task", "suspend", "train").stderr == golden
    second.on("POST", "/gpus/suspend", Answer(409, b"CUDA cannot lock process 7"))
    assert run("task", "suspend", "train").stderr == golden
