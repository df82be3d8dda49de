"""What a service program says of itself before it starts."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mesos_gpu import __version__

pytestmark = pytest.mark.slow

PROGRAM = "from mesos_gpu.{0}.service import main; raise SystemExit(main())"


@pytest.mark.parametrize("service", ["master", "agent", "marathon"])
def test_a_service_says_its_version(service: str) -> None:
    command = [sys.executable, "-c", PROGRAM.format(service), "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert said.stdout == f"mesos-gpu-{service} {__version__}\n"


def test_its_help_can_be_piped_into_head() -> None:
    command = [sys.executable, "-c", PROGRAM.format("marathon"), "--help"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as asked:
        assert asked.stdout is not None
        assert asked.stderr is not None
        asked.stdout.close()
        complaints = asked.stderr.read()
    assert (asked.returncode, complaints) == (0, b"")
