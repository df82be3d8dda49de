"""The demo as a newcomer starts it: box, main job, two tables, and all of it gone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import EXAMPLES, ROOT

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]


def test_the_demo_runs_its_job_shows_two_tables_and_leaves_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "demo.py")],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("NVIDIA-SMI") >= 2, "on a slow machine more are printed before it looks"
    assert "TASK_RUNNING" in done.stdout
    assert done.stdout.endswith("\n  mesos-gpu up --detach\n")
    assert list(tmp_path.iterdir()) == []
