"""What other people wrote for Mesos runs against the box, unchanged, in an environment of its own.

What each exercises, and which clients cannot run on this Python and why, stands in docs/compatibility.md.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.clients.environments import PROGRAMS, Environment
from tests.support.box.live import LiveBox, leftovers
from tests.support.places import EXAMPLES

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]


@pytest.fixture(scope="module", autouse=True)
def installing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    """Begun before all else, because networks are slow; the box and what needs no environment go first."""
    environment = Environment(tmp_path_factory.mktemp("clients") / "venv")
    of_pymesos = ("addict", "six", "requests", "httptools")
    of_dcos = ("toml", "retrying", "sseclient", "jsonschema", "prettytable", "pygments", "pager", "setuptools<80")
    environment.begin("mesoshttp==0.4.2", "task_processing==1.4.0", *of_pymesos, *of_dcos)
    # pymesos has our http-parser, from its folder. tfmesos wants TensorFlow for what it does not do here; dcos wants
    # releases of 2017, which Python 3.10 cannot use.
    environment.begin("--no-deps", "pymesos==0.3.15", "tfmesos==0.0.10", "dcos==0.6.1")
    try:
        yield environment
    finally:
        environment.close()


@pytest.fixture(scope="module")
def live(installing: Environment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBox]:
    box = LiveBox(tmp_path_factory.mktemp("clients") / "box")
    try:
        box.up("--gpu_driver=simulated", "--simulated_gpus=4")
        yield box
    finally:
        box.cli("down")
    assert leftovers(box.work_dir) == []


@pytest.fixture(scope="module")
def clients(installing: Environment) -> Environment:
    installing.finish()
    return installing


@pytest.fixture(scope="module")
def master(live: LiveBox) -> str:
    return str(live.status()["master"]["url"]).removeprefix("http://")


def test_pymesos_operator_drivers_read_change_and_hear_everything(live: LiveBox, master: str) -> None:
    live.add({"id": "/parent", "cmd": "sleep 1000", "cpus": 0.1, "mem": 32})
    agent = str(live.status()["agents"][0]["url"]).removeprefix("http://")
    containers = requests.get(f"http://{agent}/containers", timeout=60).json()
    words = [sys.executable, str(PROGRAMS / "pymesos_operator.py"), master, agent]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        try:
            assert client.stdin is not None
            assert client.stdout is not None
            client.stdin.write(containers[0]["container_id"] + "\n")
            client.stdin.flush()
            told = json.loads(client.stdout.readline())
            framework = [sys.executable, str(EXAMPLES / "gpu_framework.py"), master, "true"]
            subprocess.run(framework, check=True, capture_output=True, timeout=60)
            seen = json.loads(client.stdout.readline())
        finally:
            client.kill()
    assert told["subscribed"]
    for name, keys in (*told["master"].items(), *told["agent"].items()):
        call = "get" + "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
        # As a real one's, an answer with nothing in it is a type alone.
        assert keys in ([call, "type"], ["type"] if name == "Weights" else None)
    assert told["metrics"] > 100
    assert told["nested"] == len(containers) + 1
    assert told["weights"] == [{"role": "ml", "weight": 2.0}]
    assert told["quota"] == ["ml"]
    assert told["down"] == [{"hostname": "elsewhere", "ip": "192.0.2.1"}]
    states = [f"TASK_UPDATED TASK_{state}" for state in ("STARTING", "RUNNING", "FINISHED")]
    assert seen == ["FRAMEWORK_ADDED", "TASK_ADDED", *states, "FRAMEWORK_REMOVED"]
    live.ok("app", "remove", "parent")


def test_mesoshttp_launches_reconciles_and_kills(
    live: LiveBox, clients: Environment, master: str, tmp_path: Path
) -> None:
    told = json.loads(clients.run("mesoshttp_scheduler.py", f"http://{master}"))
    assert told["ended"]
    assert told["errors"] == []
    states = {name: [state for task, state, _ in told["updates"] if task == name] for name in ("lists", "sleeps")}
    assert states["lists"] == ["TASK_STARTING", "TASK_RUNNING", "TASK_FINISHED"]
    assert states["sleeps"] == ["TASK_STARTING", "TASK_RUNNING", "TASK_RUNNING", "TASK_KILLED"]
    assert ["sleeps", "TASK_RUNNING", "REASON_RECONCILIATION"] in told["updates"]
    live.until("its GPUs are free", lambda: live.gpus_free() == 4)


def test_task_processing_runs_a_gpu_task_to_its_end(
    live: LiveBox, clients: Environment, master: str, tmp_path: Path
) -> None:
    # It names a port mapping without a network, and as one object where Mesos has a list.
    told = json.loads(clients.run("task_processing_runner.py", master, "nvidia-smi -L | grep -c UUID"))
    assert told == {"success": True, "kind": "task", "platform_type": "finished"}
    live.until("its GPUs are free", lambda: live.gpus_free() == 4)


def test_tfmesos_gives_each_worker_a_gpu_of_its_own(
    live: LiveBox, clients: Environment, master: str, tmp_path: Path
) -> None:
    saw = tmp_path / "saw"
    saw.mkdir()
    told = json.loads(clients.run("tfmesos_cluster.py", master, str(saw)))
    assert told["finished"] == {"ps": 1, "worker": 2}
    assert told["saw"]["ps-0"] == "No devices were found\n"
    workers = [told["saw"][name] for name in ("worker-0", "worker-1")]
    assert [text.count("UUID") for text in workers] == [1, 1]
    assert workers[0] != workers[1]
    live.until("its GPUs are free", lambda: live.gpus_free() == 4)


def test_the_dcos_clis_library_finds_a_task_and_runs_commands_in_it(
    live: LiveBox, clients: Environment, master: str, tmp_path: Path
) -> None:
    live.add({"id": "/held", "cmd": "echo ready; sleep 1000", "cpus": 0.1, "mem": 32, "gpus": 1})
    task_id = live.tasks("held")[0]["id"]
    told = json.loads(clients.run("dcos_tasks.py", f"http://{master}", task_id, str(tmp_path)))
    assert (told["state"], told["framework"], told["stdout"]) == ("TASK_RUNNING", "marathon", "ready\n")
    assert {"stderr", "stdout"} <= set(told["files"])
    assert told["exec"].count("UUID") == 1
    assert told["echo"] == "typed here\n"
    live.ok("app", "remove", "held")
    live.until("its GPUs are free", lambda: live.gpus_free() == 4)
