"""cgroup version 1: one tree per controller, and no way to kill or wait for a whole cgroup."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

from mesos_gpu.base.linux.cgroups import processes_in
from mesos_gpu.container.cgroups.files import (
    Column,
    Statistics,
    make_like_parent,
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
    ("cpus_nr_periods", "nr_periods", int),
    ("cpus_nr_throttled", "nr_throttled", int),
    ("cpus_throttled_time_secs", "throttled_time", lambda ns: ns / 1e9),
)
MEMORY: tuple[Column, ...] = (
    ("mem_rss_bytes", "total_rss", int),
    ("mem_anon_bytes", "total_rss", int),
    ("mem_cache_bytes", "total_cache", int),
    ("mem_file_bytes", "total_cache", int),
    ("mem_mapped_file_bytes", "total_mapped_file", int),
    ("mem_unevictable_bytes", "total_unevictable", int),
)


class CgroupsV1:
    """All version 1 hierarchies of this machine as one; `hierarchies` maps each controller to its mount.

    `unified` is the version 2 tree of a hybrid machine, which limits nothing and holds every process all the same.
    """

    version = 1

    def __init__(self, root: str, hierarchies: Mapping[str, Path], unified: Path | None = None) -> None:
        self._root = root
        self._by_controller = dict(hierarchies)
        self._unified = unified
        trees = [*hierarchies.values(), *([] if unified is None else [unified])]
        self._mounts = tuple(dict.fromkeys(trees))
        self._forerunner = Forerunner(hierarchies)

    def controllers(self) -> frozenset[str]:
        """Return which of `cpu`, `memory` and `pids` are mounted."""
        return frozenset({"cpu", "memory", "pids"} & set(self._by_controller))

    def expect(self) -> None:
        """See `Forerunner`."""
        self._forerunner.run()

    def check(self) -> None:
        """Make the root cgroup everywhere; raises Unavailable when the kernel refuses."""
        make_root(mount / self._root for mount in self._mounts)

    def limit(self, container_id: ContainerId, cpu: Mapping[str, int], memory: Mapping[str, int]) -> None:
        """Write cpu.shares, cfs quota and the limits of memory of the controllers that are mounted. Raises OSError."""
        if "cpu" in self._by_controller:
            folder = self._folder("cpu", container_id)
            for name, file in (
                ("shares", "cpu.shares"),
                ("period", "cpu.cfs_period_us"),
                ("quota", "cpu.cfs_quota_us"),
            ):
                if name in cpu:
                    (folder / file).write_text(str(cpu[name]))
                elif name == "quota" and (folder / file).exists():
                    (folder / file).write_text(str(UNLIMITED))
        if "memory" in self._by_controller:
            folder = self._folder("memory", container_id)
            (folder / "memory.limit_in_bytes").write_text(str(memory["limit"]))
            if "reservation" in memory:
                (folder / "memory.soft_limit_in_bytes").write_text(str(memory["reservation"]))

    def make(self, container_id: ContainerId) -> tuple[Path, ...]:
        """Make it, in all hierarchies, with the limits of what it lies in; return the files that take processes."""
        for mount in self._mounts:
            below = mount / self._root
            for part in cgroup_of(container_id).split("/"):
                below = below / part
                if not below.is_dir():
                    make_like_parent(below)
        return tuple(folder / "cgroup.procs" for folder in self._folders(container_id))

    def beside(self, container_id: ContainerId) -> tuple[Path, ...]:
        """Make its cgroup in the version 2 tree, which runtimes leave alone; return the file that takes processes."""
        if self._unified is None:
            return ()
        folder = self._unified / self._root / cgroup_of(container_id)
        folder.mkdir(parents=True, exist_ok=True)
        return (folder / "cgroup.procs",)

    def made_beside(self, container_id: ContainerId) -> bool:
        """Return whether it is in the version 2 tree, where that is."""
        return self._unified is None or (self._unified / self._root / cgroup_of(container_id)).is_dir()

    def pids(self, container_id: ContainerId) -> frozenset[int]:
        """Return the processes that are in the container's cgroup of any hierarchy."""
        return frozenset().union(*(processes_in(folder) for folder in self._folders(container_id)))

    def freeze_file(self, container_id: ContainerId) -> Path | None:
        """Return the freezer's file, that of the version 2 tree where there is no freezer."""
        if "freezer" in self._by_controller:
            return self._folder("freezer", container_id) / "freezer.state"
        if self._unified is None:
            return None
        return self._unified / self._root / cgroup_of(container_id) / "cgroup.freeze"

    def kill(self, container_id: ContainerId) -> None:
        """Send SIGKILL to every process in it; a fork may escape one call, so call until `remove` succeeds.

        What is frozen takes no signal: it is thawed, wherever below the container's cgroup it was frozen.
        """
        signal_pids(self.pids(container_id), signal.SIGKILL)
        if self._unified is not None:
            write_below(self._unified / self._root / cgroup_of(container_id), "cgroup.freeze", "0")
        if "freezer" in self._by_controller:
            write_below(self._folder("freezer", container_id), "freezer.state", "THAWED")

    def remove(self, container_id: ContainerId) -> bool:
        """Remove it from all hierarchies; False while one is busy."""
        return all([remove_tree(folder) for folder in self._folders(container_id)])

    def containers(self) -> frozenset[ContainerId]:
        """Return the containers that have a cgroup in any hierarchy, without those nested in them."""
        return frozenset().union(*(names_of_cgroups(mount / self._root) for mount in self._mounts))

    def remove_root(self) -> None:
        """Remove the root cgroup from the hierarchies where nothing is in it."""
        for mount in self._mounts:
            folder = mount / self._root
            while folder != mount:  # the root may be several levels deep
                try:
                    folder.rmdir()
                except OSError:
                    break
                folder = folder.parent

    def usage(self, container_id: ContainerId) -> Statistics:
        """Return CPU time, memory and processes."""
        devices, memory = self._folder("devices", container_id), self._folder("memory", container_id)
        found: Statistics = {
            "processes": len(processes_in(devices)),
            "threads": len(processes_in(devices, "tasks")),
        }
        times = (("cpus_user_time_secs", "cpuacct.usage_user"), ("cpus_system_time_secs", "cpuacct.usage_sys"))
        for name, file in times:
            nanoseconds = read_number(self._folder("cpuacct", container_id) / file)
            if nanoseconds is not None:
                found[name] = nanoseconds / 1e9
        total = read_number(memory / "memory.usage_in_bytes")
        if total is not None:
            found["mem_total_bytes"] = total
        found.update(rename(read_table(self._folder("cpu", container_id) / "cpu.stat"), CPU))
        found.update(rename(read_table(memory / "memory.stat"), MEMORY))
        return found

    def oom_kills(self, container_id: ContainerId) -> int:
        """Return the kernel's count (memory.failcnt does not count this)."""
        return read_table(self._folder("memory", container_id) / "memory.oom_control").get("oom_kill", 0)

    def mem_max_bytes(self, container_id: ContainerId) -> int | None:
        """Return the highest memory.usage_in_bytes there was."""
        return read_number(self._folder("memory", container_id) / "memory.max_usage_in_bytes")

    def mem_statistics(self, container_id: ContainerId) -> str | None:
        """Return memory.stat."""
        return read_text(self._folder("memory", container_id) / "memory.stat")

    def watch_oom(self, container_id: ContainerId) -> EventWatch | None:
        """Return an eventfd that the kernel writes to when the limit is hit (and when the cgroup goes)."""
        try:
            return EventWatch(self._folder("memory", container_id))
        except OSError:
            return None

    def _folder(self, controller: str, container_id: ContainerId) -> Path:
        mount = self._by_controller.get(controller, self._by_controller["devices"])
        return mount / self._root / cgroup_of(container_id)

    def _folders(self, container_id: ContainerId) -> list[Path]:
        return [mount / self._root / cgroup_of(container_id) for mount in self._mounts]


class EventWatch:
    """An eventfd that the kernel writes to."""

    def __init__(self, folder: Path) -> None:
        self._control = folder / "memory.oom_control"
        self._fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            with self._control.open() as control:
                (folder / "cgroup.event_control").write_text(f"{self._fd} {control.fileno()}")
        except BaseException:
            os.close(self._fd)
            raise

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._fd

    def drain(self) -> bool:
        """Reset the count; the kernel counts nothing but limits that were hit, and the end of the cgroup."""
        try:
            os.eventfd_read(self._fd)
        except BlockingIOError:
            return False
        return self._control.exists()

    def close(self) -> None:
        """Close it."""
        os.close(self._fd)
