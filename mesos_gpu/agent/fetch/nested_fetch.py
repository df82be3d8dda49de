"""Fetches the URIs of nested and standalone containers.

The folder around a nested sandbox belongs to the parent's user, who could put a link there while root writes. So things
are fetched into a folder that nobody else sees, which then takes the place of the empty sandbox in one step.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

from mesos_gpu.agent.fetch.fetcher import Fetcher, LocalFiles
from mesos_gpu.agent.model.fetch_uris import Item
from mesos_gpu.container.host.beneath import folder_at
from mesos_gpu.container.spec.config import ContainerConfig
from mesos_gpu.errors import ContainerError
from mesos_gpu.mesos.ids import ContainerId

ASIDE = "fetching"
"""Folder in the work_dir."""


class NestedFetches:
    """What is being fetched now, by container. `files` opens local files with the rights of one to be launched."""

    def __init__(
        self,
        fetcher: Fetcher | None,
        work_dir: Callable[[], str],
        files: Callable[[ContainerConfig], AbstractAsyncContextManager[LocalFiles]],
    ) -> None:
        self._fetcher, self._work_dir, self._files = fetcher, work_dir, files
        self._running: dict[str, asyncio.Task[None]] = {}

    def __contains__(self, container_id: ContainerId) -> bool:
        return container_id in self._running

    def cancel(self, container_id: ContainerId) -> bool:
        """End a container's fetch; return whether there was one."""
        work = self._running.pop(container_id, None)
        return work is not None and work.cancel()

    async def fetch(self, config: ContainerConfig, items: Sequence[Item], root: Path) -> None:
        """Put what `items` name into the container's sandbox, which is there and empty; it lies below `root`.

        No link is followed below that one. Raises ContainerError.
        """
        if self._fetcher is None:
            raise ContainerError("this agent fetches nothing")
        name = config.container_id
        work = self._running[name] = asyncio.ensure_future(self._fetch(self._fetcher, config, items, root))
        try:
            await work
        except asyncio.CancelledError:
            if name in self._running:
                raise
            raise ContainerError("the container was ended while its URIs were fetched") from None
        finally:
            self._running.pop(name, None)

    async def _fetch(self, fetcher: Fetcher, config: ContainerConfig, items: Sequence[Item], root: Path) -> None:
        around = Path(self._work_dir()) / ASIDE
        around.mkdir(mode=0o700, exist_ok=True)
        aside = Path(tempfile.mkdtemp(dir=around))
        try:
            with folder_at(root, str(config.sandbox.relative_to(root))) as sandbox:
                aside.chmod(os.fstat(sandbox).st_mode & 0o7777)
            local_files = partial(self._files, config)
            await fetcher.fetch(config.container_id, aside, items, config.user, local_files)
            _replace(aside, config.sandbox, root)
        except OSError as error:
            raise ContainerError(f"cannot fetch into {config.sandbox}: {error.strerror}") from None
        finally:
            await asyncio.to_thread(shutil.rmtree, aside, ignore_errors=True)


def _replace(aside: Path, sandbox: Path, root: Path) -> None:
    """Move a folder to the place of an empty one; the folder around it, and no link, is where it was asked for."""
    with folder_at(root, str(sandbox.parent.relative_to(root))) as around:
        os.rename(aside, sandbox.name, dst_dir_fd=around)
