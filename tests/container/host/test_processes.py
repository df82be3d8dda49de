from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from mesos_gpu.base.linux.processes import start_time
from mesos_gpu.container.host.processes import Process, is_in_cgroup, pids_naming
from tests.support.shortages import no_descriptors


def start(*argv: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(argv)


async def test_a_child_is_waited_for_and_reaped() -> None:
    child = start("sleep", "60")
    process = Process.open(child.pid)
    assert process is not None
    process.kill(signal.SIGTERM)
    await process.wait()
    process.close()
    assert not Path(f"/proc/{child.pid}").exists()
    child.returncode = -signal.SIGTERM


def test_a_process_of_another_start_time_or_cgroup_is_not_it() -> None:
    started = start_time(os.getpid())
    assert started is not None
    assert Process.open(os.getpid(), start_time=started + 1) is None
    assert Process.open(os.getpid(), cgroup="/no/such/cgroup") is None
    ours = Process.open(os.getpid(), start_time=started)
    assert ours is not None
    ours.close()
    ours.close()


def test_a_process_that_is_gone_is_none() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert Process.open(child.pid) is None
    assert start_time(child.pid) is None
    assert not is_in_cgroup(child.pid, "/")


def test_one_that_cannot_be_looked_at_costs_no_descriptor() -> None:
    """There is room for the process's own, and none to read of it."""
    with no_descriptors(but=1):
        with pytest.raises(OSError, match="Too many open files"):
            Process.open(os.getpid())
        os.close(os.open(os.devnull, os.O_RDONLY))


def test_processes_are_found_by_a_whole_argument() -> None:
    with subprocess.Popen(["sleep", "60.125"]) as child:
        try:
            assert child.pid in pids_naming(["60.125"])
            assert child.pid not in pids_naming(["60.12"])
        finally:
            child.kill()
