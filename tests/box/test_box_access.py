"""A box asks who is there: its owner's programs get on as before, and nobody else gets anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.support.box.live import LiveBox, nothing_left
from tests.support.golden import Golden
from tests.support.places import EXAMPLES

pytestmark = pytest.mark.root
POD = {
    "id": "/pod",
    "containers": [
        {"name": "one", "exec": {"command": {"shell": "echo up; sleep 1000"}}, "resources": {"cpus": 0.1, "mem": 32}}
    ],
}


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBox]:
    box = LiveBox(Path(tmp_path_factory.mktemp("closed")) / "box")
    with nothing_left(box):
        assert "mesos-gpu finds it by itself" in box.up("--gpu_driver=simulated", "--simulated_gpus=2", asks=True)
        yield box


def urls(box: LiveBox) -> tuple[str, str, str]:
    status = box.status()
    return status["master"]["url"], status["agents"][0]["url"], status["marathon"]["url"]


def test_who_shows_nothing_gets_nothing_but_the_way_in(closed: LiveBox) -> None:
    master, agent, marathon = urls(closed)
    app = {"id": "/theirs", "cmd": "head -1 /etc/shadow", "cpus": 0.1, "mem": 32}
    subscribe = {"type": "SUBSCRIBE", "subscribe": {"framework_info": {"user": "root", "name": "theirs"}}}
    answers = [
        requests.get(f"{master}/state", timeout=30),
        requests.post(f"{master}/api/v1", json={"type": "GET_STATE"}, timeout=30),
        requests.post(f"{master}/api/v1/scheduler", json=subscribe, timeout=30),
        requests.get(f"{agent}/state", timeout=30),
        requests.get(f"{agent}/files/browse?path=/", timeout=30),
        requests.get(f"{agent}/gpus", timeout=30),
        requests.post(f"{agent}/api/v1", json={"type": "GET_CONTAINERS"}, timeout=30),
        requests.get(f"{marathon}/v2/apps", timeout=30),
        requests.get(f"{marathon}/v2/events", headers={"Accept": "text/event-stream"}, timeout=30),
        requests.post(f"{marathon}/v2/apps", json=app, timeout=30),
        requests.post(f"{marathon}/v1/jobs", json={"id": "j"}, timeout=30),
        requests.get(f"{marathon}/v2/apps", auth=("box", "guessed"), timeout=30),
    ]
    for answer in answers:
        assert answer.status_code == 401, answer.url
        assert answer.headers["WWW-Authenticate"].startswith("Basic realm=")
        assert all(word in answer.text for word in ("curl: --netrc-file", "pymesos: principal=", "A browser:"))
        assert (closed.work_dir / "access" / "secret").read_text() not in answer.text
    assert requests.get(f"{master}/health", timeout=30).ok


def test_the_command_line_finds_the_credential_by_itself(closed: LiveBox) -> None:
    closed.add({"id": "gpu", "cmd": "nvidia-smi -L; sleep 1000", "cpus": 0.1, "mem": 32, "gpus": 1})
    closed.until("its GPU is shown", lambda: "GPU 0" in closed.log_of("gpu"))
    assert closed.ok("task", "exec", "gpu", "echo", "inside") == "inside\n"
    assert "gpu" in closed.ok("gpu", "list")
    assert "/gpu runs" in closed.ok("why", "gpu")
    assert closed.ok("run", "--", "echo", "once") == "once\n"
    closed.ok("pod", "add", "-", "--wait", text=json.dumps(POD))
    closed.until("the pod is up", lambda: "up" in closed.log_of("pod"))
    assert closed.ok("task", "exec", "pod", "echo", "inside") == "inside\n"
    _, _, marathon = urls(closed)
    page = closed.cli("ui", "--print")
    assert page.stdout.startswith(f"{marathon}/ui/#ticket=")
    assert f"{closed.work_dir}/access/secret" in page.stderr
    assert "/gpu" in closed.ok("--marathon-url", marathon, "app", "list")
    closed.ok("pod", "remove", "pod", "--wait")
    closed.ok("app", "remove", "gpu", "--wait")


def test_another_user_is_not_let_in_and_the_state_of_services_is_told_all_the_same(
    closed: LiveBox, golden: Golden
) -> None:
    # The services are asked as somebody would who cannot read the credential.
    hidden = closed.work_dir / "access"
    moved = hidden.rename(closed.work_dir / "hidden")
    try:
        refused = closed.cli("run", "--", "head", "-1", "/etc/shadow")
        shown = closed.cli("status")
    finally:
        moved.rename(hidden)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == golden.hide(marathon=urls(closed)[2])
    assert shown.returncode == 0
    assert "? of 2" in shown.stdout


def test_a_pymesos_program_shows_the_credential_or_is_told_how(closed: LiveBox) -> None:
    master = urls(closed)[0].removeprefix("http://")
    command = [sys.executable, str(EXAMPLES / "gpu_framework.py"), master, "echo", "from", "pymesos"]
    secret = (closed.work_dir / "access" / "secret").read_text()
    known = {**os.environ, "MESOS_PRINCIPAL": "box", "MESOS_SECRET": secret}
    done = subprocess.run(command, env=known, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, "TASK_FINISHED" in done.stdout) == (0, True), done.stdout + done.stderr
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as stranger:
        assert stranger.stdout is not None
        try:
            said = next(line for line in stranger.stdout if "401 Unauthorized" in line)
        finally:
            stranger.kill()
    assert "secret=open(" in said


def test_what_runs_goes_on_when_the_box_comes_back(closed: LiveBox) -> None:
    closed.add({"id": "stays", "cmd": "sleep 1000", "cpus": 0.1, "mem": 32})
    (before,) = closed.ok("task", "list", "-q").split()
    closed.ok("down", "--keep_tasks")
    closed.up("--gpu_driver=simulated", "--simulated_gpus=2", "--open")
    closed.until("the same task is known", lambda: closed.ok("task", "list", "-q").split() == [before])
    assert requests.get(f"{urls(closed)[2]}/v2/apps", timeout=30).ok
    closed.ok("down", "--keep_tasks")
    closed.up("--gpu_driver=simulated", "--simulated_gpus=2", asks=True)
    closed.until("the same task is known again", lambda: closed.ok("task", "list", "-q").split() == [before])
    closed.ok("app", "remove", "stays", "--wait")
