"""Answers about GPUs on a live box whose agents have different GPUs: who has what, what is missing, what would help."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.box.live import PATIENCE_S, LiveBox

pytestmark = pytest.mark.root

H200 = [["gpu_model", "IS", "NVIDIA-H200"]]
SIMULATED = [["gpu_model", "IS", "Simulated-GPU"]]


@contextmanager
def agent_beside(box: LiveBox, folder: Path) -> Iterator[None]:
    """A second agent, of its own making: four GPUs of another model, in a rack."""
    master = str(box.status()["master"]["url"]).removeprefix("http://")
    words = [sys.executable, "-m", "mesos_gpu.agent.service", f"--master={master}", "--port=0", "--hostname=big1"]
    words += [f"--work_dir={folder}", f"--cgroups_root=mesos-answers-{folder.parent.name}", "--gpu_driver=simulated"]
    words += ["--simulated_gpus=4", "--attributes=gpu_model:NVIDIA-H200;rack:r7", "--registration_backoff_factor=10ms"]
    with (folder.parent / "big1.log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.send_signal(signal.SIGUSR1)  # it ends its tasks too, whatever the test left running
        process.wait(PATIENCE_S)


def app(name: str, gpus: int, **more: Any) -> dict[str, Any]:
    return {"id": name, "cmd": "sleep 100000", "cpus": 0.1, "mem": 32, "gpus": gpus, **more}


def commands(remedies: list[str]) -> list[str]:
    """Return the commands to type in these remedies."""
    return [command for remedy in remedies for command in re.findall("`([^`]*)`", remedy)]


def read(box: LiveBox, *words: str) -> Any:
    return json.loads(box.ok(*words, "-o", "json"))


def test_gpus_of_several_agents_and_why_apps_wait_for_them(new_box: LiveBox, tmp_path: Path) -> None:
    box = new_box
    box.up("--gpu_driver=simulated", "--simulated_gpus=2")
    with agent_beside(box, tmp_path / "big1"):
        box.until("both agents are there", lambda: len(read(box, "gpu", "list")) == 6)
        box.add(app("train", 3, constraints=H200))
        box.add(app("full", 2, constraints=SIMULATED))

        held = {(gpu["agent"], gpu["index"]): gpu.get("app") for gpu in read(box, "gpu", "list")}
        assert sorted(place for place, name in held.items() if name == "/train") == [("big1", n) for n in range(3)]
        assert held["big1", 3] is None
        kinds = {kind["name"]: (kind["gpus"], kind["free"]) for kind in read(box, "gpu", "types")}
        assert kinds == {"nvidia-h200": (4, 1), "simulated-gpu": (2, 0)}
        (task,) = read(box, "task", "list", "train")
        assert [device["index"] for device in task["gpuDevices"]] == [0, 1, 2]
        assert "0,1,2@big1" in box.ok("app", "list")

        described = read(box, "agent", "describe", "big1")
        assert (described["capacity"]["gpus"], described["allocated"]["gpus"], described["free"]["gpus"]) == (4, 3, 1)
        assert described["attributes"]["rack"] == "r7"
        assert described["tasks"][0]["share"]["gpus"] == 0.75

        said = box.cli("app", "add", "-", text=json.dumps(app("more", 2, constraints=H200)))
        assert said.returncode == 0
        box.until("it is refused an offer", lambda: read(box, "why", "more")["state"] == "waiting")
        box.until(
            "who has them is told",
            lambda: commands(read(box, "why", "more")["remedies"]) == ["mesos-gpu app stop /train"],
        )

        said = box.cli("app", "add", "-", text=json.dumps(app("never", 5)))
        assert said.stderr.startswith("warning: ")
        never = read(box, "why", "never")
        assert never["state"] == "impossible"
        assert "4 GPUs" in never["remedies"][0]

        said = box.cli("app", "update", "full", "env.A=1", "--yes")
        assert "warning: " in said.stderr
        box.until("the update waits for its own GPUs", lambda: read(box, "why", "full")["state"] == "blocked")
        # What is said to help does.
        command = commands(read(box, "why", "full")["remedies"])[0]
        box.ok(*command.split()[1:], "--yes", "--wait")
        assert read(box, "why", "full")["state"] == "running"
        # Nothing is left on the agent that is not the box's own; the box ends what is on its.
        for name in ("never", "more"):
            box.ok("app", "remove", name)
        box.ok("app", "remove", "train", "--wait")
