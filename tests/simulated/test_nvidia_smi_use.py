"""The simulated nvidia-smi shows what GPUs do: memory, use, processes and MIG instances, from who plays them."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import time
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from mesos_gpu.simulated.libraries import USE, simulated_library
from tests.support.simulated.played import Played

pytestmark = [pytest.mark.slow, pytest.mark.root]
BUSY_S = 30.0


@pytest.fixture
def played(tmp_path: Path) -> Iterator[Played]:
    made = Played(tmp_path)
    try:
        folder = made.volume / "bin"
        folder.mkdir()
        (folder / "nvidia-smi").write_bytes(resources.files("mesos_gpu.gpu").joinpath("nvidia-smi").read_bytes())
        use = simulated_library(USE)
        assert use is not None
        (folder / USE).write_bytes(use)
        (folder / USE).chmod(0o755)
        for gpu in made.gpus:  # the script looks for devices
            (made.dev / f"nvidia{gpu.minor}").unlink()
            os.mknod(made.dev / f"nvidia{gpu.minor}", stat.S_IFCHR | 0o666, os.makedev(195, gpu.minor))
        yield made
    finally:
        made.end()
        shutil.rmtree(made.dev)


def smi(played: Played, *words: str) -> str:
    command = ["sh", str(played.volume / "bin" / "nvidia-smi"), *words]
    return subprocess.run(command, env=played.environment(), capture_output=True, text=True, check=True).stdout


def test_memory_use_and_processes_are_shown_while_a_program_runs(played: Played) -> None:
    query = ("--query-gpu=memory.used,memory.free,utilization.gpu", "--format=csv,noheader")
    assert smi(played, *query).splitlines() == ["0 MiB, 1024 MiB, 0 %"] * 2
    program = played.start(["300", "20000"])
    end_s = time.monotonic() + BUSY_S
    while not re.match(r"300 MiB, 724 MiB, [1-9]\d* %$", seen := smi(played, *query), re.MULTILINE):
        assert time.monotonic() < end_s, seen
    table = smi(played)
    assert "300MiB / 1024MiB" in table
    (line,) = [line for line in table.splitlines() if f" {program.pid} " in line]
    assert line.split()[1:8:2] == ["0", "N/A", "C", "300MiB"]
    assert "No running processes" not in table


def test_without_an_answer_gpus_are_idle(played: Played) -> None:
    played.cards.close(keep=False)
    assert smi(played, "--query-gpu=memory.used", "--format=csv,noheader") == "0 MiB\n0 MiB\n"
    assert "No running processes found" in smi(played)
