"""Ends containers that go beyond what they were given, while they run: memory (as the kernel tells) and disk."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mesos_gpu.container.cgroups import Cgroups, OomWatch
from mesos_gpu.container.host.disk import DiskRules, watch_disk
from mesos_gpu.container.life.killing import Killer
from mesos_gpu.container.state.live import LiveContainer


class Bounds:
    """Watches running containers. `disk` None: nobody's disk is measured."""

    def __init__(self, cgroups: Cgroups, killer: Killer, disk: DiskRules | None) -> None:
        self._cgroups, self._killer, self._disk = cgroups, killer, disk

    def watch(self, container: LiveContainer) -> None:
        """Begin with a container that runs."""
        watch = self._cgroups.watch_oom(container.record.container_id)
        if watch is not None:
            container.oom_watch = watch
            asyncio.get_running_loop().add_reader(watch.fileno(), self._on_memory_event, container, watch)
        self.measure(container)

    def measure(self, container: LiveContainer) -> None:
        """Measure the sandbox of a container that has a quota, and no other's; call it when the quota has changed."""
        if self._disk is None or container.ending:
            return
        if container.record.disk_bytes and container.disk_watch is None:
            container.disk_watch = asyncio.create_task(self._watch_disk(container, self._disk))
        elif not container.record.disk_bytes and container.disk_watch is not None:
            container.disk_watch.cancel()
            container.disk_watch = container.disk_used = None

    def leave(self, container: LiveContainer) -> None:
        """Stop watching a container."""
        if container.disk_watch is not None:
            container.disk_watch.cancel()
        if container.oom_watch is not None:
            asyncio.get_running_loop().remove_reader(container.oom_watch.fileno())
            container.oom_watch.close()
            container.oom_watch = None

    async def _watch_disk(self, container: LiveContainer, rules: DiskRules) -> None:
        """End a container whose sandbox has become larger than its quota, where quotas are enforced."""

        def note(used: int) -> None:
            container.disk_used = used

        sandbox = Path(container.record.sandbox)
        container.over_disk = await watch_disk(sandbox, lambda: container.record.disk_bytes, rules, note)
        self._killer.kill_now(container)

    def _on_memory_event(self, container: LiveContainer, watch: OomWatch) -> None:
        """End a container that ran out of memory whole, as Mesos does: what is left of it is of no use."""
        if watch.drain():
            container.ran_out_of_memory = True
            self._killer.kill_now(container)
