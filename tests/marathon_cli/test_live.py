"""The commands against a live box: one for the module, with two agents of four simulated GPUs each."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from marathon_cli.main import cli
from tests.support.box.live import LiveBox, leftovers

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

SLEEPER = {"cmd": "sleep 1000", "cpus": 0.1, "mem": 32, "gpus": 1, "instances": 2}
Tell = Callable[..., Result]


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBox]:
    box = LiveBox(tmp_path_factory.mktemp("cli") / "box")
    box.up("--gpu_driver=simulated", "--simulated_gpus=4", "--agents=2")
    yield box
    done = box.cli("down")
    assert done.returncode == 0, f"{done.stderr}\n{box.logs()}"
    assert leftovers(box.work_dir) == []


@pytest.fixture
def tell(box: LiveBox, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tell]:
    """Run a command; afterwards nothing of the test is left in the box."""
    for name in [name for name in os.environ if name.startswith(("MARATHON_", "MESOS_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MESOS_GPU_WORK_DIR", str(box.work_dir))

    def invoke(*words: str, stdin: Any = None, status: int = 0) -> Result:
        text = stdin if stdin is None or isinstance(stdin, str) else json.dumps(stdin)
        result = CliRunner().invoke(cli, words, input=text)
        assert result.exit_code == status, f"{words}: {result.exit_code}\n{result.stdout}\n{result.stderr}"
        return result

    yield invoke
    invoke("group", "remove", "/", "--yes", "--force", "--wait")
    box.until("all GPUs are free", lambda: box.gpus_free() == 8)


def test_the_life_of_an_app(tell: Tell) -> None:
    said = tell("app", "add", "-", "--wait", stdin=f"id: train\n{_yaml(SLEEPER)}")
    assert "/train: 2 of 2 running" in said.stderr
    row = tell("app", "list").stdout.splitlines()[1].split()
    assert row[:2] == ["/train", "1"]
    assert "2/2" in row
    ids = set(tell("task", "list", "train", "-q").stdout.split())
    shown = tell("task", "show", min(ids)[:-1], "-o", "jsonpath={.state} {.gpus}").stdout
    assert shown == "TASK_RUNNING 1\n"
    before = tell("app", "show", "train", "-o", "jsonpath={.version}").stdout.strip()

    tell("app", "update", "train", "env.MODE=fast", "labels.team=vision", "--wait", "--diff")
    assert tell("app", "show", "train", "-o", "jsonpath={.env.MODE}").stdout == "fast\n"
    assert tell("app", "list", "-l", "team==vision", "-q").stdout == "/train\n"
    assert ids.isdisjoint(tell("task", "list", "train", "-q").stdout.split())
    tell("app", "update", "train", "labels.team=null", "--dry-run")
    assert tell("app", "versions", "train", "-q").stdout.split()[-1] == before
    tell("app", "update", "train", "version=-1", "--wait")
    assert tell("app", "show", "train", "-o", "jsonpath={.env}").stdout == "{}\n"

    tell("app", "scale", "train", "3", "--wait")
    tell("app", "stop", "train", "--wait")
    assert tell("task", "list", "-q").stdout == ""
    tell("app", "stop", "train", status=1)
    tell("app", "start", "train", "1", "--wait")
    tell("app", "restart", "train", "--wait")
    old = tell("task", "list", "train", "-q").stdout
    assert tell("app", "kill", "train").stdout == f"Killed tasks: {old}"
    tell("app", "remove", "train", "--wait")
    assert tell("app", "list", "-q").stdout == ""
    assert "did you mean" not in tell("app", "show", "train", status=1).stderr


def test_what_cannot_be_is_told_and_led_back(tell: Tell) -> None:
    tell("app", "add", "-", "--wait", stdin={"id": "a", **SLEEPER})
    words = ("app", "scale", "a", "50", "--rollback-on-failure", "--timeout", "1")
    said = tell(*words, status=4).stderr
    assert "/a waits: " in said
    assert said.splitlines()[0].startswith("/a: step 1 of 1 (ScaleApplication): ")
    assert tell("app", "show", "a", "-o", "jsonpath={.instances} {.tasksRunning}").stdout == "2 2\n"

    tell("app", "add", "-", stdin={"id": "big", **SLEEPER, "gpus": 5})
    (deployment,) = json.loads(tell("deployment", "list", "big", "-o", "json").stdout)
    assert tell("queue", "list", "-q").stdout == "/big\n"
    tell("app", "update", "big", "gpus=1", status=1)  # locked
    assert f"Stopped {deployment['id']}" in tell("deployment", "stop", deployment["id"][:8]).stdout
    assert tell("deployment", "list", "-q").stdout == ""


def test_groups_deploy_as_one(tell: Tell, tmp_path: Path) -> None:
    apps = [{"id": "db", **SLEEPER, "instances": 1}, {"id": "web", **SLEEPER, "dependencies": ["../db"]}]
    file = tmp_path / "group.json"
    file.write_text(json.dumps({"id": "prod", "apps": [{**app, "dependencies": []} for app in apps]}))
    steps = tell("group", "add", str(file), "--dry-run", "-o", "json")
    assert {action["app"] for step in json.loads(steps.stdout) for action in step["actions"]} == {
        "/prod/db",
        "/prod/web",
    }
    tell("group", "add", str(file), "--wait")
    tell("group", "add", str(file), status=1)
    assert tell("group", "list").stdout.splitlines()[1].split()[:5] == ["/prod", "2", "0", "3", "3"]
    tell("group", "scale", "prod", "2", "--wait")
    assert tell("app", "list", "-o", "jsonpath={[*].tasksRunning}").stdout == "2 4\n"
    tell("group", "remove", "prod", "--wait")
    assert tell("app", "list", "-q").stdout == ""


def test_pods_run_side_by_side(tell: Tell) -> None:
    container = {"exec": {"command": {"shell": "sleep 1000"}}}
    pod = {
        "id": "pair",
        "containers": [
            {"name": "train", "resources": {"cpus": 0.1, "mem": 32, "gpus": 1}, **container},
            {"name": "log", "resources": {"cpus": 0.1, "mem": 32}, **container},
        ],
        "scaling": {"kind": "fixed", "instances": 1},
    }
    assert "/pair: 1 of 1 running" in tell("pod", "add", "-", "--wait", stdin=pod).stderr
    assert tell("pod", "list").stdout.splitlines()[1].split()[:4] == ["/pair", "1", "1/1", "STABLE"]
    (instance,) = tell("pod", "show", "pair", "-q").stdout.split()
    tell("pod", "update", "pair", "environment.MODE=fast", "--wait")
    assert tell("pod", "show", "pair", "-o", "jsonpath={.spec.environment.MODE}").stdout == "fast\n"
    tell("pod", "kill", "pair", instance, status=1)
    tell("pod", "remove", "pair", "--wait")
    assert tell("pod", "list", "-q").stdout == ""


def test_jobs_run_to_their_end(tell: Tell) -> None:
    job = {"id": "train", "run": {"cmd": "ls /dev/nvidia[0-9]", "cpus": 0.1, "mem": 32, "gpus": 1}}
    nightly = {"id": "nightly", "cron": "0 3 * * *"}
    tell("job", "add", "-", stdin={**job, "schedules": [nightly]})
    assert tell("job", "list", "-q").stdout == "train\n"
    assert tell("job", "schedule", "list", "train").stdout.splitlines()[1].split()[0] == "nightly"
    (run,) = tell("job", "run", "train", "--wait", "-q").stdout.split()
    tell("job", "update", "train", "run.cmd=exit 3")
    tell("job", "run", "train", "--wait", status=1)
    statuses = [line.split()[1] for line in tell("job", "history", "train").stdout.splitlines()[1:]]
    assert statuses == ["FAILED", "SUCCESS"]
    assert run in tell("job", "history", "train", "-q").stdout
    tell("job", "update", "train", "run.cmd=sleep 1000")
    (endless,) = tell("job", "run", "train", "-q").stdout.split()
    tell("job", "remove", "train", status=1)
    assert tell("job", "kill", "train", "-q").stdout.split() == [endless]
    tell("job", "schedule", "remove", "train", "nightly")
    tell("job", "remove", "train", "--stop-runs")
    assert tell("job", "list", "-q").stdout == ""


def test_an_agent_is_drained_and_comes_back(tell: Tell) -> None:
    agents = tell("agent", "list", "-q").stdout.split()
    assert len(agents) == 2
    tell("agent", "drain", agents[0], "--wait")
    states = {line.split()[1] for line in tell("agent", "list").stdout.splitlines()[1:]}
    assert states == {"active", "drained"}
    tell("agent", "reactivate", agents[0])
    tell("agent", "deactivate", agents[1])
    tell("agent", "reactivate", agents[1])
    assert {line.split()[1] for line in tell("agent", "list").stdout.splitlines()[1:]} == {"active"}


def test_marathon_says_what_it_is(tell: Tell, box: LiveBox) -> None:
    assert tell("ping").stdout.startswith("pong from ")
    assert tell("about", "-o", "jsonpath={.name}").stdout == "marathon\n"
    assert tell("leader").stdout.strip() in box.status()["marathon"]["url"]
    assert tell("marathon", "deployment", "list").stdout.startswith("ID")


def _yaml(document: dict[str, Any]) -> str:
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in document.items())
