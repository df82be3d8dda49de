"""Local files in the fetcher: their paths, their copies in the cache, and whose they are in the sandbox."""

from __future__ import annotations

import os
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mesos_gpu.container.host.task_files import FileRights, OpenFile, TaskFiles, open_task_files
from mesos_gpu.container.host.users import find_user
from mesos_gpu.errors import ContainerError
from tests.fakes.local_files import OwnFiles
from tests.support.agent.fetching import Work


@pytest.fixture
def work(tmp_path: Path) -> Work:
    return Work(tmp_path)


async def test_frameworks_home_is_where_relative_paths_are(tmp_path: Path) -> None:
    work = Work(tmp_path, frameworks_home=str(tmp_path))
    (tmp_path / "tool").write_text("tool")
    assert ((await work.fetch("tool")) / "tool").read_text() == "tool"


async def test_a_local_file_is_cached_as_it_is_and_again_when_it_has_changed(work: Work) -> None:
    path = work.folder / "model"
    uri = {"value": str(path), "cache": True}
    for number, content in enumerate(("first", "second", "")):
        path.write_text(content)
        for turn in "ab":
            sandbox = await work.fetch(uri, name=f"{number}{turn}")
            assert (sandbox / "model").read_text() == content
    assert work.cache.used_bytes == len("first") + len("second"), "an empty file is not cached"


async def test_a_file_that_grows_is_cached_as_long_as_it_was(tmp_path: Path) -> None:
    work, path = Work(tmp_path), tmp_path / "log"
    path.write_text("lines")

    class Growing(OwnFiles):
        async def open(self, path: str) -> OpenFile:
            return GrowingFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    class GrowingFile(OpenFile):
        """Grows after its size was asked for, which is when it is read."""

        reads = 0

        @property
        def descriptor(self) -> int:
            self.reads += 1
            if self.reads > 2:
                with path.open("a") as file:
                    file.write("more")
            return self._descriptor

        @descriptor.setter
        def descriptor(self, value: int) -> None:
            self._descriptor = value

    @asynccontextmanager
    async def growing() -> AsyncIterator[OwnFiles]:
        yield Growing()

    work.local_files = growing
    sandbox = await work.fetch({"value": str(path), "cache": True})
    assert (sandbox / "log").read_text() == "lines"
    assert work.cache.used_bytes == len("lines")


@asynccontextmanager
async def files_of_nobody() -> AsyncIterator[TaskFiles]:
    root = os.open("/", os.O_PATH | os.O_DIRECTORY)
    try:
        async with open_task_files(FileRights(find_user("nobody")), root, None) as files:
            yield files
    finally:
        os.close(root)


@pytest.mark.root
async def test_a_user_gets_what_he_may_read_and_owns_it(work: Work) -> None:
    work.folder.chmod(0o755)
    for folder in work.folder.parents:
        if folder.stat().st_uid == os.geteuid() and folder != Path("/") and str(folder).startswith("/tmp/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    packed = str(work.folder / "a.tgz")
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(__file__, "one")
    (work.folder / "secret").write_text("secret")
    (work.folder / "secret").chmod(0o600)
    (work.folder / "open").write_text("open")
    work.local_files = files_of_nobody
    sandbox = await work.fetch(packed, str(work.folder / "open"), user="nobody")
    assert {path.owner() for path in (sandbox, *sandbox.iterdir())} == {"nobody"}
    with pytest.raises(ContainerError):
        await work.fetch(str(work.folder / "secret"), name="denied", user="nobody")
    assert work.files("denied") == ["stderr"]
