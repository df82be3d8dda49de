"""The end of a container while its agent wants for descriptors: late perhaps, never lost."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mesos_gpu.container import Containerizer
from mesos_gpu.container.cgroups.files import remove_tree
from tests.support.container.box import Box

pytestmark = [pytest.mark.root, pytest.mark.timeout(60)]


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Let this process open nothing more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


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


def test_a_cgroup_that_cannot_be_looked_into_is_not_taken_for_removed(tmp_path: Path) -> None:
    (tmp_path / "one" / "below").mkdir(parents=True)
    with no_descriptors(), pytest.raises(OSError, match="Too many open files"):
        remove_tree(tmp_path / "one")
    assert remove_tree(tmp_path / "one")
    assert remove_tree(tmp_path / "one")  # there is none: that is as good
