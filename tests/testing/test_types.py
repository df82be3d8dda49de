"""What a type checker tells a user of the fixtures: mypy, over a user's test, as it stands in a project of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import ROOT

USERS_TEST = """\
from mesos_gpu.testing import BoxFactory


def test_training(mesos_box: BoxFactory) -> None:
    box = mesos_box(gpus=4, agents=2, marathon=True)
    reveal_type(box)
    agent = box.agents[0]
    reveal_type(agent)
    box.masster
    mesos_box(gpu=4)
"""


@pytest.mark.slow
def test_what_a_box_is_needs_no_annotation_but_the_fixtures(tmp_path: Path) -> None:
    file = tmp_path / "test_training.py"
    file.write_text(USERS_TEST)
    # Not our own settings, and not our folder: what is there is found as an installed package is, by its py.typed.
    words = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        f"--cache-dir={tmp_path}",
        "--no-error-summary",
    ]
    done = subprocess.run(
        [*words, "--follow-imports=silent", file.name],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert re.findall(r'Revealed type is "(.*)"', done.stdout) == [
        "mesos_gpu.testing.box.MesosBox",
        "mesos_gpu.testing.box.BoxAgent",
    ], done.stdout + done.stderr
    errors = [line.partition("error: ")[2] for line in done.stdout.splitlines() if "error: " in line]
    assert len(errors) == 2, done.stdout
    assert errors[0].startswith('"MesosBox" has no attribute "masster"; maybe "master"?')
    assert errors[1].startswith('Unexpected keyword argument "gpu" for "__call__" of "BoxFactory"')
