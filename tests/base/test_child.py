"""Programs that run beside a service: what they say is heard, and whatever ends them, they run again."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.base import child as child_module
from mesos_gpu.base.child import Child
from tests.support.master.live import until

ECHO = """
import socket, sys
with socket.socket(fileno=0) as service, service.makefile("rwb", buffering=0) as lines:
    lines.write(b"first\\n")
    while line := lines.readline():
        if line == b"half\\n":
            lines.write(b"not a whole")
            break
        lines.write(line)
"""


class Service:
    """What a service notices of its program."""

    def __init__(self, program: str = ECHO, **more: Any) -> None:
        self.events: list[str] = []
        self.program = program
        self.refusals = 0
        self.started = 0
        self.child = Child(
            "the program",
            self._start,
            self._hear,
            again_s=0.01,
            on_end=lambda: self.events.append("end"),
            on_start=lambda: self.events.append("start"),
            **more,
        )

    def _start(self, stdin: socket.socket) -> subprocess.Popen[bytes]:
        self.started += 1
        if self.started > 1 and self.refusals:
            self.refusals -= 1
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        return subprocess.Popen([sys.executable, "-S", "-c", self.program], stdin=stdin, start_new_session=True)

    async def _hear(self, line: bytes) -> None:
        if line == b"nonsense\n":
            raise ValueError(line)
        self.events.append(line.decode().strip())

    @property
    def pid(self) -> int:
        assert self.child.pid is not None
        return self.child.pid


@asynccontextmanager
async def running(service: Service) -> AsyncIterator[Service]:
    await service.child.start(first_line_s=60.0)
    try:
        yield service
    finally:
        await service.child.close()
        assert not Path(f"/proc/{service.pid}").exists(), "nothing is left"
        assert not service.child.send(b"x")


async def test_lines_go_both_ways_in_order() -> None:
    async with running(Service()) as service:
        assert service.events == ["start", "first"]
        assert all(service.child.send(line) for line in (b"one", b"two"))
        await until(lambda: service.events == ["start", "first", "one", "two"])


@pytest.mark.parametrize("ending", ["killed", "a line that is not whole", "a line that means nothing"])
@pytest.mark.parametrize("refusals", [0, 3])
async def test_a_program_that_ends_is_started_again(ending: str, refusals: int) -> None:
    """Also if there is no memory for it at first."""
    service = Service()
    service.refusals = refusals
    async with running(service):
        before = service.pid
        if ending == "killed":
            os.kill(before, signal.SIGKILL)
        else:
            service.child.send(b"half" if ending == "a line that is not whole" else b"nonsense")
        await until(lambda: service.events == ["start", "first", "end", "start", "first"])
        assert service.pid != before
        assert service.started == 2 + refusals
        service.child.send(b"again")
        await until(lambda: service.events[-1] == "again")


async def test_silence_is_noticed_again_and_again() -> None:
    silences: list[int] = []
    async with running(Service(silence_s=0.02, on_silence=lambda: silences.append(1))) as service:
        await until(lambda: len(silences) > 2)
        assert "end" not in service.events


async def test_a_program_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "STOP_S", 0.1)
    stubborn = "import os, time; os.write(0, b'first\\n'); time.sleep(600)"
    async with running(Service(stubborn)) as service:
        assert service.events == ["start", "first"]


async def test_the_first_start_says_why_it_failed() -> None:
    service = Service()
    service.started, service.refusals = 1, 1
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(OSError) as refused:
        await service.child.start()
    assert refused.value.errno == errno.ENOMEM
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
    await service.child.close()


async def test_one_that_says_nothing_at_first_is_not_waited_for_longer() -> None:
    silent = "import os; os.read(0, 1)"
    service = Service(silent)
    await asyncio.wait_for(service.child.start(first_line_s=0.05), 60)
    await service.child.close()
    assert service.events == ["start"]


async def test_it_can_be_started_in_the_background_and_is_once_that_is_possible() -> None:
    service = Service()
    service.started, service.refusals = 1, 2
    service.child.begin()
    try:
        await until(lambda: service.events == ["start", "first"])
        assert service.started == 1 + 3
    finally:
        await service.child.close()
