"""Apps, pods and jobs that are ended have their grace period, in whichever form their command is written."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from mesos_gpu.testing.box import MesosBox as Box
from mesos_gpu.testing.factory import BoxFactory
from tests.support.grace import command, trainer

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(180)]

FORMS = ("plain", "cd", "pipe", "bash")
GRACE_S = 60
WORK_S = 3.5
"""Longer than the grace period of a Mesos task that asks for none, which is 3 s."""
SIZE = {"cpus": 0.1, "mem": 64}


class Trainings:
    """One training for each form of command."""

    def __init__(self, box: Box, folder: Path) -> None:
        self._box, self._folder = box, folder
        self._program = folder / "train.py"
        self._program.write_text(trainer(WORK_S))

    def command(self, form: str) -> str:
        """Return the command of one of them."""
        (self._folder / form).mkdir()
        return command(form, f"{self._program} {self._folder / form}")

    def until_up(self) -> None:
        """Return when all of them run."""
        self._box.until("all run", lambda: all((self._folder / form / "up").exists() for form in FORMS))

    def check(self, end: Callable[[], None]) -> None:
        """End them all, and check that each had its time, and no more than it needed."""
        began = time.monotonic()
        end()
        done = [self._folder / form / "checkpoint" for form in FORMS]
        self._box.until("their tasks are over", lambda: not running(self._box), GRACE_S)
        assert WORK_S <= time.monotonic() - began < GRACE_S / 2
        assert [path.read_text() for path in done if path.exists()] == ["complete"] * len(FORMS)


def call(box: Box, method: str, path: str, document: Any = None) -> Any:
    answer = requests.request(method, f"{box.marathon_url}{path}", json=document, timeout=30)
    assert answer.status_code < 300, answer.text
    return answer.json() if answer.content else None


def running(box: Box) -> list[str]:
    """Return the tasks that have not ended."""
    return [task["id"] for framework in box.state()["frameworks"] for task in framework["tasks"]]


def drain(box: Box) -> None:
    """Drain the one agent, with more time than the tasks ask for."""
    grace = {"seconds": 2 * GRACE_S}
    (agent,) = box.state()["slaves"]
    body = {"type": "DRAIN_AGENT", "drain_agent": {"agent_id": {"value": agent["id"]}, "max_grace_period": grace}}
    answer = requests.post(f"{box.url}/api/v1", json=body, timeout=30)
    assert answer.status_code == 200, answer.text


@pytest.fixture
def box(mesos_box: BoxFactory) -> Box:
    return mesos_box(gpus=1, marathon=True)


@pytest.mark.parametrize("how", ["kill", "drain"])
def test_apps(box: Box, tmp_path: Path, how: str) -> None:
    trainings = Trainings(box, tmp_path)
    for form in FORMS:
        app = {"id": f"/{form}", "cmd": trainings.command(form), "taskKillGracePeriodSeconds": GRACE_S, **SIZE}
        call(box, "POST", "/v2/apps", app)
    trainings.until_up()

    def end() -> None:
        if how == "drain":
            drain(box)
            return
        for form in FORMS:
            call(box, "DELETE", f"/v2/apps/{form}/tasks?scale=true")

    trainings.check(end)


@pytest.mark.parametrize("how", ["kill", "drain"])
def test_pods(box: Box, tmp_path: Path, how: str) -> None:
    trainings = Trainings(box, tmp_path)
    containers = [
        {
            "name": form,
            "exec": {"command": {"shell": trainings.command(form)}},
            "resources": SIZE,
            "lifecycle": {"killGracePeriodSeconds": GRACE_S},
        }
        for form in FORMS
    ]
    pod: dict[str, Any] = {"id": "/pod", "containers": containers}
    call(box, "POST", "/v2/pods", pod)
    trainings.until_up()

    def end() -> None:
        if how == "drain":
            drain(box)
        else:
            call(box, "DELETE", "/v2/pods/pod?force=true")

    trainings.check(end)


def test_jobs(box: Box, tmp_path: Path) -> None:
    trainings = Trainings(box, tmp_path)
    for form in FORMS:
        run = {"cmd": trainings.command(form), "taskKillGracePeriodSeconds": GRACE_S, "disk": 0, **SIZE}
        call(box, "POST", "/v1/jobs", {"id": form, "run": run})
        call(box, "POST", f"/v1/jobs/{form}/runs")
    trainings.until_up()

    def end() -> None:
        for form in FORMS:
            (run,) = call(box, "GET", f"/v1/jobs/{form}/runs")
            call(box, "POST", f"/v1/jobs/{form}/runs/{run['id']}/actions/stop")

    trainings.check(end)
