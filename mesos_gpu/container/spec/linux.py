"""What a container may be given or denied beside its resources: limits, rlimits, /dev/shm, capabilities. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

UNLIMITED = -1
"""As OCI runtimes and cgroups write it."""

RLIM_INFINITY = (1 << 64) - 1
SHM = "/dev/shm"


class Rlimit(Struct, frozen=True):
    """One resource limit of processes, by the name of setrlimit(2); RLIM_INFINITY is no limit."""

    name: str
    soft: int
    hard: int


class LinuxSettings(Struct, frozen=True):
    """What a task may ask of Linux; None leaves things as they are for every container.

    `cpus_limit_milli` and `mem_limit_bytes` are the most it may use, where that is more than it is sure of; UNLIMITED:
    as much as there is. `effective` and `bounding` are capabilities by the names of capabilities(7).
    `seccomp_profile` is one of the agent's, by name; `unconfined`: no system call is filtered.
    """

    cpus_limit_milli: int | None = None
    mem_limit_bytes: int | None = None
    rlimits: tuple[Rlimit, ...] = ()
    shm_bytes: int | None = None
    effective: tuple[str, ...] | None = None
    bounding: tuple[str, ...] | None = None
    seccomp_profile: str | None = None
    unconfined: bool = False


USUAL = LinuxSettings()
"""Nothing is asked for."""


def rlimits_document(settings: LinuxSettings) -> dict[str, Any]:
    """Return the part of `process` of an OCI bundle that has rlimits; without any, they are the agent's."""
    limits = [{"type": limit.name, "soft": limit.soft, "hard": limit.hard} for limit in settings.rlimits]
    return {"rlimits": limits} if limits else {}


def capabilities_document(settings: LinuxSettings, usual: Sequence[str]) -> dict[str, list[str]]:
    """Return `process.capabilities` of an OCI bundle; `usual` are those that every container has.

    Those that were asked for are ambient too: a user other than root has them then (so does Mesos, linux/capabilities).
    """
    bounding = list(usual if settings.bounding is None else settings.bounding)
    if settings.effective is None:
        effective = [name for name in usual if name in bounding]
        return {"bounding": bounding, "effective": effective, "permitted": effective}
    asked = list(settings.effective)
    bounding = bounding if settings.bounding is not None else asked
    sets = ("effective", "permitted", "inheritable", "ambient")
    return {"bounding": bounding, **{name: asked for name in sets}}


def memory_document(settings: LinuxSettings, mem_bytes: int) -> dict[str, int]:
    """Return `linux.resources.memory` of an OCI bundle for a container that is sure of `mem_bytes`."""
    if settings.mem_limit_bytes is None:
        return {"limit": mem_bytes}
    if settings.mem_limit_bytes == UNLIMITED:
        return {"limit": UNLIMITED, "reservation": mem_bytes}
    return {"limit": max(settings.mem_limit_bytes, mem_bytes), "reservation": mem_bytes}


def with_shm(mounts: Sequence[dict[str, Any]], settings: LinuxSettings) -> list[dict[str, Any]]:
    """Return the mounts with /dev/shm as large as was asked for."""
    if settings.shm_bytes is None:
        return list(mounts)
    size = f"size={settings.shm_bytes}"
    return [
        {**mount, "options": [*mount["options"], size]} if mount["destination"] == SHM else mount for mount in mounts
    ]
