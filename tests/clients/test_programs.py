"""Programs that run something on Mesos, or look at it: a workflow engine, frameworks, an operator's command line.

What each does here stands in docs/reference/compatibility.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.clients.environments import HTTP_PARSER, Environment
from tests.support.box.live import LiveBox, leftovers
from tests.support.ports import free_port

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

# `mesos task exec` and `attach` of avmesos-cli name a package that it has renamed: it is there under both names.
BOTH_NAMES = "import builtins, avmesos; builtins.mesos = avmesos\n"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBox]:
    box = LiveBox(tmp_path_factory.mktemp("programs") / "box")
    try:
        box.up("--gpu_driver=simulated", "--simulated_gpus=4")
        yield box
    finally:
        box.cli("down")
    assert leftovers(box.work_dir) == []


@pytest.fixture(scope="module")
def master(live: LiveBox) -> str:
    return str(live.status()["master"]["url"]).removeprefix("http://")


def environment(folder: Path, *packages: str, alone: tuple[str, ...] = ()) -> Environment:
    """Return an environment with these packages, and with those `alone` without what they want."""
    made = Environment(folder / "venv")
    made.begin(*packages)
    made.finish()
    if alone:
        made.begin("--no-deps", *alone)
        made.finish()
    return made


def test_toil_runs_a_workflow_by_executors_of_its_own(live: LiveBox, master: str, tmp_path: Path) -> None:
    folder = tmp_path / "workflow"
    folder.mkdir()
    of_pymesos = ("addict", "six", "httptools", "psutil", str(HTTP_PARSER))
    made = environment(tmp_path, "toil==9.6.0", *of_pymesos, alone=("pymesos==0.3.15",))
    try:
        # The executor is found where the leader is, as in a virtual environment that all machines have.
        program = [made.python, str(Path(__file__).parent / "programs" / "toil_workflow.py"), master, str(folder)]
        done = subprocess.run(
            program,
            env={**os.environ, "TOIL_CHECK_ENV": "True", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert json.loads(done.stdout.splitlines()[-1]) == 0 + 1 + 4 + 9 + 16 + 25
    finally:
        made.close()
    shown = requests.get(f"http://{master}/frameworks", timeout=60).json()
    (toil,) = [one for one in shown["completed_frameworks"] + shown["frameworks"] if one["name"] == "toil-test"]
    states = [task["state"] for task in toil["completed_tasks"]]
    assert states.count("TASK_FINISHED") == len(states) >= 8


def test_mentos_runs_a_task_and_kills_another(live: LiveBox, master: str, tmp_path: Path) -> None:
    made = environment(tmp_path, "tornado==4.5.3", "toolz", "six", "zoonado", "setuptools<80", alone=("mentos==0.1.8",))
    told = json.loads(made.run("mentos_scheduler.py", master))
    assert told["ended"], told
    assert told["states"]["ends"][-2:] == ["TASK_RUNNING", "TASK_FINISHED"]
    assert told["states"]["killed"][-1] == "TASK_KILLED"
    assert "on_heartbeat" in told["heard"]
    assert "on_outbound_error" not in told["heard"]
    live.until("its GPUs are free", lambda: live.gpus_free() == 4)


def test_mesos_own_command_line_lists_enters_and_inspects(live: LiveBox, master: str, tmp_path: Path) -> None:
    packages = ("docopt", "kazoo", "parse", "toml", "six", "tenacity", "ujson", "requests", "setuptools<80")
    made = environment(tmp_path, *packages, alone=("avmesos-cli==1.0.0",))
    config = tmp_path / "config.toml"
    config.write_text(f'[master]\naddress = "{master}"\n[agent]\nssl = false\nssl_verify = false\ntimeout = 20\n')
    (tmp_path / "both").mkdir()
    (tmp_path / "both" / "sitecustomize.py").write_text(BOTH_NAMES)
    variables = {"MESOS_CLI_CONFIG": str(config), "PYTHONPATH": str(tmp_path / "both"), "PATH": os.environ["PATH"]}

    def mesos(*words: str, text: str = "") -> tuple[int, str, str]:
        program = [made.python, "-m", "avmesos.cli.mesos-cli", *words]
        done = subprocess.run(
            program, env=variables, input=text, capture_output=True, text=True, timeout=120, check=False
        )
        return done.returncode, done.stdout, done.stderr

    live.add({"id": "/entered", "cmd": "sleep 1000", "cpus": 0.1, "mem": 32, "gpus": 1})
    task_id = live.tasks("entered")[0]["id"]
    assert task_id in mesos("task", "list")[1]
    assert "True" in mesos("agent", "list")[1]
    assert "marathon" in mesos("framework", "list")[1]
    assert json.loads(mesos("task", "inspect", task_id)[1])["resources"]["gpus"] == 1
    assert mesos("task", "exec", task_id, "sh", "-c", "echo out; echo err >&2; exit 3") == (3, "out\n", "err\n")
    assert mesos("task", "exec", "-i", task_id, "cat", text="typed here\n") == (0, "typed here\n", "")
    assert mesos("task", "exec", task_id, "nvidia-smi", "-L")[1].count("UUID") == 1
    live.ok("app", "remove", "entered", "--wait")


def test_what_scrapes_the_tasks_of_an_agent_finds_them(live: LiveBox, tmp_path: Path) -> None:
    agent = str(live.status()["agents"][0]["url"]).removeprefix("http://")
    host, port = agent.split(":")
    labels = {"prometheus.metrics.enabled": "true"}
    command = f"echo served_total 1 > metrics; exec {sys.executable} -m http.server --bind 127.0.0.1 $PORT0"
    ports = [{"port": 0, "name": "metrics"}]
    live.add({"id": "/served", "cmd": command, "cpus": 0.1, "mem": 64, "portDefinitions": ports, "labels": labels})
    made = environment(tmp_path, "requests", "six", alone=("mae==1.0.11",))
    own = free_port()
    with subprocess.Popen(
        [made.python, "-c", "from mae.cli import main; main()", str(own), host, port],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as exporter:
        try:
            url = f"http://127.0.0.1:{own}/metrics"
            live.until("it is scraped", lambda: "served_total 1" in requests.get(url, timeout=20).text)
        finally:
            exporter.terminate()
    live.ok("app", "remove", "served", "--wait")


def test_paastas_library_reads_the_cluster_and_a_task(live: LiveBox, master: str, tmp_path: Path) -> None:
    wanted = ("aiohttp", "kazoo", "mypy_extensions", "retry", "typing_extensions")
    made = environment(tmp_path, *wanted, alone=("paasta-tools==1.64.0",))
    live.add({"id": "/read", "cmd": "echo ready; sleep 1000", "cpus": 0.1, "mem": 32, "gpus": 1})
    task_id = live.tasks("read")[0]["id"]
    told = json.loads(made.run("paasta_mesos.py", master, task_id))
    assert (told["agents"], told["frameworks"], told["user"]) == ([True], ["marathon"], "root")
    assert (told["gpus_used"], told["stdout"]) == (1, len("ready\n"))
    assert told["rss"] > 0
    assert told["agent"] == requests.get(f"http://{master}/slaves", timeout=60).json()["slaves"][0]["id"]
    live.ok("app", "remove", "read", "--wait")


def test_metronomes_client_manages_jobs(live: LiveBox, tmp_path: Path) -> None:
    made = environment(tmp_path, "requests", "protobuf==3.20.3", alone=("dcos-metronome==0.3.0",))
    told = json.loads(made.run("metronome_jobs.py", str(live.status()["marathon"]["url"])))
    assert (told["created"], told["schedule"], told["schedules"]) == ("by.client", "1 1 * * *", ["nightly"])
    assert "by.client" in told["listed"]
    assert (told["tasks"], told["changed"]) == (1, "true")
    assert "gone" in told, "the client raised NotFoundError"
