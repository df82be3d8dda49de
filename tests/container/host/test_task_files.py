"""The process that opens files with a container's rights: its life, and what is open."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mesos_gpu.container.host.task_files import FileRights, TaskFiles, open_task_files
from mesos_gpu.container.host.users import HostUser
from mesos_gpu.errors import ContainerError

pytestmark = pytest.mark.root


@asynccontextmanager
async def opened(rights: FileRights) -> AsyncIterator[TaskFiles]:
    root = os.open("/", os.O_PATH | os.O_DIRECTORY)
    try:
        async with open_task_files(rights, root, None) as files:
            yield files
    finally:
        os.close(root)


def children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_files_are_opened_side_by_side_and_nothing_is_left(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"f{number}").write_text(str(number))
    before = children(), descriptors()
    async with opened(FileRights(HostUser(0, 0), overrides=True)) as files:
        found = await asyncio.gather(*(files.open(f"{tmp_path}/f{number}") for number in range(40)))
        assert [os.pread(file.descriptor, 10, 0) for file in found] == [b"%d" % number for number in range(40)]
        with pytest.raises(ContainerError):
            await files.open(f"{tmp_path}/none")
        del found
    assert (children(), descriptors()) == before


async def test_the_process_has_the_rights_of_the_container_and_no_others() -> None:
    before = children()
    async with opened(FileRights(HostUser(65534, 65533, (4, 24)), overrides=True)) as files:
        await files.open("/etc/passwd")
        (pid,) = set(children()) - set(before)
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        assert status["Uid"].split() == ["65534"] * 4
        assert status["Gid"].split() == ["65533"] * 4
        assert status["Groups"].split() == ["4", "24"]
        assert [int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")] == [0, 2, 2, 0]
        assert Path(f"/proc/{pid}/environ").read_bytes() == b""
        assert Path(f"/proc/{pid}/environ").stat().st_uid == 0, "the user cannot trace it"


async def test_a_process_that_was_killed_is_an_error() -> None:
    before = children()
    async with opened(FileRights(HostUser(65534, 65534))) as files:
        await files.open("/etc/passwd")
        (pid,) = set(children()) - set(before)
        os.kill(int(pid), 9)
        for _ in range(2):
            with pytest.raises(ContainerError):
                await files.open("/etc/passwd")


async def test_a_caller_that_is_cancelled_leaves_no_process() -> None:
    before = children()

    async def work() -> None:
        async with opened(FileRights(HostUser(65534, 65534))) as files:
            started.set()
            while True:
                await files.open("/etc/passwd")

    started = asyncio.Event()
    task = asyncio.ensure_future(work())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert children() == before
