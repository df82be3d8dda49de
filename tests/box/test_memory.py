"""A box whose services the kernel kills for want of memory, by limits of real cgroups, while tasks start and end.

Nothing is lost and nothing is there twice; the log says why a service ended; what comes back does so by itself, but for
the supervisor, which has nobody above it here: the next `up` goes on where it was.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mesos_gpu.local.control import socket_path
from mesos_gpu.local.plan import box_id
from tests.support.box.live import LiveBox
from tests.support.box.steady import begin, is_well, noted, steady
from tests.support.memory import MemoryCgroup

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]


@contextmanager
def memory_cgroup(box: LiveBox) -> Iterator[MemoryCgroup]:
    cgroup = MemoryCgroup(f"test-{box_id(box.work_dir)}")
    try:
        yield cgroup
    finally:
        cgroup.remove()


def ask_much(box: LiveBox, service: str) -> None:
    """Have a service allocate: many requests at once whose bodies do not end."""
    port = urlsplit(noted(box).services()[service].url).port
    with ExitStack() as closing:
        for _ in range(20):
            line = closing.enter_context(socket.create_connection(("127.0.0.1", port)))
            line.settimeout(0.2)
            line.sendall(b"POST /api/v1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
            line.sendall(b"Content-Length: 400000\r\n\r\n" + b"x" * 200_000)


def test_what_the_kernel_kills_for_want_of_memory_comes_back(own_box: LiveBox) -> None:
    box = own_box
    before = begin(box)
    for service in ("master", "agent1", "marathon"):
        with memory_cgroup(box) as tight:
            kill_service(box, service, tight)
            tight.loosen()
            box.until("all is well again", lambda: is_well(box, 2) and steady(box) == before)
    with memory_cgroup(box) as tight:
        kill_supervisor(box, tight)
        box.up("--gpu_driver=simulated", "--simulated_gpus=4")
        box.until("all is well again", lambda: is_well(box, 2) and steady(box) == before)
    assert box.log_of("steady").count("begun") == len(before)
    box.ok("app", "scale", "steady", "3", "--wait")
    assert before < steady(box)


def kill_service(box: LiveBox, service: str, tight: MemoryCgroup) -> None:
    """Have the kernel kill a service, and see it come back, with the reason in the log."""
    # What it is forked from is to begin in there, so that all that it takes is counted there.
    first, supervisor = noted(box).services()[service].pid, noted(box).pid
    services = {one.pid for one in noted(box).services().values()}
    box.until("what they were forked from has ended", lambda: children_of(supervisor) == services)
    tight.add(supervisor)
    os.kill(first, signal.SIGKILL)
    box.until(f"{service} is back", lambda: noted(box).services()[service].pid != first)
    tight.let_go(supervisor)
    second = noted(box).services()[service].pid
    box.until("what it was forked from has ended", lambda: tight.pids() == [second])
    tight.squeeze()

    def is_another() -> bool:
        with suppress(OSError):
            ask_much(box, service)
        return noted(box).services()[service].pid != second

    box.until(f"{service} is killed, and back", is_another)
    assert tight.kills() > 0
    log = (box.work_dir / "log" / "supervisor.log").read_text().splitlines()
    assert any(all(word in line for word in (service, "SIGKILL", str(tight.folder))) for line in log)


def children_of(pid: int) -> set[int]:
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return {int(child) for file in files for child in file.read_text().split()}


def kill_supervisor(box: LiveBox, tight: MemoryCgroup) -> None:
    """Have the kernel kill the supervisor; its services end with it, and tasks run on."""
    supervisor = noted(box).pid
    tight.add(supervisor)
    tight.squeeze()
    with ExitStack() as closing:
        for _ in range(20):
            line = closing.enter_context(socket.socket(socket.AF_UNIX))
            line.settimeout(0.5)
            with suppress(OSError):
                line.connect(str(socket_path(box.work_dir)))
                line.sendall(b"x" * 60_000)
    box.until("the services have ended", lambda: box.cli("status").returncode == 1)
    assert tight.kills() > 0
