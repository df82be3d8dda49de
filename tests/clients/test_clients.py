"""What other people wrote for Mesos runs against the box, unchanged, in an environment of its own.

What each exercises, and which clients cannot run on this Python and why, stands in docs/reference/compatibility.md.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.clients.environments import HTTP_PARSER, PROGRAMS, Environment
from tests.support.box.live import LiveBox, leftovers
from tests.support.images.build import cuda_image
from tests.support.images.registry import RealRegistry
from tests.support.places import EXAMPLES
from tests.support.saying import says

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]


@pytest.fixture(scope="module", autouse=True)
def installing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    """Begun before all else, because networks are slow; the box and what needs no environment go first."""
    environment = Environment(tmp_path_factory.mktemp("clients") / "venv")
    of_pymesos = ("addict", "six", "requests", "httptools", "psutil")
    of_dcos = ("toml", "retrying", "sseclient", "jsonschema", "prettytable", "pygments", "pager", "setuptools<80")
    environment.begin("mesoshttp==0.4.2", "avmesos==0.4.2", "task_processing==1.4.0", *of_pymesos, *of_dcos)
    # pymesos has our http-parser, from its folder. tfmesos wants TensorFlow for what it does not do here; dcos wants
    # releases of 2017, which Python 3.10 cannot use.
    environment.begin("--no-deps", "pymesos==0.3.15", "tfmesos==0.0.10", "dcos==0.6.1", "cook-executor==0.1.19")
    try:
        yield environment
    finally:
        environment.close()


@pytest.fixture(scope="module")
def live(installing: Environment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBox]:
    box = LiveBox(tmp_path_factory.mktemp("clients") / "box")
    with RealRegistry(tmp_path_factory.mktemp("registry")) as registry:
        registry.push("worker", cuda_image())
        try:
            box.up("--gpu_driver=simulated", "--simulated_gpus=4", f"--docker_registry={registry.url}")
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


@pytest.mark.parametrize("library", ["mesoshttp", "avmesos"])
def test_mesoshttp_and_its_fork_launch_reconcile_and_kill(
    live: LiveBox, clients: Environment, master: str, library: str
) -> None:
    told = json.loads(clients.run("mesoshttp_scheduler.py", f"http://{master}", library))
    assert told["ended"]
    assert told["errors"] == []
    states = {name: [state for task, state, _ in told["updates"] if task == name] for name in ("lists", "sleeps")}
    assert states["lists"] == ["TASK_STARTING", "TASK_RUNNING", "TASK_FINISHED"]
    assert states["sleeps"] == ["TASK_STARTING", "TASK_RUNNING", "TASK_RUNNING", "TASK_KILLED"]
    assert ["sleeps", "TASK_RUNNING", "REASON_RECONCILIATION"] in told["updates"]
    live.until("its GPUs are free", lambda: live.gpus_free() == 4)


@pytest.mark.parametrize("image", [(), ("worker",)], ids=["host", "image"])
def test_task_processing_runs_a_gpu_task_to_its_end(
    live: LiveBox, clients: Environment, master: str, image: tuple[str, ...]
) -> None:
    # It names a port mapping without a network, and as one object where Mesos has a list.
    command = "nvidia-smi -L && test ! -e /usr/bin/env" if image else "nvidia-smi -L | grep -c UUID"
    told = json.loads(clients.run("task_processing_runner.py", master, command, *image))
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


def test_cooks_executor_runs_reports_and_ends_its_tasks(live: LiveBox, clients: Environment, master: str) -> None:
    http_parser = HTTP_PARSER  # of pymesos, as for all programs here
    executor = f"PYTHONPATH={http_parser} exec {clients.python} -m cook"
    told = json.loads(clients.run("cook_scheduler.py", master, executor))
    assert told["ended"], told
    assert told["states"]["well"][-1] == "TASK_FINISHED"
    assert told["states"]["ill"][-1] == "TASK_FAILED"
    assert told["states"]["long"][-1] == "TASK_KILLED"
    assert all("TASK_RUNNING" in states for states in told["states"].values())
    live.until("its GPUs are free", lambda: live.gpus_free() == 4)


def test_shpkpr_deploys_an_app_and_shows_it(live: LiveBox, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv")
    # It wants jinja2 2, which has no way with MarkupSafe of today.
    environment.begin("shpkpr==4.1.2", "markupsafe<2.1", "setuptools<80")
    environment.finish()
    url = live.status()["marathon"]["url"]
    template = tmp_path / "app.json.tmpl"
    template.write_text(
        '{"id": "/shp", "cmd": "sleep {{ SECONDS }}", "cpus": 0.1, "mem": 32, "gpus": 1, "instances": 1}'
    )

    def shpkpr(*words: str) -> str:
        program = [environment.python, "-c", "from shpkpr.cli.entrypoint import cli; cli()", *words]
        return says(program, tmp_path, {"SHPKPR_MARATHON_URL": url, "SHPKPR_SECONDS": "1000", "LC_ALL": "C.UTF-8"})

    deploy = ("apps", "deploy", "--template-dir", str(tmp_path), "-t", template.name)
    shpkpr(*deploy)
    [task] = live.tasks("shp")
    assert task["state"] == "TASK_RUNNING"
    shown = json.loads(shpkpr("apps", "show", "-a", "/shp"))
    assert "sleep 1000" in json.dumps(shown)
    shpkpr(*deploy, "SECONDS=2000")
    assert live.marathon("/v2/apps/shp")["app"]["cmd"] == "sleep 2000"
    live.ok("app", "remove", "shp", "--wait")


def test_marathon_deploy_brings_apps_out_and_changes_them(live: LiveBox, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv")
    environment.begin("marathon-deploy==3.0.2", "marathon==0.13.0")
    environment.finish()
    url = live.status()["marathon"]["url"]
    app = {"id": "/brought", "cmd": "sleep 1000", "cpus": 0.1, "mem": 32, "gpus": 1, "instances": 1}

    def deploy(*words: str) -> str:
        program = [environment.python, "-m", "marathon_deploy.deploytool", "--marathon", url, *words]
        return says(program, tmp_path, {"LC_ALL": "C.UTF-8"}, "YES\n")

    file = tmp_path / "brought.json"
    file.write_text(json.dumps(app))
    deploy("--put", str(file))
    [task] = live.tasks("brought")
    assert task["state"] == "TASK_RUNNING"
    file.write_text(json.dumps({**app, "cmd": "sleep 2000"}))
    deploy("--put", str(file))
    assert live.marathon("/v2/apps/brought")["app"]["cmd"] == "sleep 2000"
    deploy("--appid", "/brought", "--scale", "2")
    assert len(live.tasks("brought")) == 2
    before = {task["id"] for task in live.tasks("brought")}
    deploy("--appid", "/brought", "--restart")
    assert before.isdisjoint(task["id"] for task in live.tasks("brought"))
    assert deploy("--appid", "/brought", "--instances").strip().endswith("2")
    live.ok("app", "remove", "brought", "--wait")
    live.until("its GPUs are free", lambda: live.gpus_free() == 4)
