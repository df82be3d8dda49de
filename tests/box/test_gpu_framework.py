"""A framework that is not ours, examples/gpu_framework.py, on a whole box."""

from __future__ import annotations

import subprocess
import sys

import pytest
import requests

from tests.box.conftest import EXAMPLES, PATIENCE_S, LiveBox


@pytest.mark.root
def test_a_plain_pymesos_framework_runs_a_task_with_one_gpu(box: LiveBox) -> None:
    master = box.status()["master"]["url"].removeprefix("http://")
    command = [sys.executable, str(EXAMPLES / "gpu_framework.py"), master, "nvidia-smi -L"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{box.logs()}"
    lines = [line.split()[0] for line in done.stdout.splitlines()]
    assert lines == ["subscribed", "launching", "TASK_STARTING", "TASK_RUNNING", "TASK_FINISHED"]
    box.until("the GPU is free again", lambda: box.gpus_free() == 4)
    state = requests.get(f"http://{master}/state", timeout=10).json()
    frameworks = {framework["name"]: framework for framework in state["completed_frameworks"]}
    [task] = frameworks["one-gpu"]["completed_tasks"]
    assert (task["state"], task["resources"]["gpus"]) == ("TASK_FINISHED", 1.0)
