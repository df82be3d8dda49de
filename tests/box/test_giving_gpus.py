"""A preemptible app gives its GPU to one of higher priority without being ended, and has it again: a live box."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import pytest

from tests.support.box.live import LiveBox
from tests.support.simulated.played import PROGRAM

pytestmark = pytest.mark.root
USER = f"exec {sys.executable} -S {PROGRAM} 3000 1000"


def app(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "cmd": USER, "cpus": 0.1, "mem": 64, "gpus": 1, **more}


def suspension(box: LiveBox) -> str | None:
    (task,) = box.tasks("patient")
    return None if "suspension" not in task else str(task["suspension"]["state"])


def rounds(box: LiveBox, name: str) -> int:
    return box.log_of(name).count("round")


def test_a_gpu_goes_to_who_needs_it_more_and_comes_back_also_over_restarts(new_box: LiveBox) -> None:
    box = new_box
    box.up("--gpu_driver=simulated", "--simulated_gpus=1", "--agents=1")
    box.add(app("patient", preemptible=True, labels={"GPU_PREEMPTION": "suspend"}))
    box.until("it works", lambda: rounds(box, "patient") > 2)
    (before,) = box.tasks("patient")

    box.ok("app", "add", "-", text=json.dumps(app("urgent", priority=5)))
    box.until("the urgent one works", lambda: rounds(box, "urgent") > 5)
    assert suspension(box) == "suspended"
    assert "/urgent" in box.cli("why", "patient").stdout
    (gpu,) = json.loads(box.ok("gpu", "list", "-o", "json"))
    assert "urgent" in gpu["task"], "the card is booked once"
    stood = rounds(box, "patient")

    for pid in (box.status()["marathon"]["pid"], box.status()["agents"][0]["pid"]):
        os.kill(pid, signal.SIGKILL)
    box.until("it is still suspended", lambda: suspension(box) == "suspended")
    box.until("it stands where it stood", lambda: rounds(box, "patient") == stood)

    box.ok("app", "remove", "urgent")
    box.until("it works again", lambda: rounds(box, "patient") > stood + 3)
    box.until("it is resumed", lambda: suspension(box) is None)
    (after,) = box.tasks("patient")
    assert after["id"] == before["id"]


def test_a_part_of_a_card_goes_to_one_of_high_priority_and_comes_back_also_over_restarts(new_box: LiveBox) -> None:
    box = new_box
    box.up("--gpu_driver=simulated", "--simulated_gpus=1", "--shared_gpus=0", "--agents=1")
    mine = {"cmd": USER, "cpus": 0.1, "mem": 64}
    box.add({"id": "patient", "preemptible": True, "gpuShare": {"memGiB": 10, "weight": 2}, **mine})
    box.until("it works", lambda: rounds(box, "patient") > 2)
    (before,) = box.tasks("patient")
    assert "watcher" in box.ok("why", "patient")

    text = json.dumps({"id": "urgent", "gpuShare": {"memGiB": 12, "highPriority": True}, **mine})
    box.ok("app", "add", "-", text=text)
    box.until("the urgent one works", lambda: rounds(box, "urgent") > 5)
    assert suspension(box) == "suspended"
    (line,) = [line for line in box.ok("app", "list").splitlines() if "patient" in line]
    assert "suspended" in line
    stood = rounds(box, "patient")

    for pid in (box.status()["marathon"]["pid"], box.status()["agents"][0]["pid"]):
        os.kill(pid, signal.SIGKILL)
    box.until("it is still suspended", lambda: suspension(box) == "suspended")
    box.until("it stands where it stood", lambda: rounds(box, "patient") == stood)

    box.ok("app", "remove", "urgent")
    box.until("it works again", lambda: rounds(box, "patient") > stood + 3)
    box.until("it is resumed", lambda: suspension(box) is None)
    (after,) = box.tasks("patient")
    assert after["id"] == before["id"]


def test_of_several_agents_that_of_the_task_is_asked(new_box: LiveBox) -> None:
    box = new_box
    box.up("--gpu_driver=simulated", "--simulated_gpus=1", "--agents=2")
    for name in ("one", "two"):
        box.add(app(name))
        box.until(f"{name} works", lambda name=name: rounds(box, name) > 2)
    assert len({box.tasks(name)[0]["slaveId"] for name in ("one", "two")}) == 2
    for name in ("one", "two"):
        box.ok("task", "suspend", name)
        box.until(f"{name} is suspended", lambda name=name: "suspension" in box.tasks(name)[0])
    for name in ("two", "one"):
        stood = rounds(box, name)
        box.ok("task", "resume", name)
        box.until(f"{name} works again", lambda name=name, stood=stood: rounds(box, name) > stood + 1)
