"""Local files for fetches in tests, opened with the test's own rights."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mesos_gpu.container.host.task_files import OpenFile
from mesos_gpu.errors import ContainerError


class OwnFiles:
    """Opens what this process can open, and only regular files, as the real one does."""

    async def open(self, path: str) -> OpenFile:
        try:
            file = OpenFile(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError as error:
            raise ContainerError(f"Failed to copy '{path}': {error.strerror}") from error
        if not stat.S_ISREG(os.fstat(file.descriptor).st_mode):
            raise ContainerError(f"Failed to copy '{path}': it is not a regular file")
        return file


@asynccontextmanager
async def own_files() -> AsyncIterator[OwnFiles]:
    yield OwnFiles()
