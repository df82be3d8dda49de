"""What tasks had and used, on a live box: a busy GPU and one that is held and idle, over kill -9 of Marathon."""

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


def app(name: str, cmd: str) -> dict[str, Any]:
    return {"id": name, "cmd": cmd, "cpus": 0.1, "mem": 64, "gpus": 1}


def of(box: LiveBox, name: str) -> dict[str, Any]:
    found = json.loads(box.ok("usage", "-o", "json"))["usage"]
    return next((each for each in found if each["app"] == f"/{name}"), {})


def test_gpu_hours_and_how_busy_they_were_survive_marathon_and_the_apps(new_box: LiveBox) -> None:
    box = new_box
    box.env["MARATHON_USAGE_INTERVAL"] = "200"
    box.up("--gpu_driver=simulated", "--simulated_gpus=2", asks=True)
    box.add(app("works", f"exec {sys.executable} -S {PROGRAM} 3000 20000"))
    box.add(app("sleeps", "sleep 1000"))
    box.until("the busy one is seen to be", lambda: of(box, "works")["gpuEfficiency"] > 50)
    box.until("the idle one too", lambda: of(box, "sleeps")["gpuIdle"] == 100)
    works = of(box, "works")
    assert works["maxGpuMemMiB"] >= 3000
    assert works["cpuEfficiency"] is not None
    assert works["memEfficiency"] is not None

    os.kill(box.status()["marathon"]["pid"], signal.SIGKILL)
    box.until("Marathon is back, and goes on", lambda: of(box, "works")["gpuHours"] > works["gpuHours"])
    box.ok("app", "remove", "works")
    box.until("its task has ended", lambda: of(box, "works")["tasksEnded"] == 1)
    ended = of(box, "works")
    os.kill(box.status()["marathon"]["pid"], signal.SIGKILL)
    box.until("Marathon is back", lambda: of(box, "sleeps")["gpuHours"] > ended["gpuHours"] / 2)
    assert of(box, "works") == ended, "what has ended stays as it is"

    assert "GPU Memory Utilized: 3" in box.ok("usage", "works")
    (mine,) = json.loads(box.ok("usage", "--by", "user", "-o", "json"))["usage"]
    assert mine["user"] == "root"
