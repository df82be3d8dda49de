"""`mesos-gpu` over genuine masters: told Marathon's address alone, it finds the master through it, and agents there."""

from __future__ import annotations

import json

import pytest

from tests.genuine.box import MakeBox
from tests.genuine.releases import Release
from tests.support.zookeeper import RealZooKeeper

pytestmark = [pytest.mark.root, pytest.mark.timeout(240)]

APP = {"id": "/held", "cmd": "echo ready; sleep 1000", "cpus": 0.1, "mem": 32, "gpus": 1}


def test_commands_that_ask_master_and_agents_where_the_master_is_found_by_zookeeper(
    release: Release, make_box: MakeBox, zookeeper: RealZooKeeper
) -> None:
    box = make_box(release, gpus=2)
    with box.in_zookeeper(zookeeper) as masters:
        box.start_marathon("m", {"master": masters})
        box.ok("app", "add", "-", "--wait", text=json.dumps(APP))
        (task,) = box.told("task", "list")
        assert (task["state"], task["gpus"]) == ("TASK_RUNNING", 1)
        assert box.ok("task", "log", "held") == "ready\n"
        assert box.ok("task", "exec", "held", "nvidia-smi", "-L").count("UUID: ") == 1
        assert "stdout" in box.ok("task", "ls", "held")
        (agent,) = box.told("agent", "list")
        assert agent["id"] == box.agents[0].id
        held = [gpu for gpu in box.told("gpu", "list") if task["id"] in json.dumps(gpu)]
        assert len(held) == 1
        box.ok("app", "add", "-", text=json.dumps({**APP, "id": "/many", "gpus": 2}))
        box.until("it waits", lambda: box.told("why", "many")["state"] == "waiting")
        assert "GPU" in box.ok("why", "many")
        box.ok("task", "kill", "held", "--scale", "--wait")
        box.until("it runs", lambda: box.told("why", "many")["state"] == "running")
        for app in ("held", "many"):
            box.ok("app", "remove", app)
        box.until("all have ended", lambda: set(box.tasks().values()) == {"TASK_KILLED"})
