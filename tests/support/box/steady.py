"""An app that stays, and one whose tasks end all the time: whether a box with both is as it should be."""

from __future__ import annotations

import json
from pathlib import Path

import requests

from mesos_gpu.local.plan import runtime_dir
from mesos_gpu.local.record import Box, Records
from tests.support.box.live import LiveBox

STEADY = {"id": "/steady", "cmd": "echo begun; exec sleep 1000", "cpus": 0.05, "mem": 32, "gpus": 1, "instances": 2}
SHORT = {"id": "/short", "cmd": "sleep 0.1", "cpus": 0.05, "mem": 32, "backoffSeconds": 1, "maxLaunchDelaySeconds": 1}


def begin(box: LiveBox) -> set[str]:
    """Run both; return the tasks that stay."""
    box.add(STEADY)
    box.ok("app", "add", "-", text=json.dumps(SHORT))
    return steady(box)


def noted(box: LiveBox) -> Box:
    """Return the box' note of itself."""
    found = Records(box.work_dir).read()
    assert found is not None
    return found


def steady(box: LiveBox) -> set[str]:
    """Return the tasks that stay and run, as Marathon knows them."""
    return {task["id"] for task in box.tasks("steady") if task["state"] == "TASK_RUNNING"}


def is_well(box: LiveBox, instances: int) -> bool:
    """Return whether all know the same tasks that stay, each once, with a GPU of its own, and tasks begin and end."""
    here = noted(box)
    master, agent = here.master.url, here.agents[0].url
    tasks = steady(box)
    frameworks = requests.get(f"{master}/state", timeout=10).json()["frameworks"]
    live = requests.get(f"{agent}/containers", timeout=10).json()
    gpus = requests.get(f"{agent}/gpus", timeout=10).json()
    booked = [
        task["id"]
        for framework in frameworks
        for task in framework["tasks"]
        if task["name"] == "steady" and task["state"] == "TASK_RUNNING"
    ]
    running = [one["executor_id"] for one in live if one["executor_id"].startswith("steady.")]
    held = [gpu["container_id"] for gpu in gpus if gpu.get("container_id")]
    return (
        len(tasks) == instances == len(held) == len(set(held))
        and sorted(tasks) == sorted(booked) == sorted(running)
        and not box.marathon("/v2/deployments")
    )


def processes(box: LiveBox) -> set[int]:
    """Return the processes of the tasks that stay, by what is on record of their containers."""
    records = (runtime_dir(box.work_dir) / "agent1" / "containers").glob("*.json")
    documents = [json.loads(path.read_bytes()) for path in records]
    return {
        one["pid"] for one in documents if "/steady." in str(one["sandbox"]) and Path(f"/proc/{one['pid']}").exists()
    }
