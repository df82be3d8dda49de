"""Which devices a running cgroup may open: one list of rules, written as cgroup v1 or v2 wants it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from mesos_gpu.base.linux.cgroups import cgroups_of
from mesos_gpu.base.linux.mounts import Mount, current_mounts
from mesos_gpu.errors import ContainerError, NotFound, Unavailable
from mesos_gpu.isolator import bpf
from mesos_gpu.isolator.device_program import assemble
from mesos_gpu.isolator.plan import DeviceRule

BETWEEN = "mesos"
"""Name of the cgroup in a container's that holds those of its nested containers; it holds no process itself."""


class DeviceAccess(Protocol):
    """The device policy of one cgroup. What is open already stays open, in both versions."""

    @property
    def folder(self) -> Path:
        """Return where the cgroup is mounted."""

    def change(self, rules: Sequence[DeviceRule], opened: Iterable[DeviceRule], closed: Iterable[DeviceRule]) -> None:
        """Make `rules` the whole list; beside what holds now, `opened` are new in it and `closed` are gone from it.

        Raises OSError when the kernel refuses, ContainerError when the policy is somebody else's.
        """


class DevicesV1:
    """cgroup v1: devices.deny and devices.allow, a line at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def change(self, rules: Sequence[DeviceRule], opened: Iterable[DeviceRule], closed: Iterable[DeviceRule]) -> None:
        """Write what changes; the kernel keeps the rest of the list."""
        for rule in closed:
            (self.folder / "devices.deny").write_text(str(rule))
        for rule in opened:
            try:
                (self.folder / "devices.allow").write_text(str(rule))
            except PermissionError:
                if self.folder.parent.name != BETWEEN:
                    raise
                # The cgroup between a container's and a nested one's has what the container had when it was made.
                (self.folder.parent / "devices.allow").write_text(str(rule))
                (self.folder / "devices.allow").write_text(str(rule))


class DevicesV2:
    """cgroup v2: one program of ours in place of the one that is there, in one step."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def change(self, rules: Sequence[DeviceRule], opened: Iterable[DeviceRule], closed: Iterable[DeviceRule]) -> None:
        """Replace the program. Raises ContainerError when there are several: all of them must allow, and not all are
        the container's runtime's.
        """
        there = bpf.attached(self.folder)
        if len(there) > 1:
            raise ContainerError(f"{self.folder} has {len(there)} device programs, and only one can be replaced")
        with bpf.loaded(assemble(rules)) as program:
            bpf.attach(self.folder, program, instead_of=there[0] if there else None)


def find_device_access(pid: int) -> DeviceAccess:
    """Return the device policy that `pid` lives under, by this thread's mounts.

    Raises NotFound when there is no such process, Unavailable when its cgroup is not mounted here or is the root one.
    """
    memberships = cgroups_of(pid)
    if memberships is None:
        raise NotFound(f"there is no process {pid}")
    v1, v2 = _mounts()
    of_v1 = next((one.path for one in memberships if "devices" in one.controllers), None)
    of_v2 = next((one.path for one in memberships if not one.controllers), None)
    if v1 is not None and of_v1 is not None:
        return DevicesV1(_below(v1, of_v1, pid))
    if v2 is not None and of_v2 is not None:
        return DevicesV2(_below(v2, of_v2, pid))
    raise Unavailable("neither the v1 `devices` controller nor cgroup2 is mounted here")


def _mounts() -> tuple[Mount | None, Mount | None]:
    """Return the mounts of the v1 `devices` hierarchy and of cgroup2."""
    mounts = current_mounts()
    # The last one of version 1: those before it can be hidden by it.
    v1 = next((one for one in reversed(mounts) if one.kind == "cgroup" and "devices" in one.options), None)
    return v1, next((one for one in mounts if one.kind == "cgroup2"), None)


def _below(mount: Mount, path: str, pid: int) -> Path:
    inside = os.path.relpath(path, mount.root)
    folder = Path(mount.path) / inside
    if inside == ".":
        raise Unavailable(f"process {pid} is in the root cgroup, whose device policy is the machine's")
    if inside.startswith("..") or not folder.is_dir():
        raise Unavailable(f"the cgroup {path} of process {pid} is not below {mount.path}")
    return folder
