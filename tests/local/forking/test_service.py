"""A service of the box as a process: real processes, with a double in place of the program."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from mesos_gpu.errors import Unavailable
from mesos_gpu.local.forking import service as service_module
from mesos_gpu.local.forking.forks import Forked, Forks
from mesos_gpu.local.forking.service import ServiceProcess
from mesos_gpu.local.plan import ServiceSpec
from mesos_gpu.local.record import is_alive
from tests.support.golden import Golden
from tests.support.places import ROOT


class Started:
    """Makes services and stops them all at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.changed = asyncio.Event()
        self.made: list[ServiceProcess] = []
        self.forks = Forks(folder, modules=[])

    def service(self, *flags: str, port: int = 0) -> ServiceProcess:
        spec = ServiceSpec("double", "tests.local.forking.service_double", port, "port", flags)
        made = ServiceProcess(spec, self.forks, self.folder, self.folder / "double.log", self.changed.set)
        self.made.append(made)
        return made


@pytest.fixture
async def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Started]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(service_module, "next_delay_s", lambda *_: 0.01)
    holder = Started(tmp_path)
    yield holder
    for made in holder.made:
        await made.stop(signal.SIGKILL, 10)
    await holder.forks.close()


async def test_a_service_is_started_when_its_ready_file_is_there(started: Started) -> None:
    service = await started.service().start()
    assert service.url == "http://127.0.0.1:40001"
    assert is_alive(service.pid, service.started)


async def test_a_service_of_the_box_speaks_no_tls_whatever_the_environment_says(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LIBPROCESS_SSL_ENABLED", "LIBPROCESS_SSL_KEY_FILE", "SSL_ENABLED", "SSL_CERT_DIR"):
        monkeypatch.setenv(name, "1")
    service = await started.service().start()
    environ = Path(f"/proc/{service.pid}/environ").read_bytes().split(b"\0")
    assert b"SSL_CERT_DIR=1" in environ
    assert not [line for line in environ if b"SSL_ENABLED" in line or line.startswith(b"LIBPROCESS_SSL_")]


async def test_a_service_that_dies_comes_back_on_the_port_it_had(started: Started) -> None:
    made = started.service()
    first = await made.start("--master=127.0.0.1:5050")
    os.kill(first.pid, signal.SIGKILL)
    await started.changed.wait()
    second = made.service
    assert second is not None
    assert second.pid != first.pid
    assert second.url == first.url
    assert b"--port=40001" in Path(f"/proc/{second.pid}/cmdline").read_bytes()
    assert b"--master=127.0.0.1:5050" in Path(f"/proc/{second.pid}/cmdline").read_bytes()


async def test_a_service_that_cannot_start_is_refused_in_its_own_words(started: Started, golden: Golden) -> None:
    with pytest.raises(Unavailable) as refused:
        await started.service("--fail=port 5050 is taken").start()
    assert str(refused.value) == golden


async def test_a_stopped_service_stays_stopped(started: Started) -> None:
    made = started.service()
    service = await made.start()
    await made.stop(signal.SIGTERM, 10)
    assert not is_alive(service.pid, service.started)
    assert not started.changed.is_set()
    await made.stop(signal.SIGTERM, 10)


async def test_a_service_that_ignores_its_signal_is_killed(started: Started) -> None:
    made = started.service("--stubborn=1")
    service = await made.start()
    await made.stop(signal.SIGTERM, 0.05)
    assert not is_alive(service.pid, service.started)


async def test_a_service_that_is_stopped_while_it_starts_does_not_come_back(started: Started) -> None:
    made = started.service("--never=1")
    starting = asyncio.ensure_future(made.start())
    while made._process is None:  # noqa: ASYNC110 - nothing tells of a spawned process
        await asyncio.sleep(0)
    await made.stop(signal.SIGTERM, 10)
    with pytest.raises(Unavailable):
        await starting
    assert made._process.returncode is not None
    assert made._watch is None


async def test_a_full_disk_does_not_end_supervision(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    made = started.service()
    first = await made.start()
    start, refusals = started.forks.start, [errno.ENOSPC, errno.ENOMEM]

    async def refusing(module: str, flags: Sequence[str], name: str, log: int) -> Forked:
        if refusals:
            raise OSError(refusals.pop(), "no room")
        return await start(module, flags, name, log)

    monkeypatch.setattr(started.forks, "start", refusing)
    os.kill(first.pid, signal.SIGKILL)
    await asyncio.wait_for(started.changed.wait(), 30)
    assert not refusals
    assert made.service is not None
    assert is_alive(made.service.pid, made.service.started)
    assert made.service.pid != first.pid


async def test_that_a_service_is_back_is_written_down_once_there_is_room(started: Started) -> None:
    full = [True, True]

    def changed() -> None:
        if full:
            full.pop()
            raise Unavailable("no space left on device")
        started.changed.set()

    made = started.service()
    made._changed = changed
    first = await made.start()
    os.kill(first.pid, signal.SIGKILL)
    await asyncio.wait_for(started.changed.wait(), 30)
    assert made.service is not None
    os.kill(made.service.pid, signal.SIGKILL)
    started.changed.clear()
    await asyncio.wait_for(started.changed.wait(), 30)
