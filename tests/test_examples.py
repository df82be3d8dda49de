"""Examples run as a reader would run them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from examples.demo import next_commands
from tests.support.places import EXAMPLES


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


@pytest.mark.root
def test_the_training_framework_passes_its_tests_and_so_does_what_its_page_shows(tmp_path: Path) -> None:
    """As a project of its own that has the package installed: none of our settings, our plugin by its name."""
    shown = re.findall(
        r"^```python\n(.*?)^```$", (EXAMPLES.parent / "docs" / "do" / "frameworks.md").read_text(), re.M | re.S
    )
    page = tmp_path / "test_page.py"
    page.write_text("\n".join(shown))
    own = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", str(EXAMPLES)]
    without = [word for name in ("cacheprovider", "asyncio", "schemathesis") for word in ("-p", f"no:{name}")]
    tests = [str(EXAMPLES / "test_training_framework.py"), str(page)]
    command = [*own, *without, "-p", "mesos_gpu.testing.plugin", *tests]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110, cwd=EXAMPLES.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout


@pytest.mark.parametrize(
    ("environ", "program", "commands"),
    [
        ({}, "/usr/bin/mesos-gpu", ["mesos-gpu up --detach"]),
        ({}, None, ["./run install", "mesos-gpu up --detach"]),
        ({"SUDO_UID": "1000"}, None, ["sudo -s", "./run install", "mesos-gpu up --detach"]),
    ],
)
def test_the_demo_ends_with_what_to_type_next(
    environ: dict[str, str], program: str | None, commands: list[str]
) -> None:
    assert next_commands(environ, program) == commands
