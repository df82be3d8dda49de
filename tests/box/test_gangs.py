"""Gangs on a live box: two machines train together, whole or not at all, and take GPUs from who gives way."""

from __future__ import annotations

import json
import re
import shlex
import sys

import pytest

from tests.support.box.live import LiveBox
from tests.support.places import EXAMPLES

pytestmark = [pytest.mark.root, pytest.mark.slow]


@pytest.fixture
def pair(new_box: LiveBox) -> LiveBox:
    """A box of two machines with two GPUs each."""
    new_box.up("--agents=2", "--gpu_driver=simulated", "--simulated_gpus=2")
    return new_box


def members(pair: LiveBox, app: str) -> int | None:
    """Return the size of the gang that the queue's entry of an app waits for."""
    for entry in pair.marathon("/v2/queue")["queue"]:
        if entry["app"]["id"] == f"/{app}":
            return entry["order"]["members"]
    return None


def test_two_machines_train_together(pair: LiveBox) -> None:
    line = [sys.executable, str(EXAMPLES / "gang_training.py")]
    done = pair.cli("run", "--nodes", "2", "--gpus", "2", "--mem", "512", "--", *line)
    assert done.returncode == 0, f"{done.stderr}\n{pair.logs()}"
    told = [row for row in done.stdout.splitlines() if row.startswith("member")]
    assert [row.partition(" on ")[0] for row in sorted(told)] == ["member 0 of 2", "member 1 of 2"]
    assert all("y = 3.00 x + 1.00" in row for row in told)
    assert done.stdout.count("==> run-") == 2, "each member's output has its headline"

    fails = pair.cli("run", "--nodes", "2", "--", "sh", "-c", 'test "$RANK" = 0 && exit 7; sleep 1000')
    assert fails.returncode == 7, fails.stderr
    assert pair.cli("run", "-it", "--nodes", "2", "--", "sh").returncode == 1


def test_a_gang_takes_what_gives_way_and_starts_again_as_a_whole(pair: LiveBox) -> None:
    cheap = {"id": "cheap", "cmd": "sleep 1000", "cpus": 0.1, "mem": 32, "gpus": 1, "instances": 3}
    pair.add({**cheap, "preemptible": True, "taskKillGracePeriodSeconds": 1})
    pair.until("three run", lambda: running(pair, "cheap") == 3)
    gang = {"id": "gang", "cmd": "sleep 1000", "cpus": 0.1, "mem": 32, "gpus": 2, "gang": {"size": 2}}
    waits = pair.cli("app", "add", "-", text=json.dumps(gang))
    assert waits.returncode == 0, waits.stderr
    pair.until("the queue has its size", lambda: members(pair, "gang") == 2)
    assert pair.tasks("gang") == []

    pair.ok("app", "update", "gang", "priority=5", "--force")
    pair.until("the gang runs", lambda: running(pair, "gang") == 2)
    assert len({task["slaveId"] for task in pair.tasks("gang")}) == 2
    failure = pair.marathon("/v2/apps/cheap?embed=app.lastTaskFailure")["app"]["lastTaskFailure"]
    assert "/gang" in failure["message"]
    before = {task["id"] for task in pair.tasks("gang")}
    pair.ok("task", "kill", min(before))
    pair.until("all are others", lambda: running(pair, "gang") == 2 and not before & ids(pair, "gang"))
    assert len({task["gang"]["id"] for task in pair.tasks("gang")}) == 1


def test_a_gang_that_waits_starts_when_what_why_says_is_done(pair: LiveBox) -> None:
    pair.add({"id": "cheap", "cmd": "sleep 1000", "cpus": 0.1, "mem": 32, "gpus": 1, "instances": 3})
    pair.until("three run", lambda: running(pair, "cheap") == 3)
    gang = {"id": "gang", "cmd": "sleep 1000", "cpus": 0.1, "mem": 32, "gpus": 2, "gang": {"size": 2}}
    assert pair.cli("app", "add", "-", text=json.dumps(gang)).returncode == 0

    def advised() -> list[str]:
        change = json.loads(pair.ok("why", "gang", "-o", "json"))["change"]
        return [] if change is None else [step["text"] for step in change["steps"]]

    pair.until("something is advised", lambda: bool(advised()))
    steps = advised()
    shown = pair.ok("why", "gang")
    assert all(text in shown for text in steps)
    assert pair.tasks("gang") == [], "it waits still"
    commands = [command for text in steps for command in re.findall("`mesos-gpu ([^`]*)`", text)]
    assert commands == ["app scale /cheap 0"]
    for command in commands:
        pair.ok(*shlex.split(command))
    pair.until("the gang runs", lambda: running(pair, "gang") == 2)


def running(box: LiveBox, app_id: str) -> int:
    return sum(task["state"] == "TASK_RUNNING" for task in box.tasks(app_id))


def ids(box: LiveBox, app_id: str) -> set[str]:
    return {task["id"] for task in box.tasks(app_id)}
