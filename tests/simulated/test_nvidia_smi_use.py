"""The simulated nvidia-smi shows what GPUs do: memory, use, processes and MIG instances, from who plays them."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mesos_gpu.isolator.driver_tree import simulated_smi
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
        (folder / "nvidia-smi").write_bytes(simulated_smi())
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
    assert re.search(r"[3-6]\dC +P0 +\d{2,3}W / +300W", table), table
    # What it is called by, whole in a query and without its beginning in the table.
    (asked,) = smi(played, "--query-compute-apps=pid,name,used_memory", "--format=csv,noheader").splitlines()
    pid, name, amount = asked.split(", ")
    assert (pid, amount) == (str(program.pid), "300 MiB")
    assert name == Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0].decode()
    assert name[-20:] in line
    (shared,) = [row.split() for row in smi(played, "pmon", "-c", "1").splitlines() if f" {pid} " in row]
    assert (shared[0], shared[2], shared[-1]) == ("0", "C", Path(name).name)
    assert 0 < int(shared[3]) <= 100
    log = ElementTree.fromstring(smi(played, "-q", "-x"))
    assert [one.findtext("pid") for one in log.iter("process_info")] == [pid]
    assert (log.findtext(".//used_memory"), log.findtext(".//process_name")) == ("300 MiB", name)
    assert log.findtext("gpu/clocks/sm_clock") == "1480 MHz"
    assert re.search(rf"Process ID +: {pid}\n +Type +: C\n +Name +: {re.escape(name)}\n", smi(played, "-q"))


def test_without_an_answer_gpus_are_idle(played: Played) -> None:
    played.cards.close(keep=False)
    assert smi(played, "--query-gpu=memory.used", "--format=csv,noheader") == "0 MiB\n0 MiB\n"
    assert "No running processes found" in smi(played)
