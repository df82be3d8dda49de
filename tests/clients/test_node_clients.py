"""What other people wrote for Mesos and Marathon in JavaScript, unchanged, against the box."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.clients.environments import PROGRAMS
from tests.support.box.live import LiveBox, leftovers
from tests.support.ui.browser import running

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

PACKAGES = (
    *("marathon-node@1.1.0", "mesos@0.7.0", "mesos-framework@0.5.3", "marathon-event-bus-client@0.1.7"),
    # The client of DC/OS' dashboard is for browsers: what brings its parts together, and Node's events for them.
    *("@dcos/mesos-client@1.0.0", "esbuild@0.28.2", "events@3.3.0"),
)

Run = Callable[..., Any]

ASKS = """type => new Promise((ok, no) => client.request({type}, "/api/v1").subscribe(
  ok, error => no(new Error(JSON.stringify(error)))))"""
HEARS = """count => new Promise((ok, no) => {
  const kinds = [];
  const stream = client.stream({type: "SUBSCRIBE"}, "/api/v1").subscribe(event => {
    kinds.push(JSON.parse(event).type);
    if (kinds.length === count) { stream.unsubscribe(); ok(kinds); }
  }, error => no(new Error(JSON.stringify(error))));
})"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which the packages are installed."""
    folder = tmp_path_factory.mktemp("npm")
    npm = ["npm", "install", "--silent", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts"]
    done = subprocess.run([*npm, "--prefix", str(folder), *PACKAGES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{PACKAGES}: {done.stdout}{done.stderr}"
    (folder / "logs").mkdir()  # mesos-framework writes there, and does not make it
    return folder


@pytest.fixture(scope="module")
def run(packages: Path) -> Run:
    """Return what runs a program beside the packages and reads what it printed."""

    def go(program: str, *words: str) -> Any:
        shutil.copy(PROGRAMS / "node" / program, packages)
        told = subprocess.run(
            ["node", program, *words],
            cwd=packages,
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


def test_the_event_bus_client_hears_what_becomes_of_an_app(live: LiveBox, run: Run) -> None:
    marathon = urlsplit(live.status()["marathon"]["url"])
    told = run("marathon_events.js", str(marathon.hostname), str(marathon.port))
    assert told["deployment_info"] >= 1
    assert told["status_update_event"] >= 2
    assert told["instance_changed_event"] >= 2
    live.ok("app", "remove", "by-events", "--wait")


def test_the_client_of_dcos_dashboard_streams_from_the_master_in_a_browser(live: LiveBox, packages: Path) -> None:
    (packages / "entry.js").write_text('export { stream, request } from "@dcos/mesos-client";\n')
    bundle = packages / "bundle.js"
    words = ["entry.js", "--bundle", "--format=iife", "--global-name=client", f"--outfile={bundle}"]
    done = subprocess.run(
        ["node", "node_modules/esbuild/bin/esbuild", *words, '--define:process.env.NODE_ENV="production"'],
        cwd=packages,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with running() as browser:
        page = browser.new_page()
        page.goto(f"{live.status()['master']['url']}/version")
        page.add_script_tag(path=bundle)
        state = page.evaluate(ASKS, "GET_STATE")
        assert json.loads(state)["get_state"]["get_agents"]["agents"]
        live.add({"id": "/seen", "cmd": "sleep 1000", "cpus": 0.1, "mem": 32})
        kinds = page.evaluate(HEARS, 2)
        assert kinds == ["SUBSCRIBED", "HEARTBEAT"]
        page.close()
    live.ok("app", "remove", "seen", "--wait")
