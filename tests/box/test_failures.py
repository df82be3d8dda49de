"""A box whose processes are killed: no task lost, none started twice, no GPU held twice."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mesos_gpu.local.plan import runtime_dir
from mesos_gpu.local.record import Records
from tests.support.box.live import LiveBox
from tests.support.golden import Golden

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]
APP = {"id": "steady", "cmd": "echo begun; sleep 1000", "cpus": 0.1, "mem": 32, "gpus": 1}


@contextmanager
def taken(port: int = 0) -> Iterator[int]:
    """Hold a port of the loopback, by default any free one."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", port))
        holder.listen()
        yield holder.getsockname()[1]


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


def test_a_box_that_fails_to_come_up_forgets_no_task_of_the_one_before(own_box: LiveBox, golden: Golden) -> None:
    """One GPU in two containers, once: the failed start removed what the next agent had to know."""
    box = own_box
    box.add(APP)
    before = task_ids(box)
    noted = Records(box.work_dir).read()
    assert noted is not None
    for pid in (noted.pid, *(service.pid for service in noted.services().values())):
        os.kill(pid, signal.SIGKILL)
    with taken() as port:
        refused = box.cli("up", "--detach", f"--master_port={port}", "--agent_port=0", "--marathon_port=0")
    assert refused.returncode == 1
    assert str(port) in refused.stderr
    told = box.cli("down")
    assert told.returncode == 1
    assert told.stderr == golden
    box.up("--gpu_driver=simulated", "--simulated_gpus=4")
    box.until("the task is known again", lambda: task_ids(box) == before)
    box.until("its GPU is counted", lambda: box.gpus_free() == 3)
    assert box.log_of("steady").count("begun") == 1


def test_down_ends_the_containers_of_an_agent_that_is_gone(own_box: LiveBox) -> None:
    box = own_box
    box.add(APP)
    before = task_ids(box)
    noted = Records(box.work_dir).read()
    assert noted is not None
    agent = noted.agents[0]
    watch = os.pidfd_open(agent.pid)
    os.kill(agent.pid, signal.SIGKILL)
    assert select.select([watch], [], [], 30)[0]
    os.close(watch)
    with taken(int(agent.url.rpartition(":")[2])):
        box.ok("down")
    (record,) = (runtime_dir(box.work_dir) / "agent1" / "containers").glob("*.json")
    assert not Path("/proc", str(json.loads(record.read_bytes())["pid"])).exists()
    box.up("--gpu_driver=simulated", "--simulated_gpus=4")
    box.until("another task is there in its place", lambda: task_ids(box) and task_ids(box) != before)
    box.until("one GPU is taken", lambda: box.gpus_free() == 3)


def test_a_box_is_the_same_under_every_name_of_its_folder(own_box: LiveBox) -> None:
    box = own_box
    box.add(APP)
    before = task_ids(box)
    noted = Records(box.work_dir).read()
    assert noted is not None
    os.kill(noted.pid, signal.SIGKILL)
    box.until("the services have ended", lambda: box.cli("status").returncode == 1)
    link = box.work_dir.with_name("link")
    link.symlink_to(box.work_dir)
    other = LiveBox(link)
    other.up("--gpu_driver=simulated", "--simulated_gpus=4")
    other.until("the task is known again", lambda: task_ids(other) == before)
    other.until("its GPU is counted", lambda: other.gpus_free() == 3)
    assert other.log_of("steady").count("begun") == 1
