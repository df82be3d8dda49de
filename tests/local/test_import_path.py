"""Programs of a box import nothing from the folder that they are started in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mesos_gpu.local.plan import program
from mesos_gpu.testing.plan import fork_server_command

TRAP = "import pathlib; pathlib.Path('trapped').touch()\n"


@pytest.mark.parametrize(
    "command",
    [
        pytest.param([*program("mesos_gpu.master.service"), "--version"], id="this Python"),
        pytest.param([*program("mesos_gpu.master.service", (3, 10)), "--version"], id="3.10"),
        pytest.param([*program("mesos_gpu.local"), "{}", "0"], id="supervisor"),
        pytest.param(fork_server_command(0, 0), id="boxes of tests"),
    ],
)
def test_nothing_of_the_present_folder_runs(command: list[str], tmp_path: Path) -> None:
    for name in ("json", "asyncio", "logging", "runpy"):
        (tmp_path / f"{name}.py").write_text(TRAP)
    (tmp_path / "mesos_gpu").mkdir()
    (tmp_path / "mesos_gpu" / "__init__.py").write_text(TRAP)
    subprocess.run([sys.executable, "-c", "import json"], cwd=tmp_path, check=True)
    assert (tmp_path / "trapped").exists(), "the trap does not work"
    (tmp_path / "trapped").unlink()
    done = subprocess.run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert not (tmp_path / "trapped").exists(), done.stderr
    if "--version" in command:
        assert done.returncode == 0, done.stderr
