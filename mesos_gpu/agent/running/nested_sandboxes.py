"""With `--gc_non_executor_container_sandboxes`: sandboxes of containers that the API launched go after their end.

Source: Mesos src/slave/containerizer/mesos/containerizer.cpp (recover, ______destroy).
"""

from __future__ import annotations

import asyncio

from mesos_gpu.agent.disk.collector import Collector
from mesos_gpu.agent.running.containers import Containers
from mesos_gpu.container.spec.nesting import is_nested
from mesos_gpu.errors import NotFound
from mesos_gpu.mesos.ids import ContainerId


class NestedSandboxes:
    """Waits for the ends of nested and standalone containers. Does nothing without the flag."""

    def __init__(self, containers: Containers, collector: Collector) -> None:
        self._containers, self._collector = containers, collector
        self._following: set[asyncio.Task[None]] = set()

    def follow(self, container_id: ContainerId, path: str) -> None:
        """Have a container's sandbox, by its path in the work_dir, collected some time after its end."""
        if not self._collector.rules.nested:
            return
        self._collector.spare((path,))
        following = asyncio.ensure_future(self._follow(container_id, path))
        self._following.add(following)
        following.add_done_callback(self._following.discard)

    def spare(self, path: str) -> None:
        """Leave a sandbox to whoever removes it just now."""
        self._collector.spare((path,))

    async def _follow(self, container_id: ContainerId, path: str) -> None:
        try:
            await self._containers.wait(container_id)
        except NotFound:
            pass  # it ended, and somebody was quicker to forget it
        self._collector.discard((path,))

    def recover(self, work_dir: str) -> set[str]:
        """Follow those that an earlier process launched and that run; return their sandboxes' paths in the work_dir."""
        found: set[str] = set()
        if not self._collector.rules.nested:
            return found
        for container_id in self._containers.containers():
            record = self._containers.record(container_id)
            if record.session or not record.sandbox.startswith(f"{work_dir}/"):
                continue
            path = record.sandbox[len(work_dir) + 1 :]
            if record.standalone or is_nested(container_id):
                found.add(path)
                self.follow(container_id, path)
        return found

    async def close(self) -> None:
        """Wait no longer."""
        for following in self._following:
            following.cancel()
        await asyncio.gather(*self._following, return_exceptions=True)
