"""A genuine master loses an agent for a while: nothing runs twice, whoever is started again meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.genuine.box import GenuineBox, MakeBox
from tests.genuine.releases import Release

pytestmark = pytest.mark.root

# An agent that is silent for 6 s is unreachable.
PINGS = {"agent_ping_timeout": "2secs", "max_agent_ping_timeouts": "3"}
ROLE = "slave_public"


def started(box: GenuineBox, what: str) -> int:
    """How often a task has begun: each adds a line to a file."""
    return len((box.work_dir / what).read_text().splitlines())


def say(folder: Path, what: str) -> str:
    return f"echo started >> {folder / what}; exec sleep 1000"


def test_no_run_and_no_instance_twice_over_a_partition_and_a_new_marathon(release: Release, make_box: MakeBox) -> None:
    box = make_box(release, gpus=4, marathon=True, master_flags=PINGS)
    stays = {"id": "/stays", "cmd": say(box.work_dir, "stays"), "cpus": 0.1, "mem": 32, "gpus": 1}
    (stays_id,) = box.run_app({**stays, "unreachableStrategy": "disabled"})
    patient = {"inactiveAfterSeconds": 300, "expungeAfterSeconds": 600}
    waits = {**stays, "id": "/waits", "cmd": say(box.work_dir, "waits"), "unreachableStrategy": patient}
    (waits_id,) = box.run_app(waits)
    run = {"cmd": say(box.work_dir, "run"), "cpus": 0.1, "mem": 32, "gpus": 1, "restart": {"policy": "ON_FAILURE"}}
    box.marathon("POST", "/v1/jobs", {"id": "j", "run": run})
    (run_id,) = {box.marathon("POST", "/v1/jobs/j/runs")["id"]}
    box.until("the run runs", lambda: list(box.tasks().values()) == ["TASK_RUNNING"] * 3)
    before = set(box.tasks())

    box.agents[0].partition()
    box.until("the agent is unreachable", lambda: box.state()["unreachable_slaves"] == 1)
    box.stop_marathon()
    asked = box.metric("master/messages_reconcile_tasks")
    box.restart_marathon()
    box.until("Marathon has asked", lambda: box.metric("master/messages_reconcile_tasks") >= asked + 2)
    assert box.instances("stays") == {stays_id: "TASK_UNREACHABLE"}
    assert box.instances("waits") == {waits_id: "TASK_UNREACHABLE"}
    assert [run["id"] for run in box.marathon("GET", "/v1/jobs/j/runs")] == [run_id]

    box.agents[0].rejoin()
    box.until("it is back", lambda: box.instances("stays") == {stays_id: "TASK_RUNNING"})
    box.until("it is back", lambda: box.instances("waits") == {waits_id: "TASK_RUNNING"})
    box.until("all run", lambda: box.tasks() == dict.fromkeys(before, "TASK_RUNNING"))
    assert [run["id"] for run in box.marathon("GET", "/v1/jobs/j/runs")] == [run_id]
    assert [started(box, what) for what in ("stays", "waits", "run")] == [1, 1, 1]
