"""Our agent, our Marathon and a framework by hand come to a genuine master, run tasks there, and survive its end."""

from __future__ import annotations

import pytest

from tests.genuine.box import MakeBox
from tests.genuine.releases import Release

pytestmark = pytest.mark.root

SLEEPER = {"id": "/sleeper", "cmd": "sleep 1000", "cpus": 0.1, "mem": 32, "gpus": 1, "instances": 2}


def test_marathon_runs_gpu_tasks_and_both_outlive_master_and_agent(release: Release, make_box: MakeBox) -> None:
    box = make_box(release, gpus=4, marathon=True)
    (agent,) = box.state()["slaves"]
    assert (agent["id"], agent["resources"]["gpus"]) == (box.agents[0].id, 4)
    tasks = box.run_app(SLEEPER)

    box.kill_master()
    box.start_master()
    box.until("the agent is back", lambda: [slave["id"] for slave in box.state()["slaves"]] == [agent["id"]])
    box.until("tasks are known", lambda: all(box.tasks().get(task) == "TASK_RUNNING" for task in tasks))

    box.agents[0].kill()
    box.agents[0].start()
    assert box.agents[0].id == agent["id"]
    box.until("tasks run", lambda: box.instances("sleeper") == dict.fromkeys(tasks, "TASK_RUNNING"))

    box.marathon("DELETE", "/v2/apps/sleeper")
    box.until("tasks are killed", lambda: set(box.tasks().values()) == {"TASK_KILLED"})
    assert sorted(box.tasks()) == tasks
