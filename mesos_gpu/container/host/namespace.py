"""A thread with mounts of its own, from which runtimes are started.

The host's file system is mounted a second time there. Nothing else of the agent may see that mount: whoever removed
the folder around it, say a test its temporary folder, would remove the host's files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from mesos_gpu.container.host.mounts import enter_private_mounts, mount_host_root, show_unified

T = TypeVar("T")


class MountNamespace:
    """The thread. Processes started in it see its mounts, and keep them alive when it is gone."""

    def __init__(self, rootfs: Path) -> None:
        self._rootfs = rootfs
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mounts")

    @property
    def rootfs(self) -> Path:
        """Return where the host's file system is mounted, in here only."""
        return self._rootfs

    async def open(self, cgroups_root: str = "mesos") -> None:
        """Make the mounts; containers have their cgroups below `cgroups_root`.

        Raises Unavailable without the permission, ContainerError when the kernel refuses.
        """
        await self.run(enter_private_mounts)
        await self.run(lambda: mount_host_root(self._rootfs))
        await self.run(lambda: show_unified(cgroups_root))

    def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Call `function` in the thread; its result, or what it raises, is the future's."""
        return asyncio.get_running_loop().run_in_executor(self._thread, function)

    def close(self) -> None:
        """End the thread when it is idle."""
        self._thread.shutdown(wait=False)
