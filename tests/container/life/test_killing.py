"""The grace period of a container belongs to all of its processes, whichever of them is the first."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from mesos_gpu.container import Containerizer
from mesos_gpu.container.host.processes import is_stopped
from mesos_gpu.container.host.runtime import RUNTIMES
from mesos_gpu.container.spec.config import ContainerConfig, SessionConfig
from mesos_gpu.container.spec.runtime_spec import Command
from mesos_gpu.mesos.ids import ContainerId
from tests.support.container.box import MEM_BYTES, Box
from tests.support.container.waiting import until
from tests.support.grace import FORMS, command, write_trainer

pytestmark = [pytest.mark.root, pytest.mark.slow]

C = ContainerId("c")
LONG_S = 60.0


def sandbox(box: Box, name: str = "c") -> Path:
    return box.folder / "sandboxes" / name


async def train(box: Box, containerizer: Containerizer, form: str, *, work_s: float = 0.5, name: str = "c") -> None:
    """Launch a program that takes `work_s` to write its checkpoint at SIGTERM, started in one of the usual forms."""
    config = box.config(name, shell=command(form), mem_bytes=4 * MEM_BYTES)
    write_trainer(sandbox(box, name), work_s)
    await containerizer.launch(config)
    until((sandbox(box, name) / "up").exists)


def nested(box: Box) -> ContainerConfig:
    """Return a container in `c` that runs a program which takes half a second to write its checkpoint."""
    config = replace(box.config("c.n", shell=command("plain"), mem_bytes=0), cpus_milli=0, sandbox=sandbox(box) / "n")
    config.sandbox.mkdir()
    write_trainer(config.sandbox, 0.5)
    return config


@pytest.mark.parametrize("form", FORMS)
async def test_a_program_has_its_grace_period_however_it_is_started(
    box: Box, containerizer: Containerizer, form: str
) -> None:
    await train(box, containerizer, form)
    began = time.monotonic()
    await containerizer.kill(C, LONG_S)
    end = await containerizer.wait(C)
    took = time.monotonic() - began
    assert (sandbox(box) / "checkpoint").read_text() == "complete"
    assert 0.5 <= took < 5.0, "it ends when its processes have ended, and not when the grace period is over"
    first_is_the_program = form == "exec"
    assert (end.exit_code, end.signal) == ((7, None) if first_is_the_program else (None, signal.SIGTERM))


async def test_a_program_that_ignores_sigterm_is_killed_when_its_grace_period_is_over(
    box: Box, containerizer: Containerizer
) -> None:
    await train(box, containerizer, "plain", work_s=LONG_S)
    began = time.monotonic()
    await containerizer.kill(C, 0.7)
    end = await containerizer.wait(C)
    assert 0.7 <= time.monotonic() - began < 5.0
    assert end.signal == signal.SIGKILL
    assert not (sandbox(box) / "checkpoint").exists()


async def test_a_later_kill_shortens_the_grace_period_and_sends_no_second_sigterm(
    box: Box, containerizer: Containerizer
) -> None:
    await train(box, containerizer, "plain", work_s=LONG_S)
    await containerizer.kill(C, LONG_S)
    until(lambda: (sandbox(box) / "terms").exists())
    await containerizer.kill(C, 0.5)
    assert (await containerizer.wait(C)).signal == signal.SIGKILL
    assert (sandbox(box) / "terms").read_text() == "x"


async def test_the_first_process_ends_a_container_that_is_not_killed(box: Box, containerizer: Containerizer) -> None:
    await containerizer.launch(box.config("c", shell="sleep 60.5 & exit 3"))
    assert (await asyncio.wait_for(containerizer.wait(C), 10)).exit_code == 3


async def test_what_survives_the_first_process_without_a_kill_does_not_after_one(
    box: Box, containerizer: Containerizer
) -> None:
    """A first process that handles SIGTERM and ends at once leaves workers behind that write their checkpoints."""
    worker = "trap 'sleep 0.5; echo complete > checkpoint; exit 0' TERM; echo > up; while :; do sleep 0.05; done"
    await containerizer.launch(box.config("c", shell=f"trap 'exit 5' TERM; ({worker}) & while :; do sleep 0.05; done"))
    until((sandbox(box) / "up").exists)
    await containerizer.kill(C, LONG_S)
    assert (await containerizer.wait(C)).exit_code == 5
    assert (sandbox(box) / "checkpoint").read_text() == "complete\n"


async def test_a_restarted_agent_leaves_a_container_the_rest_of_its_grace_period(
    make_box: Callable[[], Box],
) -> None:
    box = make_box()
    first = await box.open()
    await train(box, first, "plain", work_s=1.0)
    began = time.monotonic()
    await first.kill(C, LONG_S)
    pid = first.pid_of(C)
    assert pid is not None
    until(lambda: is_stopped(pid) and (sandbox(box) / "terms").exists())
    await first.close()
    second = await box.open([C])
    await second.kill(C, LONG_S - 1.0)  # as the agent does for a task that it finds in the midst of its end
    end = await asyncio.wait_for(second.wait(C), 10)
    assert time.monotonic() - began >= 1.0
    assert end.signal == signal.SIGTERM
    assert (sandbox(box) / "checkpoint").read_text() == "complete"
    assert (sandbox(box) / "terms").read_text() == "x"
    await box.close()


@pytest.mark.parametrize("runtime", RUNTIMES)
async def test_sigterm_by_a_call_leaves_nested_containers_the_grace_period_of_their_task(
    box: Box, runtime: str
) -> None:
    containerizer = await box.open(runtimes=(runtime,))
    await containerizer.launch(box.config("c", shell="sleep 60.5", mem_bytes=8 * MEM_BYTES))
    name = ContainerId("c.n")
    config = nested(box)
    await containerizer.launch(config)
    until((config.sandbox / "up").exists)
    await containerizer.send_signal(name, signal.SIGTERM, LONG_S)
    assert (await asyncio.wait_for(containerizer.wait(name), 10)).signal == signal.SIGTERM
    assert (config.sandbox / "checkpoint").read_text() == "complete"


async def test_sigterm_by_a_call_holds_a_container_no_longer_than_its_grace_period(
    box: Box, containerizer: Containerizer
) -> None:
    await train(box, containerizer, "plain", work_s=LONG_S)
    began = time.monotonic()
    await containerizer.send_signal(C, signal.SIGTERM, 0.5)
    end = await asyncio.wait_for(containerizer.wait(C), 10)
    assert time.monotonic() - began >= 0.5
    assert end.signal == signal.SIGTERM, "the first process has ended, and nothing has kept the container since"


@pytest.mark.parametrize("runtime", RUNTIMES)
async def test_killing_the_outer_container_leaves_nested_ones_the_grace_period_and_waits_for_no_session(
    box: Box, runtime: str
) -> None:
    containerizer = await box.open(runtimes=(runtime,))
    await containerizer.launch(box.config("c", shell="sleep 60.5", mem_bytes=8 * MEM_BYTES))
    config = nested(box)
    await containerizer.launch(config)
    await containerizer.enter(SessionConfig(ContainerId("c.s"), Command(value="sleep 60.5")))
    until((config.sandbox / "up").exists)
    began = time.monotonic()
    await containerizer.kill(C, LONG_S)
    assert (await asyncio.wait_for(containerizer.wait(C), 10)).signal == signal.SIGTERM
    assert time.monotonic() - began >= 0.5
    assert (config.sandbox / "checkpoint").read_text() == "complete"


@pytest.mark.parametrize("runtime", RUNTIMES)
async def test_a_session_that_is_sent_sigterm_lasts_as_long_as_its_processes(box: Box, runtime: str) -> None:
    containerizer = await box.open(runtimes=(runtime,))
    await containerizer.launch(box.config("c", shell="sleep 60.5", mem_bytes=8 * MEM_BYTES))
    write_trainer(sandbox(box), 0.5)
    name = ContainerId("c.s")
    await containerizer.enter(SessionConfig(name, Command(value=f"cd {sandbox(box)}; {command('plain')}")))
    until((sandbox(box) / "up").exists)
    await containerizer.send_signal(name, signal.SIGTERM, LONG_S)
    await asyncio.wait_for(containerizer.wait(name), 10)
    assert (sandbox(box) / "checkpoint").read_text() == "complete"
