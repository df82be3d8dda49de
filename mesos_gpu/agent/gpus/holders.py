"""Whether those who were lent GPUs are still there: processes, cgroups and engines' containers, looked at."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mesos_gpu.agent.model.leases import HolderProcess, Seen, Watch
from mesos_gpu.base.linux.cgroups import is_populated
from mesos_gpu.base.linux.processes import read_boot_id, running_start_time, start_time
from mesos_gpu.errors import BadInput

_CONTAINER = re.compile(r"[0-9a-f]{64}")


class Host:
    """This machine's processes, cgroups and engines' folders."""

    def __init__(self) -> None:
        self._boot = read_boot_id()

    def process(self, pid: int, started: int = 0) -> HolderProcess:
        """Return the process `pid` as it can be known again. Raises BadInput when it is not there, or is another."""
        found = start_time(pid)
        if found is None or (started and found != started):
            raise BadInput(f"there is no process {pid}" + (f" that began at {started}" if started else ""))
        return HolderProcess(pid, found, self._boot)

    def see(self, watch: Watch) -> Seen:
        """Look at everything of a watch. Raises OSError where something of it cannot be looked at."""
        container, exists = "", False
        if watch.engine is not None:
            container = watch.engine.container or _container_in(Path(watch.engine.cidfile))
            exists = bool(container) and (Path(watch.engine.folder) / container).is_dir()
        return Seen(
            frozenset(process for process in watch.processes if self._runs(process)),
            frozenset(cgroup for cgroup in watch.cgroups if is_populated(Path(cgroup))),
            container,
            exists,
        )

    async def wait(self, watch: Watch, changed: asyncio.Event, timeout_s: float) -> None:
        """Return when a process of the watch has ended, `changed` is set, or the time is up."""
        with _told_of_ends(watch.processes, changed):
            try:
                await asyncio.wait_for(changed.wait(), timeout_s)
            except (TimeoutError, asyncio.TimeoutError):
                pass
        changed.clear()

    def _runs(self, process: HolderProcess) -> bool:
        return process.boot == self._boot and running_start_time(process.pid) == process.started


def _container_in(cidfile: Path) -> str:
    """Return the container's id that an engine wrote; empty when there is none, or not yet all of it."""
    try:
        text = cidfile.read_text("latin-1").strip()
    except FileNotFoundError:
        return ""
    return text if _CONTAINER.fullmatch(text) else ""


@contextmanager
def _told_of_ends(processes: Iterable[HolderProcess], changed: asyncio.Event) -> Iterator[None]:
    """Set `changed` when one of the processes ends."""
    loop = asyncio.get_running_loop()
    descriptors = []
    try:
        for process in processes:
            try:
                descriptor = os.pidfd_open(process.pid)
            except ProcessLookupError:
                changed.set()
                continue
            descriptors.append(descriptor)
            loop.add_reader(descriptor, changed.set)
        yield
    finally:
        for descriptor in descriptors:
            loop.remove_reader(descriptor)
            os.close(descriptor)
