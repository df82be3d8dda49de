"""A box that changes while it runs, and that is gone for good: agents come and go, tasks move, nothing is left."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable

import pytest
import requests

from mesos_gpu.local.record import is_alive
from tests.support.box.live import LiveBox

pytestmark = pytest.mark.root


def pools(box: LiveBox) -> dict[str, int]:
    return {pool["name"]: len(pool["agents"]) for pool in json.loads(box.ok("pool", "list", "-o", "json"))}


def test_pools_grow_and_shrink_while_tasks_move(new_box: LiveBox) -> None:
    box = new_box
    said = box.up("--pool", "name=t4,agents=2,gpus=2,model=Tesla-T4,memory=15109MiB", "--pool", "name=cpu,gpus=0")
    assert len(re.findall(r"\b2 GPUs\b.*\bt4\b", said)) == 2
    assert "gpu_model:IS:Tesla-T4" in box.ok("gpu", "types")
    box.add({"id": "a", "cmd": "nvidia-smi; sleep 1000", "cpus": 0.1, "mem": 32, "gpus": 2, "instances": 2})
    assert "15109MiB" in box.log_of("a")

    refused = box.cli("pool", "resize", "t4", "1")
    assert refused.returncode == 1
    assert "--drain" in refused.stderr
    assert "agent2" in refused.stderr
    refused = box.cli("pool", "delete", "t4")
    assert (refused.returncode, "2 tasks" in refused.stderr) == (1, True)
    assert pools(box) == {"t4": 2, "cpu": 1}

    made = box.ok("pool", "create", "p100", "--agents=2", "--gpus=2", "--model=Tesla-P100")
    assert "Tesla-P100" in made
    box.ok("pool", "delete", "t4", "--yes")
    box.until("the tasks are on the other pool", lambda: box.gpus_free() == 0 and len(box.tasks("a")) == 2)
    assert pools(box) == {"cpu": 1, "p100": 2}
    box.ok("pool", "resize", "cpu", "0")
    assert not (box.work_dir / "agent3").exists()

    # The pools are as they were when the box comes back, and so are its tasks.
    box.until("both run", lambda: {task["state"] for task in box.tasks("a")} == {"TASK_RUNNING"})
    before = sorted(task["id"] for task in box.tasks("a"))
    box.ok("down", "--keep_tasks")
    refused = box.cli("up", "-d", "--agents=1", "--master_port=0", "--marathon_port=0")
    assert (refused.returncode, "agent5" in refused.stderr) == (1, True)
    box.up()
    box.until("the same tasks are known", lambda: sorted(task["id"] for task in box.tasks("a")) == before)
    assert pools(box) == {"cpu": 0, "p100": 2}


def test_wrong_pools_are_told_before_anything_starts(new_box: LiveBox) -> None:
    done = new_box.cli("up", "-d", "--pool", "name=T4", "--pool", "gpu=1")
    assert done.returncode == 1
    assert "T4" in done.stderr
    assert not new_box.work_dir.exists()
    assert new_box.cli("pool", "create", "x").returncode == 1


def test_what_comes_back_is_told_until_it_is_purged(new_box: LiveBox) -> None:
    box = new_box
    box.up("--gpu_driver=simulated", "--simulated_gpus=1")
    box.add({"id": "stays", "cmd": "sleep 1000", "cpus": 0.1, "mem": 32})
    assert "/stays" in box.ok("down")
    assert "/stays" in box.up("--gpu_driver=simulated", "--simulated_gpus=1")
    asked = box.cli("down", "--purge")
    assert (asked.returncode, "sandboxes" in asked.stderr, "--yes" in asked.stderr) == (1, True, True)
    assert box.status()["marathon"]["pid"]
    box.ok("down", "--purge", "--yes")
    assert not box.work_dir.exists()
    assert box.cli("down", "--purge", "--yes").returncode == 1


def kill_services(box: LiveBox) -> None:
    """End the supervisor and every service, with no time to stop containers."""
    noted = json.loads((box.work_dir / "box.json").read_text())
    services = [noted, noted["master"], noted["marathon"], *noted["agents"]]
    for service in services:
        os.kill(service["pid"], signal.SIGKILL)
    box.until("the services have ended", lambda: not any(is_alive(one["pid"], one["started"]) for one in services))


@pytest.mark.parametrize(
    "before", [lambda box: None, lambda box: box.ok("down"), kill_services], ids=["up", "down", "killed"]
)
def test_a_purge_ends_all_containers_and_always_finishes(new_box: LiveBox, before: Callable[[LiveBox], object]) -> None:
    box = new_box
    box.up("--gpu_driver=simulated", "--simulated_gpus=1")
    box.add({"id": "a", "cmd": "sleep 1000 & sleep 1000", "cpus": 0.1, "mem": 32, "gpus": 1})
    launch = {
        "container_id": {"value": "standalone"},
        "command": {"value": "exit 0"},
        "resources": [{"name": "cpus", "type": "SCALAR", "scalar": {"value": 0.1}}],
    }
    call = {"type": "LAUNCH_CONTAINER", "launch_container": launch}
    url = box.status()["agents"][0]["url"] + "/api/v1"
    requests.post(url, json=call, timeout=60).raise_for_status()
    wait = {"type": "WAIT_CONTAINER", "wait_container": {"container_id": {"value": "standalone"}}}
    requests.post(url, json=wait, timeout=60).raise_for_status()  # it has ended, and nobody removes it
    before(box)
    box.ok("down", "--purge", "--yes")
    assert not box.work_dir.exists()
