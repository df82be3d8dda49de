"""Which codec of messages a program uses, by its environment and what is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import codec
from tests.support.places import ROOT

ASK = "from mesos_gpu.native import TABLE; print(TABLE is not None)"
OTHER = "PROTOCOL = {}\n\n\nclass Table:\n    pass\n"


def used(folder: Path | None = None, **variables: str) -> str:
    env = {**os.environ, "PYTHONPATH": f"{folder or ''}:{ROOT}", **variables}
    done = subprocess.run([sys.executable, "-c", ASK], env=env, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.mark.slow
def test_the_environment_does_without_it() -> None:
    codec.needed()
    assert used(MESOS_GPU_PURE_PYTHON="") == "True"
    assert used(MESOS_GPU_PURE_PYTHON="0") == "True"
    assert used(MESOS_GPU_PURE_PYTHON="1") == "False"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "taken"),
    [
        (OTHER.format(2), "True"),
        (OTHER.format(1), "False"),
        ("raise ImportError('wrong ELF class')", "False"),
    ],
)
def test_one_of_another_version_or_machine_is_left_alone(text: str, taken: str, tmp_path: Path) -> None:
    (tmp_path / "mesos_gpu_codec.py").write_text(text)
    assert used(tmp_path, MESOS_GPU_PURE_PYTHON="") == taken
