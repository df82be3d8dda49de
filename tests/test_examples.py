"""Examples run as a reader would run them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.root
def test_gpu_container_runs_a_command_with_one_gpu_of_its_own() -> None:
    command = [sys.executable, str(EXAMPLES / "gpu_container.py"), "nvidia-smi -L; ls /dev; exit 3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=EXAMPLES.parent)
    assert (done.returncode, done.stderr) == (3, "")
    holds, listed, *nodes = done.stdout.splitlines()
    (uuid,) = holds.split()[1:]
    assert listed == f"GPU 0: Simulated GPU (UUID: {uuid})"
    assert [node for node in nodes if node.startswith("nvidia")] == [
        *("nvidia-uvm", "nvidia-uvm-tools", "nvidia0", "nvidiactl"),
    ]
