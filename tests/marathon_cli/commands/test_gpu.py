"""`mesos-gpu gpu` and `agent describe`, against scripted masters and agents."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pytest

from tests.support.golden import Golden
from tests.support.marathon_cli.scripted_server import Answer, Run, ScriptedServer
from tests.support.terminal import terminal

TASK = "train.instance-1._app.1"


@pytest.fixture
def cluster(marathon: ScriptedServer) -> ScriptedServer:
    """Two agents at one address: gpu1 with two GPUs, and cpu1 with none."""
    pid = f"slave(1)@{marathon.url.removeprefix('http://')}"
    amounts = {"cpus": 4, "gpus": 2, "mem": 8192, "disk": 1000}
    gpu1 = {"id": "A-S0", "hostname": "gpu1", "pid": pid, "resources": amounts, "used_resources": {"gpus": 1}}
    gpu1["attributes"] = {"gpu_model": "NVIDIA-H200"}
    cpu1 = {"id": "A-S1", "hostname": "cpu1", "pid": pid, "resources": {"cpus": 4}}
    marathon.on("GET", "/slaves", {"slaves": [gpu1, cpu1]})
    gpus: list[dict[str, Any]] = [
        {"uuid": "GPU-a", "index": 0, "name": "NVIDIA H200", "condition": "healthy", "task_id": TASK},
        {"uuid": "GPU-b", "index": 1, "name": "NVIDIA H200", "condition": "unhealthy", "reason": "XID 79"},
    ]
    gpus[0] |= {"utilization_percent": 93, "memory_used_mib": 100, "memory_total_mib": 143771, "power_w": 300.4}
    marathon.on("GET", "/gpus", Answer(200, gpus))
    task = {"id": TASK, "appId": "/train", "host": "gpu1", "slaveId": "A-S0", "state": "TASK_RUNNING"}
    marathon.on("GET", "/v2/tasks", {"tasks": [task]})
    apps = [{"id": "/train", "gpus": 1, "cpus": 1, "mem": 64, "instances": 1, "tasksRunning": 1, "cmd": "x"}]
    marathon.on("GET", "/v2/apps", {"apps": apps})
    mesos_task = {"id": TASK, "state": "TASK_RUNNING", "resources": {"cpus": 1, "gpus": 1, "mem": 4096, "disk": 0}}
    executors = [{"id": TASK, "tasks": [mesos_task]}]
    marathon.on("GET", "/state", {"frameworks": [{"name": "marathon", "executors": executors}]})
    return marathon


def test_gpus_are_listed_with_their_holders_and_illnesses(cluster: ScriptedServer, run: Run) -> None:
    lines = run("gpu", "list").output.splitlines()
    assert [line.split()[:2] for line in lines] == [["AGENT", "GPU"], ["gpu1", "0"], ["gpu1", "1"]]
    assert "/train" in lines[1]
    assert lines[2].endswith("XID 79")
    assert run("gpu", "list", "-q").output.split() == ["GPU-a", "GPU-b"]
    first, second = json.loads(run("gpu", "list", "-o", "json").output)
    assert (first["app"], first["task"], second["condition"]) == ("/train", TASK, "unhealthy")


DOORS = ("docker-args", "docker", "nvidia-runtime", "podman", "cdi", "nvidia-docker", "kubernetes", "oci")


def test_of_a_lent_gpu_the_door_and_its_holder_are_listed(cluster: ScriptedServer, run: Run) -> None:
    lent = [
        {"uuid": f"GPU-{n}", "index": n, "condition": "healthy", "lease_id": f"l{n}", "door": door, "holder": f"web{n}"}
        for n, door in enumerate(DOORS)
    ]
    cluster.on("GET", "/gpus", Answer(200, lent))
    lines = run("gpu", "list").output.splitlines()[1:]
    assert [f"{door}: web{n}" in line for n, (door, line) in enumerate(zip(DOORS, lines, strict=True))] == [True] * 8
    shown = json.loads(run("gpu", "list", "-o", "json").output)
    assert [(one["door"], one["lessee"], one["lease"]) for one in shown[:2]] == [
        ("docker-args", "web0", "l0"),
        ("docker", "web1", "l1"),
    ]


def test_top_shows_the_busiest_first_and_once_where_nobody_watches(cluster: ScriptedServer, run: Run) -> None:
    lines = run("gpu", "top").output.splitlines()
    assert "93 %" in lines[1]
    assert "100/143771 MiB" in lines[1]
    assert "300 W" in lines[1]


def test_top_draws_again_until_ctrl_c_and_leaves_the_terminal_as_it_was(cluster: ScriptedServer) -> None:
    env = {**os.environ, "MARATHON_URL": cluster.url, "MESOS_URL": cluster.url, "TERM": "xterm", "LANG": "C.UTF-8"}
    argv = [sys.executable, "-m", "marathon_cli", "gpu", "top", "--interval", "0.2"]
    with terminal() as tty, tty.run(argv, env) as top:
        tty.until(b" 93 %")
        assert tty.said.startswith(b"\x1b[?1049h\x1b[?25l\x1b[H2 GPUs, 1 held")  # the other screen, without a cursor
        busy = [{"uuid": "GPU-a", "index": 0, "condition": "healthy", "task_id": TASK, "utilization_percent": 41}]
        cluster.on("GET", "/gpus", Answer(200, busy))
        tty.until(b" 41 %")
        cluster.on("GET", "/slaves", Answer(503, b"no leader"))
        cluster.on("GET", "/gpus", Answer(500, b"broken"))
        tty.until(b"gpu1\x1b[K")  # the agent that does not answer, on a line above the table
        tty.type(b"\x03")
        assert tty.end(top) == 0
        assert tty.said.endswith(b"\x1b[?25h\x1b[?1049l")
        assert b"Traceback" not in tty.said


def test_types_say_how_to_ask_for_them(cluster: ScriptedServer, run: Run) -> None:
    assert "gpu_model:IS:NVIDIA-H200" in run("gpu", "types").output
    assert run("gpu", "types", "-o", "name").output == "nvidia-h200\n"


def test_tasks_and_apps_say_which_gpus_they_hold(cluster: ScriptedServer, run: Run) -> None:
    assert run("task", "list").output.splitlines()[1].split()[:3] == ["/train", "1", "0"]
    (task,) = json.loads(run("task", "list", "-o", "json").output)
    assert task["gpuDevices"] == [{"index": 0, "uuid": "GPU-a"}]
    assert run("app", "list").output.splitlines()[1].split()[:3] == ["/train", "1", "0@gpu1"]


def test_tasks_are_watched(cluster: ScriptedServer, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = {"id": TASK, "appId": "/train", "state": "TASK_RUNNING"}
    looks = [[begun], [begun], [begun, {**begun, "id": "train.instance-2._app.1"}]]

    def sleep(seconds: float) -> None:
        assert seconds == 0.3
        looks.pop(0)
        if not looks:
            raise KeyboardInterrupt

    cluster.on("GET", "/v2/tasks", lambda _: Answer(200, {"tasks": looks[0]}))
    monkeypatch.setattr("marathon_cli.console.console.time.sleep", sleep)
    done = run("task", "list", "-q", "--interval", "0.3")
    assert (done.exit_code, done.stdout) == (130, f"{TASK}\n\n{TASK}\ntrain.instance-2._app.1\n")


def test_agents_of_mesos_own_are_counted(cluster: ScriptedServer, run: Run) -> None:
    cluster.scripts.pop(("GET", "/gpus"))
    held, free = json.loads(run("gpu", "list", "-o", "json").stdout)
    assert (held["app"], held["condition"], "index" in held) == ("/train", "unknown", False)
    assert "task" not in free
    assert run("task", "list").output.splitlines()[1].split()[:3] == ["/train", "1", "---"]


def test_an_agent_that_fails_is_named_and_the_rest_is_shown(cluster: ScriptedServer, run: Run, golden: Golden) -> None:
    cluster.on("GET", "/gpus", Answer(500, b"broken"))
    done = run("gpu", "list")
    assert done.exit_code == 0
    assert done.stderr == golden
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["AGENT", "gpu1", "gpu1"]
    assert done.stdout == golden
    assert run("app", "list").exit_code == 0


def test_an_agent_is_described_for_people_and_programs(cluster: ScriptedServer, run: Run) -> None:
    text = run("agent", "describe", "gpu1").output
    for words in ("Name:          gpu1", "gpu_model=NVIDIA-H200", "1 (50%)", "GPU 1 is unhealthy: XID 79", TASK):
        assert words in text
    found = json.loads(run("agent", "describe", "S0", "-o", "json").output)
    assert found["tasks"][0]["share"]["gpus"] == 0.5
    assert run("agent", "describe", "gpu1", "-o", "name").output == "A-S0\n"
    assert run("agent", "describe", "gpu1", "-o", "jsonpath={.capacity.gpus}").output.strip() in ("2", "2.0")


def test_a_wrong_name_is_answered_with_what_there_is(cluster: ScriptedServer, run: Run) -> None:
    done = run("agent", "describe", "gpu2")
    assert done.exit_code == 1
    assert "did you mean gpu1?" in done.stderr


def test_types_keep_the_constraint_on_a_terminal_of_80_columns(cluster: ScriptedServer) -> None:
    env = {**os.environ, "MARATHON_URL": cluster.url, "MESOS_URL": cluster.url, "TERM": "dumb", "COLUMNS": "80"}
    with terminal() as tty, tty.run([sys.executable, "-m", "marathon_cli", "gpu", "types"], env) as types:
        assert tty.end(types) == 0
        lines = tty.said.decode().splitlines()
    assert lines[0].endswith("CONSTRAINT")
    assert lines[1].endswith("gpu_model:IS:NVIDIA-H200")
    assert max(map(len, lines)) <= 80
