"""Starts and ends of containers while their agent wants for descriptors: late perhaps, never lost."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.base.linux.cgroups import processes_in
from mesos_gpu.container import Containerizer
from mesos_gpu.container.cgroups.files import remove_tree
from mesos_gpu.container.host.processes import _arguments
from mesos_gpu.errors import ContainerError
from mesos_gpu.isolator.plan import LaunchPlan
from tests.support.container.box import Box
from tests.support.shortages import no_descriptors

pytestmark = [pytest.mark.root, pytest.mark.timeout(60)]


@pytest.mark.parametrize("grace_s", [0.0, 0.2])
async def test_a_kill_is_carried_out(box: Box, containerizer: Containerizer, grace_s: float) -> None:
    await containerizer.launch(box.config("c", "sleep", "1000"))
    waiting = asyncio.ensure_future(containerizer.wait("c"))
    with no_descriptors():
        await containerizer.kill("c", grace_s)
        await asyncio.sleep(0.6)
        assert not waiting.done()
    ending = await waiting
    assert ending.signal in (signal.SIGTERM, signal.SIGKILL)
    assert containerizer.containers() == frozenset()


async def test_an_end_by_itself_is_seen(box: Box, containerizer: Containerizer) -> None:
    pid = await containerizer.launch(box.config("c", "sleep", "1000"))
    with no_descriptors():
        os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(0.6)
    assert (await containerizer.wait("c")).signal == signal.SIGKILL


async def test_what_a_launch_held_that_failed_is_free(
    box: Box, containerizer: Containerizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The want begins when the container has its GPUs, and ends some time after the launch has failed for it."""
    prepare, wanting = box.isolator.prepare, ExitStack()

    def prepared(*words: Any, **more: Any) -> LaunchPlan:
        plan = prepare(*words, **more)
        wanting.enter_context(no_descriptors())
        asyncio.get_running_loop().call_later(0.5, wanting.close)
        return plan

    monkeypatch.setattr(box.isolator, "prepare", prepared)
    with wanting, pytest.raises(ContainerError, match="Too many open files"):
        await containerizer.launch(box.config("c", "sleep", "1000", gpus=2))
    assert box.isolator.disk == {}
    assert containerizer.containers() == frozenset()


def test_who_starts_a_container_is_not_taken_for_gone() -> None:
    with no_descriptors(), pytest.raises(OSError, match="Too many open files"):
        _arguments(Path("/proc/self"))


def test_a_cgroup_that_cannot_be_looked_into_is_not_taken_for_removed(tmp_path: Path) -> None:
    (tmp_path / "one" / "below").mkdir(parents=True)
    with no_descriptors(), pytest.raises(OSError, match="Too many open files"):
        remove_tree(tmp_path / "one")
    assert remove_tree(tmp_path / "one")
    assert remove_tree(tmp_path / "one")  # there is none: that is as good


def test_who_is_in_a_cgroup_that_cannot_be_looked_into_is_not_taken_for_gone(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "cgroup.procs").write_text("7\n")
    with no_descriptors(), pytest.raises(OSError, match="Too many open files"):
        processes_in(tmp_path / "one")
    assert processes_in(tmp_path / "one") == {7}
    assert processes_in(tmp_path / "two") == set()
