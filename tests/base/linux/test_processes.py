"""What /proc says of processes, of which the name can contain anything."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mesos_gpu.base.linux.processes import (
    all_pids,
    open_devices,
    process_of_thread,
    read_boot_id,
    read_stat,
    read_status,
    running_start_time,
    start_time,
)
from tests.support.shortages import no_descriptors

NAME = ") R 1 2 3 ("
"""A name that looks like fields."""


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    program = f"from pathlib import Path; Path('/proc/self/comm').write_text({NAME!r}); print(); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as started:
        assert started.stdout is not None
        started.stdout.readline()
        yield started
        started.kill()


def test_the_fields_of_a_process_are_read_whatever_its_name(child: subprocess.Popen[bytes]) -> None:
    found = read_stat(child.pid)
    assert found is not None
    assert (found.parent, found.session) == (os.getpid(), child.pid)
    assert found.state in "RS"
    assert found.start_time >= (start_time(os.getpid()) or 0)
    line = Path(f"/proc/{child.pid}/cmdline").read_bytes()
    assert found.arguments[1] - found.arguments[0] == len(line)
    status = read_status(child.pid)
    assert status is not None
    assert status["Name"] == NAME


def test_this_process_can_be_read_by_its_pid_and_as_self() -> None:
    assert read_stat("self") == read_stat(os.getpid())
    assert os.getpid() in all_pids()


def test_a_process_that_has_ended_is_known_until_its_status_is_taken(child: subprocess.Popen[bytes]) -> None:
    started = start_time(child.pid)
    assert started == running_start_time(child.pid) is not None
    child.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert (start_time(child.pid), running_start_time(child.pid)) == (started, None)
    child.wait()
    assert start_time(child.pid) is running_start_time(child.pid) is read_stat(child.pid) is None
    assert read_status(child.pid) is process_of_thread(child.pid) is None


@pytest.mark.parametrize("read", [read_stat, start_time, running_start_time, read_status, process_of_thread])
def test_a_process_that_cannot_be_seen_is_not_taken_for_one_that_ended(read: object) -> None:
    assert callable(read)
    with no_descriptors(), pytest.raises(OSError, match="Too many open files"):
        read(os.getpid())


def test_a_thread_belongs_to_its_process() -> None:
    found: list[int | None] = []
    thread = threading.Thread(target=lambda: found.append(process_of_thread(threading.get_native_id())))
    thread.start()
    thread.join()
    assert found == [os.getpid()]


def test_a_boot_has_one_id() -> None:
    assert read_boot_id() == read_boot_id() != ""


def test_the_devices_that_a_process_has_open_are_found(child: subprocess.Popen[bytes]) -> None:
    zero = os.stat("/dev/zero").st_rdev  # noqa: PTH116
    assert zero not in open_devices(os.getpid())
    with Path("/dev/zero").open("rb"):
        assert zero in open_devices(os.getpid())
    child.kill()
    child.wait()
    assert list(open_devices(child.pid)) == []
