"""A box whose processes are killed: no task lost, none started twice, no GPU held twice."""

from __future__ import annotations

import os
import signal

import pytest

from mesos_gpu.local.record import Records
from tests.box.conftest import LiveBox

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]
APP = {"id": "steady", "cmd": "echo begun; sleep 1000", "cpus": 0.1, "mem": 32, "gpus": 1}


def task_ids(box: LiveBox, app_id: str = "steady") -> list[str]:
    return [task["id"] for task in box.tasks(app_id) if task["state"] == "TASK_RUNNING"]


@pytest.mark.parametrize("service", ["master", "agent1", "marathon"])
def test_a_killed_service_comes_back_and_the_task_runs_on(box: LiveBox, service: str) -> None:
    name = f"steady-{service}"
    box.add({**APP, "id": name})
    before = task_ids(box, name)
    assert len(before) == 1
    noted = Records(box.work_dir).read()
    assert noted is not None
    killed = noted.services()[service]
    os.kill(killed.pid, signal.SIGKILL)

    def back() -> bool:
        now = Records(box.work_dir).read()
        return now is not None and now.services()[service].pid != killed.pid and box.cli("status").returncode == 0

    box.until(f"{service} is back", back)
    box.until("the GPU is counted as taken", lambda: box.gpus_free() == 3)
    # The new process must also be able to work: another task starts, and the first is still the same one.
    box.add({**APP, "id": "later"})
    assert task_ids(box, name) == before
    assert box.log_of(name).count("begun") == 1
    box.ok("app", "remove", name)
    box.ok("app", "remove", "later")
    box.until("all GPUs are free again", lambda: box.gpus_free() == 4)


def test_tasks_outlive_the_box_when_asked_and_the_next_one_takes_them_over(own_box: LiveBox) -> None:
    box = own_box
    box.add(APP)
    before = task_ids(box)
    box.ok("down", "--keep_tasks")
    assert box.cli("status").returncode == 1
    box.up("--gpu_driver=simulated", "--simulated_gpus=4")
    box.until("the task is known again", lambda: task_ids(box) == before)
    box.until("its GPU is counted", lambda: box.gpus_free() == 3)
    assert box.log_of("steady").count("begun") == 1


def test_a_killed_supervisor_takes_its_services_along_and_tasks_run_on(own_box: LiveBox) -> None:
    box = own_box
    box.add(APP)
    before = task_ids(box)
    noted = Records(box.work_dir).read()
    assert noted is not None
    os.kill(noted.pid, signal.SIGKILL)
    box.until("the services have ended", lambda: box.cli("status").returncode == 1)
    box.up("--gpu_driver=simulated", "--simulated_gpus=4")
    box.until("the task is known again", lambda: task_ids(box) == before)
    assert box.log_of("steady").count("begun") == 1
