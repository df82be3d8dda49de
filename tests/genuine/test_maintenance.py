"""A machine is taken out of service through a genuine master: by a maintenance window, and by draining its agent."""

from __future__ import annotations

import time
from typing import Any

import pytest
import requests

from tests.genuine.box import GenuineBox, MakeBox
from tests.genuine.releases import Release

pytestmark = [pytest.mark.root, pytest.mark.timeout(240)]

APP = {"id": "/a", "cmd": "sleep 1000", "cpus": 0.1, "mem": 32, "gpus": 1, "instances": 2}


def where(box: GenuineBox) -> dict[str, str]:
    """The agent of each task of the app that runs."""
    tasks = box.marathon("GET", "/v2/apps/a/tasks")["tasks"]
    return {task["id"]: task["slaveId"] for task in tasks if task["state"] == "TASK_RUNNING"}


def agents(box: GenuineBox) -> dict[str, dict[str, Any]]:
    return {slave["id"]: slave for slave in box.state()["slaves"]}


def test_a_drained_agent_loses_its_tasks_to_the_other_and_gets_none(release: Release, make_box: MakeBox) -> None:
    box = make_box(release, gpus=[2, 2], marathon=True)
    if not release.at_least(1, 9):
        answer = requests.post(f"{box.url}/api/v1", json={"type": "DRAIN_AGENT"}, timeout=60)
        assert answer.status_code in (400, 501), "draining came with 1.9"
        return
    before = set(box.run_app(APP))
    drained = next(iter(where(box).values()))
    box.operate("DRAIN_AGENT", {"agent_id": {"value": drained}, "max_grace_period": {"seconds": 5}})
    box.until("both run elsewhere", lambda: len(where(box)) == 2 and drained not in where(box).values())
    assert set(where(box)) != before
    box.until("it is drained", lambda: agents(box)[drained]["drain_info"]["state"] == "DRAINED")
    agent = next(agent for agent in box.agents if agent.id == drained)
    agent.kill()
    agent.start()
    box.until("it comes back drained", lambda: agents(box)[drained]["drain_info"]["state"] == "DRAINED")
    assert agents(box)[drained]["deactivated"] is True
    box.operate("REACTIVATE_AGENT", {"agent_id": {"value": drained}})
    box.until("it is active", lambda: agents(box)[drained]["active"] and not agents(box)[drained].get("drain_info"))
    box.marathon("PATCH", "/v2/apps", [{"id": "/a", "instances": 4}])
    box.until("it has tasks again", lambda: len(where(box)) == 4 and drained in where(box).values())


def test_a_machine_in_maintenance_gets_no_tasks_goes_down_and_comes_up(release: Release, make_box: MakeBox) -> None:
    box = make_box(release, gpus=2, marathon=True)
    box.run_app(APP)
    (agent,) = agents(box).values()
    machine = {"hostname": agent["hostname"], "ip": "127.0.0.1"}
    begin = {"start": {"nanoseconds": int(time.time()) * 10**9}, "duration": {"nanoseconds": 3600 * 10**9}}
    schedule = {"windows": [{"machine_ids": [machine], "unavailability": begin}]}
    box.operate("UPDATE_MAINTENANCE_SCHEDULE", {"schedule": schedule})
    status = box.operate("GET_MAINTENANCE_STATUS")["get_maintenance_status"]["status"]
    assert [entry["id"] for entry in status["draining_machines"]] == [machine]
    # Running tasks stay until the machine is brought down; new ones would have to end within the window.
    assert len(where(box)) == 2
    box.operate("START_MAINTENANCE", {"machines": [machine]})
    box.until("the agent has been told to go", lambda: not agents(box))
    box.until("its tasks are gone", lambda: where(box) == {})
    assert box.until_ended(box.agents[0]) == 0
    box.operate("STOP_MAINTENANCE", {"machines": [machine]})
    box.agents[0].start()
    box.until("the app runs again", lambda: len(where(box)) == 2)
