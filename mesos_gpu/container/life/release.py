"""Taking a container away: its processes, its cgroup, its files."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from mesos_gpu import stages
from mesos_gpu.container.cgroups import Cgroups
from mesos_gpu.container.host.processes import Process, pids_naming
from mesos_gpu.container.life.remapping import roots_of
from mesos_gpu.container.supervisor.conmon import Conmon
from mesos_gpu.mesos.ids import ContainerId

FIRST_RETRY_S, LAST_RETRY_S = 0.001, 1.0
SLOW_S = 5.0

log = logging.getLogger(__name__)


class Releaser:
    """Everything here may be done twice, and finds nothing to do the second time."""

    def __init__(self, cgroups: Cgroups, conmon: Conmon, bundles: Path) -> None:
        self._cgroups, self._conmon, self._bundles = cgroups, conmon, bundles

    async def release(self, container_id: ContainerId, conmon: Process | None = None) -> None:
        """Return when no process, cgroup or file of the container is left.

        A process that the kernel cannot end (it waits for a device) makes this wait too: what the container held must
        not go to another before. `conmon` is ended if it is still there.
        """
        if conmon is not None:
            conmon.kill()
            await conmon.wait()
        delay, waited = FIRST_RETRY_S, 0.0
        # The end of a container's processes shows at once except in cgroup v1, where nothing tells of it: hence looks.
        while not self._remove_cgroup(container_id):
            self._cgroups.kill(container_id)
            await asyncio.sleep(delay)
            waited += delay
            if waited >= SLOW_S and delay >= LAST_RETRY_S:
                pids = sorted(self._cgroups.pids(container_id))
                log.warning("container %s: processes %s do not end; still waiting", container_id, pids)
            delay = min(2 * delay, LAST_RETRY_S)
        stages.mark("cgroup gone")
        self._conmon.forget(container_id)
        await asyncio.to_thread(_remove_bundle, self._bundles, container_id)

    def _remove_cgroup(self, container_id: ContainerId) -> bool:
        try:
            return self._cgroups.remove(container_id)
        except OSError as error:
            log.warning("container %s: cannot remove its cgroup, will try again: %s", container_id, error)
            return False

    async def release_strays(self, container_ids: Collection[ContainerId]) -> None:
        """Release containers that were given up at an unknown point, perhaps in the midst of their start.

        conmon and the runtime are found by the bundle's path in their arguments; they go first, or one might start
        the container after we looked.
        """
        if not container_ids:
            return
        names = [str(self._bundles / container_id) for container_id in container_ids]
        while pids := self._starters(names):
            for pid in pids:
                process = Process.open(pid)
                if process is not None:
                    process.kill(signal.SIGKILL)
                    await process.wait()
                    process.close()
        for container_id in container_ids:
            await self.release(container_id)

    def _starters(self, bundles: Collection[str]) -> list[int]:
        arguments = [argument for bundle in bundles for argument in starters(bundle)]
        return [pid for pid in pids_naming(arguments) if pid != os.getpid()]


def starters(bundle: str) -> tuple[str, ...]:
    """Return the arguments by one of which whatever starts something of a bundle is known."""
    return bundle, f"--bundle={bundle}", f"--process={bundle}/process.json"


def _remove_bundle(bundles: Path, container_id: ContainerId) -> None:
    """Remove a bundle. An image's mount is seen in other mount namespaces only, and ends with its folder."""
    bundle = bundles / container_id
    for root in (roots_of(bundles) / container_id, bundle / "rootfs"):
        with suppress(OSError):
            root.rmdir()
    shutil.rmtree(bundle, ignore_errors=True)
