"""The kernel's wait before a process changes its cgroup, taken while a container is still being prepared.

The first process that is moved after a while waits until all processors have passed a quiet point (cgroup_procs_write
takes cgroup_threadgroup_rwsem, whose writer waits for an RCU grace period): 8 to 18 ms where a runtime needs 10 for all
else. Those that follow within about 10 ms do not wait. So this process is "moved" to the cgroup that it is in, which
changes nothing, when a container is about to be started, and the runtime finds the wait behind it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from mesos_gpu.base.linux.cgroups import read_cgroups

OWN_CGROUPS = Path("/proc/self/cgroup")
MYSELF = b"0"
"""Which process is to be moved: the one that writes."""

log = logging.getLogger(__name__)


class Forerunner:
    """Runs ahead of runtimes; `mounts` says where hierarchies are mounted by controller, version 2 under no name.

    Where that cannot be done (no permission, another view of cgroups), nothing is done: containers start all the same.
    """

    def __init__(self, mounts: Mapping[str, Path]) -> None:
        self._mounts = mounts
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="forerunner")
        self._running: Future[None] | None = None
        self._refused = False

    def run(self) -> Future[None] | None:
        """Begin to wait, in a thread, unless one waits already; return what is done when the wait is over."""
        if not self._refused and (self._running is None or self._running.done()):
            self._running = self._thread.submit(self._wait)
        return self._running

    def _wait(self) -> None:
        try:
            # Read each time: somebody may have moved this process meanwhile, and that must stay so.
            file = own_file(OWN_CGROUPS.read_text(), self._mounts)
            if file is None:
                raise FileNotFoundError("no hierarchy that is mounted here")
            opened = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(opened, MYSELF)
            finally:
                os.close(opened)
        except OSError as error:
            self._refused = True
            log.debug("containers start some milliseconds later: %s", error)


def own_file(cgroups: str, mounts: Mapping[str, Path]) -> Path | None:
    """Return the file that takes processes into the first cgroup of /proc/PID/cgroup that is mounted. Pure."""
    for one in read_cgroups(cgroups):
        # One that the runtime of an outer container shows from outside cannot be reached from here.
        for controller in one.controllers or ("",):
            if controller in mounts and ".." not in one.path.split("/"):
                return mounts[controller] / one.path.lstrip("/") / "cgroup.procs"
    return None
