"""A task's wishes about limits, rlimits, shared memory and capabilities, as the container room takes them. Pure.

Source: Mesos isolators cgroups/cpu, cgroups/mem (limits), posix/rlimits, namespaces/ipc, linux/capabilities. What
cannot be had is refused in words, never left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mesos_gpu.container.spec.bundle import CAPABILITIES
from mesos_gpu.container.spec.linux import RLIM_INFINITY, UNLIMITED, LinuxSettings, Rlimit
from mesos_gpu.errors import BadInput
from mesos_gpu.mesos.units import MIB

_RLIMITS = frozenset(
    (
        *("AS", "CORE", "CPU", "DATA", "FSIZE", "LOCKS", "MEMLOCK", "MSGQUEUE", "NICE", "NOFILE", "NPROC", "RSS"),
        *("RTPRIO", "RTTIME", "SIGPENDING", "STACK"),
    )
)


def read_settings(task: Mapping[str, Any], *, more_cpus_milli: int = 0, more_mem_bytes: int = 0) -> LinuxSettings:
    """Return what a TaskInfo wants. `more_...` is what its container has beside the task itself.

    Raises BadInput for what cannot be had.
    """
    container = task.get("container") or {}
    info = container.get("linux_info") or {}
    _check_namespaces(info)
    if info.get("effective_capabilities") is not None and info.get("capability_info") is not None:
        raise BadInput("Only one of 'capability_info' or 'effective_capabilities' is allowed")
    effective = _capabilities(info.get("effective_capabilities", info.get("capability_info")))
    bounding = _capabilities(info.get("bounding_capabilities"))
    if effective is not None and bounding is not None and not set(effective) <= set(bounding):
        raise BadInput("Bounding capabilities do not contain effective capabilities")
    limits = task.get("limits") or {}
    return LinuxSettings(
        cpus_limit_milli=_limit(limits.get("cpus"), 1000, more_cpus_milli),
        mem_limit_bytes=_limit(limits.get("mem"), MIB, more_mem_bytes),
        rlimits=tuple(_rlimit(limit) for limit in (container.get("rlimit_info") or {}).get("rlimits", ())),
        shm_bytes=int(info["shm_size"]) * MIB if "shm_size" in info else None,
        effective=effective,
        bounding=bounding,
        **_seccomp(info.get("seccomp")),
    )


def _seccomp(info: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what SeccompInfo asks for. Raises BadInput in Mesos' words.

    Source: Mesos src/slave/containerizer/mesos/isolators/linux/seccomp.cpp.
    """
    if info is None:
        return {}
    name, unconfined = info.get("profile_name"), bool(info.get("unconfined"))
    if name is not None and unconfined:
        raise BadInput(
            "Invalid Seccomp configuration: 'profile_name' given even though 'unconfined' Seccomp setting is enabled"
        )
    if name is None and not unconfined:
        raise BadInput("Missing Seccomp profile name")
    return {"seccomp_profile": name, "unconfined": unconfined}


def _limit(scalar: Mapping[str, Any] | None, unit: int, more: int) -> int | None:
    if scalar is None:
        return None
    value = float(scalar["value"])
    return UNLIMITED if math.isinf(value) else round(value * unit) + more


def _rlimit(limit: Mapping[str, Any]) -> Rlimit:
    kind = str(limit.get("type", "UNKNOWN")).removeprefix("RLMT_")
    if kind not in _RLIMITS:
        raise BadInput(f"The rlimit {limit.get('type')} is not known")
    soft, hard = limit.get("soft"), limit.get("hard")
    if (soft is None) != (hard is None):
        raise BadInput(f"The rlimit {limit['type']} needs both a soft and a hard limit, or neither for no limit")
    if soft is None or hard is None:
        return Rlimit(f"RLIMIT_{kind}", RLIM_INFINITY, RLIM_INFINITY)
    if int(soft) > int(hard):
        raise BadInput(f"The soft limit of {limit['type']} is above the hard one")
    return Rlimit(f"RLIMIT_{kind}", int(soft), int(hard))


def _check_namespaces(info: Mapping[str, Any]) -> None:
    if info.get("share_pid_namespace"):
        raise BadInput("Containers have PIDs of their own here: share_pid_namespace is not supported")
    if info.get("ipc_mode") == "SHARE_PARENT":
        raise BadInput("Containers have an IPC namespace of their own here: ipc_mode SHARE_PARENT is not supported")


def _capabilities(info: Mapping[str, Any] | None) -> tuple[str, ...] | None:
    """Return the set that a CapabilityInfo names: an empty message is the empty set, None means that none was given.

    Source: Mesos src/slave/containerizer/mesos/isolators/linux/capabilities.cpp.
    """
    if info is None:
        return None
    names = [f"CAP_{name}" for name in info.get("capabilities", ())]
    beyond = sorted(set(names) - set(CAPABILITIES))
    if beyond:
        raise BadInput(f"{', '.join(beyond)} cannot be had: with it a task could break out of its container")
    return tuple(dict.fromkeys(names))
