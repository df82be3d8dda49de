"""cgroup version 2: one tree for all controllers."""

from __future__ import annotations

import select
import signal
from collections.abc import Mapping
from pathlib import Path

from mesos_gpu.base.linux.cgroups import processes_in
from mesos_gpu.container.cgroups.files import (
    Column,
    Statistics,
    make_fit,
    make_root,
    names_of_cgroups,
    read_number,
    read_table,
    read_text,
    remove_tree,
    rename,
    signal_pids,
    write_below,
)
from mesos_gpu.container.cgroups.forerunner import Forerunner
from mesos_gpu.container.spec.linux import UNLIMITED
from mesos_gpu.container.spec.nesting import cgroup_of
from mesos_gpu.mesos.ids import ContainerId

CPU: tuple[Column, ...] = (
    ("cpus_user_time_secs", "user_usec", lambda us: us / 1e6),
    ("cpus_system_time_secs", "system_usec", lambda us: us / 1e6),
    ("cpus_nr_periods", "nr_periods", int),
    ("cpus_nr_throttled", "nr_throttled", int),
    ("cpus_throttled_time_secs", "throttled_usec", lambda us: us / 1e6),
)
MEMORY: tuple[Column, ...] = (
    ("mem_rss_bytes", "anon", int),
    ("mem_anon_bytes", "anon", int),
    ("mem_cache_bytes", "file", int),
    ("mem_file_bytes", "file", int),
    ("mem_mapped_file_bytes", "file_mapped", int),
    ("mem_unevictable_bytes", "unevictable", int),
)


class CgroupsV2:
    """The cgroup2 tree mounted at `mount`."""

    version = 2

    def __init__(self, root: str, mount: Path) -> None:
        self._mount, self._root = mount, mount / root
        self._forerunner = Forerunner({"": mount})

    def controllers(self) -> frozenset[str]:
        """Return which of `cpu`, `memory` and `pids` our part of the tree was given."""
        return frozenset({"cpu", "memory", "pids"} & set((read_text(self._mount / "cgroup.controllers") or "").split()))

    def expect(self) -> None:
        """See `Forerunner`."""
        self._forerunner.run()

    def check(self) -> None:
        """Make the root cgroup; raises Unavailable when the kernel refuses."""
        make_root([self._root])

    def limit(self, container_id: ContainerId, cpu: Mapping[str, int], memory: Mapping[str, int]) -> None:
        """Write cpu.weight, cpu.max, memory.max and .low of the controllers that we were given. Raises OSError."""
        folder, controllers = self._root / cgroup_of(container_id), self.controllers()
        if "cpu" in controllers:
            (folder / "cpu.weight").write_text(str(weight_of(cpu["shares"])))
            if "quota" in cpu:
                (folder / "cpu.max").write_text(f"{cpu['quota']} {cpu['period']}")
            elif (folder / "cpu.max").exists():
                (folder / "cpu.max").write_text("max")
        if "memory" in controllers:
            (folder / "memory.max").write_text("max" if memory["limit"] == UNLIMITED else str(memory["limit"]))
            if "reservation" in memory:
                (folder / "memory.low").write_text(str(memory["reservation"]))

    def make(self, container_id: ContainerId) -> tuple[Path, ...]:
        """Make it, with the limits of what it lies in; return the file that takes processes."""
        folder = self._root
        for part in cgroup_of(container_id).split("/"):
            folder = folder / part
            make_fit(folder)
        return (folder / "cgroup.procs",)

    def beside(self, container_id: ContainerId) -> tuple[Path, ...]:
        """Return nothing: the runtime makes all there is."""
        return ()

    def made_beside(self, container_id: ContainerId) -> bool:
        """There are none."""
        return True

    def pids(self, container_id: ContainerId) -> frozenset[int]:
        """Return the processes in it and below it."""
        return processes_in(self._root / cgroup_of(container_id))

    def freeze_file(self, container_id: ContainerId) -> Path | None:
        """Return cgroup.freeze."""
        return self._root / cgroup_of(container_id) / "cgroup.freeze"

    def kill(self, container_id: ContainerId) -> None:
        """Send SIGKILL to every process in it, in one step where the kernel can (5.14), and thaw it."""
        write_below(self._root / cgroup_of(container_id), "cgroup.freeze", "0")
        try:
            (self._root / cgroup_of(container_id) / "cgroup.kill").write_text("1")
        except OSError:
            signal_pids(self.pids(container_id), signal.SIGKILL)

    def remove(self, container_id: ContainerId) -> bool:
        """Remove it; False while it is busy."""
        return remove_tree(self._root / cgroup_of(container_id))

    def containers(self) -> frozenset[ContainerId]:
        """Return the containers that have a cgroup, without those nested in them."""
        return names_of_cgroups(self._root)

    def remove_root(self) -> None:
        """Remove the root cgroup if nothing is in it."""
        folder = self._root
        while folder != self._mount:
            try:
                folder.rmdir()
            except OSError:
                break
            folder = folder.parent

    def usage(self, container_id: ContainerId) -> Statistics:
        """Return CPU time, memory and processes."""
        folder = self._root / cgroup_of(container_id)
        found: Statistics = {
            "processes": len(processes_in(folder)),
            "threads": len(processes_in(folder, "cgroup.threads")),
        }
        total = read_number(folder / "memory.current")
        if total is not None:
            found["mem_total_bytes"] = total
        found.update(rename(read_table(folder / "cpu.stat"), CPU))
        found.update(rename(read_table(folder / "memory.stat"), MEMORY))
        return found

    def oom_kills(self, container_id: ContainerId) -> int:
        """Return the kernel's count."""
        return read_table(self._root / cgroup_of(container_id) / "memory.events").get("oom_kill", 0)

    def mem_max_bytes(self, container_id: ContainerId) -> int | None:
        """Return the highest memory.current there was (kernel 5.19)."""
        return read_number(self._root / cgroup_of(container_id) / "memory.peak")

    def mem_statistics(self, container_id: ContainerId) -> str | None:
        """Return memory.stat."""
        return read_text(self._root / cgroup_of(container_id) / "memory.stat")

    def watch_oom(self, container_id: ContainerId) -> ChangeWatch | None:
        """Return a watch of memory.events, which also changes for reasons other than OOM."""
        try:
            return ChangeWatch(self._root / cgroup_of(container_id) / "memory.events")
        except OSError:
            return None


def weight_of(shares: int) -> int:
    """Return the cpu.weight (1 to 10000) that stands for v1 shares (2 to 262144), as OCI runtimes convert it."""
    return 1 + (min(max(shares, 2), 262144) - 2) * 9999 // 262142


class ChangeWatch:
    """Readable when a control file has changed.

    Such files are always readable and report a change as EPOLLPRI; an epoll of that one event, itself watched for
    reading, turns this into what an event loop understands.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        self._file.read()  # changes count from the last read
        self._epoll = select.epoll()
        self._epoll.register(self._file, select.EPOLLPRI)

    def fileno(self) -> int:
        """Return the descriptor of the epoll."""
        return self._epoll.fileno()

    def drain(self) -> bool:
        """Read the file, from when on changes count, and say whether it tells of an OOM kill."""
        self._file.seek(0)
        try:
            lines = self._file.read().splitlines()
        except OSError:  # the cgroup is gone
            self._epoll.unregister(self._file)
            return False
        return any(line.startswith(b"oom_kill ") and not line.endswith(b" 0") for line in lines)

    def close(self) -> None:
        """Stop watching."""
        self._epoll.close()
        self._file.close()
