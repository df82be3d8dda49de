"""The main job on a whole box: real services, real containers, real device cgroups."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.box.live import LiveBox
from tests.support.places import EXAMPLES

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

# What a container says about its GPUs: the nodes it has, what the driver's tool lists, and what opening each number
# gives, by a node it makes itself.
LOOK_AROUND = """
ls /dev | grep -E '^nvidia[0-9]+$' | tr '\\n' ' '; echo "<- nodes"
nvidia-smi -L
for n in 0 1 2 3; do
  mknod "$MESOS_SANDBOX/n$n" c 195 $n
  (: < "$MESOS_SANDBOX/n$n") 2>&1 | sed "s/.*: //; s/^/minor $n: /"
done
echo looked
sleep 1000
"""
MINE, NOT_MINE = "No such device or address", "Operation not permitted"


def gpu_app(name: str, gpus: int, cmd: str = LOOK_AROUND) -> dict[str, object]:
    return {"id": name, "cmd": cmd, "cpus": 0.1, "mem": 32, "gpus": gpus, "instances": 1}


def test_simple_gpu_test_json_runs_on_a_gpu_of_its_own(box: LiveBox) -> None:
    box.ok("app", "add", str(EXAMPLES / "simple-gpu-test.json"), "--wait")
    box.until("the table is printed", lambda: "NVIDIA-SMI" in box.log_of("simple-gpu-test"))
    assert "simulated" in box.log_of("simple-gpu-test").lower()
    (task,) = json.loads(box.ok("task", "list", "--json"))
    assert task["appId"] == "/simple-gpu-test"
    assert task["state"] == "TASK_RUNNING"
    assert box.gpus_free() == 3
    box.ok("app", "remove", "simple-gpu-test")
    box.until("the GPU is free again", lambda: box.gpus_free() == 4)


def test_each_app_sees_its_own_gpus_and_nothing_else(box: LiveBox) -> None:
    wanted = {"one": 1, "another": 1, "two": 2}
    for name, gpus in wanted.items():
        box.add(gpu_app(name, gpus))
    seen: dict[str, set[str]] = {}
    for name, gpus in wanted.items():
        box.until(f"{name} has looked around", lambda name=name: "looked" in box.log_of(name))
        log = box.log_of(name)
        nodes = next(line for line in log.splitlines() if line.endswith("<- nodes")).split()[:-2]
        assert len(nodes) == gpus, log
        assert log.count("UUID: ") == gpus, log
        seen[name] = set(nodes)
        for minor in range(4):
            expected = MINE if f"nvidia{minor}" in nodes else NOT_MINE
            assert f"minor {minor}: {expected}" in log, log
    assert set.union(*seen.values()) == {"nvidia0", "nvidia1", "nvidia2", "nvidia3"}
    assert sum(map(len, seen.values())) == 4, "no GPU is held twice"
    assert box.gpus_free() == 0
    for name in wanted:
        box.ok("app", "remove", name)
    box.until("all GPUs are free again", lambda: box.gpus_free() == 4)


def test_a_second_app_waits_for_the_gpu_and_gets_it_when_the_first_ends(new_box: LiveBox) -> None:
    new_box.up("--gpu_driver=simulated", "--simulated_gpus=1")
    new_box.add(gpu_app("first", 1, "sleep 1000"))
    new_box.ok("app", "add", "-", text=json.dumps(gpu_app("second", 1, "sleep 1000")))
    assert new_box.tasks("second") == []
    new_box.ok("app", "remove", "first")
    new_box.until("the second runs", lambda: [t["state"] for t in new_box.tasks("second")] == ["TASK_RUNNING"])


def test_a_framework_that_knows_only_pymesos_runs_a_gpu_task(box: LiveBox) -> None:
    master = box.status()["master"]["url"].removeprefix("http://")
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "gpu_framework.py"), master],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{box.logs()}"
    assert "TASK_FINISHED" in done.stdout


def test_a_box_without_gpus_runs_what_asks_for_none(new_box: LiveBox) -> None:
    new_box.up("--gpu_driver=none")
    new_box.add({"id": "plain", "cmd": "sleep 1000", "cpus": 0.1, "mem": 32})
    assert new_box.status()["agents"][0]["gpus"] == 0


def test_an_app_without_gpus_runs_beside_free_gpus(box: LiveBox) -> None:
    box.add({"id": "plain", "cmd": "ls /dev | grep -c '^nvidia[0-9]'; sleep 1000", "cpus": 0.1, "mem": 32})
    box.until("it has looked for GPUs", lambda: box.log_of("plain").strip() == "0")
    assert box.gpus_free() == 4


def test_several_agents_have_gpus_of_their_own(new_box: LiveBox) -> None:
    new_box.up("--gpu_driver=simulated", "--simulated_gpus=1", "--agents=2")
    assert [agent["gpus"] for agent in new_box.status()["agents"]] == [1, 1]
    new_box.add({**gpu_app("both", 1, "sleep 1000"), "instances": 2})
    assert new_box.gpus_free() == 0


def test_the_same_box_twice_is_refused_and_a_taken_port_too(box: LiveBox, tmp_path: Path) -> None:
    again = box.cli("up", "--detach", "--master_port=0", "--agent_port=0", "--marathon_port=0")
    assert again.returncode == 1
    assert box.status()["master"]["url"] in again.stderr
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        other = LiveBox(tmp_path / "other")
        refused = other.cli("up", "--detach", f"--master_port={port}", "--agent_port=0", "--marathon_port=0")
    assert refused.returncode == 1
    assert str(port) in refused.stderr
    assert not (other.work_dir / "box.json").exists()
