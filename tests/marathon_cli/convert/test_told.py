"""What cannot be carried over is told, and what runs once is not started again by accident."""

from __future__ import annotations

from typing import Any

import pytest

from marathon_cli.convert.manifests import Conversion, convert
from tests.support.golden import Golden

POD = "{restartPolicy: RESTART, containers: [{name: c, image: i, command: [x], stdin: true, tty: true}]}"
CRON = f"""apiVersion: batch/v1
kind: CronJob
metadata: {{name: nightly}}
spec:
  schedule: "0 3 * * *"
  jobTemplate:
    spec:
      EXTRA
      template: {{spec: {POD}}}
"""


def cron(restart: str, extra: str = "") -> Conversion:
    return convert(CRON.replace("RESTART", restart).replace("EXTRA", extra), "file", environ={})


def docker(line: str, **settings: Any) -> Conversion:
    return convert(f"docker run {line}", "line", environ={}, **settings)


@pytest.mark.parametrize(
    ("restart", "extra", "policy", "differs"),
    [
        ("Never", "", "NEVER", True),
        ("Never", "backoffLimit: 3", "NEVER", True),
        ("Never", "backoffLimit: 0", "NEVER", False),
        ("OnFailure", "", "ON_FAILURE", True),
        ("OnFailure", "backoffLimit: 0", "NEVER", False),
    ],
)
def test_a_job_is_started_again_only_where_its_pod_is(
    restart: str, extra: str, policy: str, differs: bool, golden: Golden
) -> None:
    done = cron(restart, extra)
    assert done.documents[0].document["run"]["restart"]["policy"] == policy
    notes = [line for line in done.notes.lines() if "backoffLimit" in line]
    assert bool(notes) == differs
    assert not differs or notes == golden


def told(done: Conversion, begin: str) -> bool:
    return any(note.lost and note.place.path == begin for note in done.notes.all)


def test_input_and_terminal_of_a_job_are_told() -> None:
    done = cron("Never")
    assert told(done, "spec.jobTemplate.spec.template.spec.containers[0].stdin")
    assert told(done, "spec.jobTemplate.spec.template.spec.containers[0].name")


def test_dockers_input_terminal_and_group_are_told(golden: Golden) -> None:
    done = docker("-it -u 1000:100 --restart=no --rm busybox sh")
    assert done.documents[0].document["run"]["user"] == "1000"
    assert told(done, "-i")
    assert told(done, "-u")
    assert done.notes.lines() == golden
    app = docker("-i=false -t -u 1000 busybox sh", form="app")
    assert app.documents[0].document["tty"] is True
    assert not told(app, "-i")
    assert not told(app, "-u")


def test_composes_input_and_group_are_told() -> None:
    text = 'services: {a: {image: i, command: x, user: "1:2", stdin_open: true}}\n'
    done = convert(text, "file", environ={})
    assert done.documents[0].document["user"] == "1"
    assert told(done, "services.a.user")
    assert told(done, "services.a.stdin_open")
    assert "user" not in convert(text.replace("1:2", ":2"), "file", environ={}).documents[0].document


def test_what_becomes_of_the_variables_of_cgpu_is_told(golden: Golden) -> None:
    names = "-e ALIYUN_COM_GPU_MEM_CONTAINER=4 -e ALIYUN_COM_GPU_SCHD_WEIGHT=2"
    lines = docker(f"--gpus 2 {names} busybox").notes.lines()
    assert lines == golden
    alone = docker("-e ALIYUN_COM_GPU_SCHD_WEIGHT=2 busybox")
    assert alone.documents[0].document["run"]["env"] == {"ALIYUN_COM_GPU_SCHD_WEIGHT": "2"}
    assert alone.notes.lines() == golden
