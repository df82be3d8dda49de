"""What other people wrote for Mesos and Marathon in JavaScript, unchanged, against the box."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.clients.environments import PROGRAMS
from tests.support.box.live import LiveBox, leftovers

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

PACKAGES = ("marathon-node@1.1.0", "mesos@0.7.0", "mesos-framework@0.5.3")

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return what runs a program beside the packages and reads what it printed."""
    folder = tmp_path_factory.mktemp("npm")
    npm = ["npm", "install", "--silent", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts"]
    done = subprocess.run([*npm, "--prefix", str(folder), *PACKAGES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{PACKAGES}: {done.stdout}{done.stderr}"
    (folder / "logs").mkdir()  # mesos-framework writes there, and does not make it

    def go(program: str, *words: str) -> Any:
        shutil.copy(PROGRAMS / "node" / program, folder)
        told = subprocess.run(
            ["node", program, *words],
            cwd=folder,
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert told.returncode == 0, told.stdout + told.stderr
        return json.loads(told.stdout.splitlines()[-1])

    return go


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBox]:
    box = LiveBox(tmp_path_factory.mktemp("box"))
    try:
        # mesos-framework knows nothing of GPU_RESOURCES, so it is offered the second agent alone.
        box.up("--pool=name=gpus,agents=1,gpus=4", "--pool=name=plain,agents=1,gpus=0")
        yield box
    finally:
        box.cli("down")
    assert leftovers(box.work_dir) == []


def test_marathon_node_creates_changes_restarts_kills_and_listens(live: LiveBox, run: Run) -> None:
    told = run("marathon_node.js", live.status()["marathon"]["url"], "/by-node")
    assert told["listed"] == [["/by-node", 1]]
    assert (told["keeps"], told["killed"], told["leads"]) == (True, True, True)
    assert told["instances"] == 2
    assert (told["queue"], told["ping"], told["left"]) == ([], "pong", [])
    assert told["group"] == ["/node/one"]
    kinds = [state or kind for kind, state in told["events"]]
    # Two, two more in their place, one more for the killed one, and the group's.
    assert kinds.count("TASK_RUNNING") == 6
    assert kinds.count("TASK_KILLED") == 6
    assert "deployment_success" in kinds
    live.until("its GPUs are free", lambda: live.gpus_free() == 4)


def test_the_client_of_the_package_mesos_runs_scales_and_removes_an_app(live: LiveBox, run: Run) -> None:
    marathon = urlsplit(live.status()["marathon"]["url"])
    told = run("mesos_marathon.js", str(marathon.hostname), str(marathon.port), "by-mesos")
    assert told == {"listed": ["/by-mesos"], "gpus": 1, "versions": 1, "killed": 2}
    live.until("its GPUs are free", lambda: live.gpus_free() == 4)


def test_a_framework_by_mesos_framework_keeps_its_task_running(live: LiveBox, run: Run) -> None:
    master = urlsplit(live.status()["master"]["url"])
    told = run("mesos_framework.js", str(master.hostname), str(master.port), "3")
    assert told["errors"] == []
    assert told["stream"] == 36
    assert told["heartbeats"] >= 1
    assert told["states"] == ["TASK_STARTING", "TASK_RUNNING", "TASK_FINISHED"] * 3
