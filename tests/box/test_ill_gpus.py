"""An app whose GPU becomes unhealthy: it is moved, or notified and left running."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.box.live import LiveBox

pytestmark = [pytest.mark.root, pytest.mark.timeout(120)]


def test_an_app_whose_gpu_falls_ill_is_moved_to_another(new_box: LiveBox, tmp_path: Path) -> None:
    faults = tmp_path / "faults"
    new_box.env |= {"MESOS_SIMULATED_GPU_FAULTS": str(faults), "MESOS_GPU_UNHEALTHY_ACTION": "kill"}
    new_box.up("--gpu_driver=simulated", "--simulated_gpus=2")
    cmd = "ls /dev | grep -E '^nvidia[0-9]+$'; exec sleep 1000"
    new_box.add({"id": "moves", "cmd": cmd, "cpus": 0.1, "mem": 32, "gpus": 1, "instances": 1})
    (first,) = new_box.tasks("moves")
    faults.write_text("0 79\n")
    new_box.until(
        "another task runs",
        lambda: [t["state"] for t in new_box.tasks("moves") if t["id"] != first["id"]] == ["TASK_RUNNING"],
    )
    failure = new_box.marathon("/v2/apps/moves")["app"]["lastTaskFailure"]
    assert failure["state"] == "TASK_FAILED"
    assert "XID 79" in failure["message"]
    new_box.until("it has the other GPU", lambda: new_box.log_of("moves") == "nvidia1\n")
    assert new_box.status()["agents"][0]["gpus"] == 1


def test_an_app_that_is_told_of_its_gpu_runs_on(new_box: LiveBox, tmp_path: Path) -> None:
    faults = tmp_path / "faults"
    new_box.env |= {"MESOS_SIMULATED_GPU_FAULTS": str(faults)}
    new_box.up("--gpu_driver=simulated", "--simulated_gpus=1")
    new_box.add({"id": "stays", "cmd": "exec sleep 1000", "cpus": 0.1, "mem": 32, "gpus": 1, "instances": 1})
    before = new_box.tasks("stays")
    faults.write_text("0 79\n")

    def acknowledged() -> bool:
        (log,) = (new_box.work_dir / "agent1").glob("meta/**/task.updates")
        return log.read_text().count('"ACK"') == 3  # STARTING, RUNNING, and RUNNING with the message

    new_box.until("Marathon has heard of it", acknowledged)
    assert new_box.tasks("stays") == before
    new_box.ok("app", "remove", "stays")
    new_box.until("the GPU is offered no more", lambda: new_box.status()["agents"][0]["gpus"] == 0)
