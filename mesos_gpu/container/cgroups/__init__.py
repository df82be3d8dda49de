"""The cgroups of our containers, version 1 or 2: who is in them, what they use, and their end.

An OCI runtime makes them, at `<cgroups_root>/<container id>`, as Mesos names them; we watch and remove them. Those of
containers that share their parent's limits are made here, at `<parent's>/mesos/<child id>`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from mesos_gpu.base.linux.mounts import Mount, current_mounts
from mesos_gpu.container.cgroups.files import Statistics
from mesos_gpu.container.cgroups.v1 import CgroupsV1
from mesos_gpu.container.cgroups.v2 import CgroupsV2
from mesos_gpu.container.host.mounts import unified_tree
from mesos_gpu.errors import Unavailable
from mesos_gpu.mesos.ids import ContainerId


class OomWatch(Protocol):
    """Tells when memory runs out in one cgroup."""

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when something happened."""

    def drain(self) -> bool:
        """Return whether memory ran out; only news make it readable again."""

    def close(self) -> None:
        """Stop watching."""


class Cgroups(Protocol):
    """What versions 1 and 2 have in common. Methods other than `check` take a missing cgroup for an empty one."""

    @property
    def version(self) -> int:
        """Return 1 or 2."""

    def controllers(self) -> frozenset[str]:
        """Return which of `cpu`, `memory` and `pids` can be limited here."""

    def expect(self) -> None:
        """A container is about to be started: have the kernel get ready for processes that change their cgroup."""

    def check(self) -> None:
        """Raise Unavailable when this process may not make cgroups; leaves the root cgroup behind."""

    def limit(self, container_id: ContainerId, cpu: Mapping[str, int], memory: Mapping[str, int]) -> None:
        """Change what it may use: `cpu` (shares, quota, period) and `memory` (limit, reservation) as in an OCI bundle.

        Without a quota there is none from now on. Raises OSError.
        """

    def make(self, container_id: ContainerId) -> tuple[Path, ...]:
        """Make it, with the limits of what it lies in and none of its own; return the files that take processes."""

    def beside(self, container_id: ContainerId) -> tuple[Path, ...]:
        """Make the cgroups of a container that no runtime makes; return the files that take processes."""

    def made_beside(self, container_id: ContainerId) -> bool:
        """Return whether the cgroups that `beside` makes are there."""

    def pids(self, container_id: ContainerId) -> frozenset[int]:
        """Return the processes in it, in the numbering of this process."""

    def freeze_file(self, container_id: ContainerId) -> Path | None:
        """Return the file that freezes and thaws it, `freezer.state` or `cgroup.freeze`; None where there is none."""

    def kill(self, container_id: ContainerId) -> None:
        """Send SIGKILL to every process in it."""

    def remove(self, container_id: ContainerId) -> bool:
        """Remove it, in all hierarchies; False while processes are still in it."""

    def containers(self) -> frozenset[ContainerId]:
        """Return the containers that have a cgroup in any hierarchy, without those nested in them."""

    def remove_root(self) -> None:
        """Remove the root cgroup if nothing is in it."""

    def usage(self, container_id: ContainerId) -> Statistics:
        """Return what it uses now."""

    def oom_kills(self, container_id: ContainerId) -> int:
        """Return how many processes the kernel has killed in it for want of memory."""

    def mem_max_bytes(self, container_id: ContainerId) -> int | None:
        """Return the most memory it ever used, None where the kernel does not tell."""

    def mem_statistics(self, container_id: ContainerId) -> str | None:
        """Return the kernel's memory.stat, None when it is not there."""

    def watch_oom(self, container_id: ContainerId) -> OomWatch | None:
        """Return a watch, None when there is nothing to watch."""


def find_cgroups(root: str) -> Cgroups:
    """Return this machine's cgroups, below the cgroup `root` such as `mesos`. Raises Unavailable without any."""
    mounts = current_mounts()
    hierarchies = hierarchies_v1(mounts)
    if "devices" in hierarchies:
        return CgroupsV1(root, hierarchies, unified_tree())
    for mount in mounts:
        if mount.kind == "cgroup2":
            return CgroupsV2(root, Path(mount.path))
    raise Unavailable("containers need cgroups, and neither the v1 `devices` controller nor cgroup2 is mounted here")


def hierarchies_v1(mounts: Iterable[Mount]) -> dict[str, Path]:
    """Return where each v1 controller, and each named hierarchy as `name=...`, is mounted."""
    found: dict[str, Path] = {}
    for mount in mounts:
        if mount.kind == "cgroup":
            for option in mount.options:
                if option not in ("rw", "ro", "xattr", "clone_children") and not option.startswith("release_agent"):
                    found[option] = Path(mount.path)
    return found
