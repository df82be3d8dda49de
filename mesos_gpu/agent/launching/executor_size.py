"""How large the container of an executor has to be for its tasks. Pure.

It is sure of what it and its tasks were given. As soon as one of the tasks may use more, so may the container: the sum
of the limits, with the given share standing for the limit of whoever has none; without end when one of them is.
Source: Mesos src/slave/slave.cpp, computeExecutorLimits; isolators/posix/disk.cpp, update.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from mesos_gpu.container.spec.config import Size
from mesos_gpu.container.spec.linux import UNLIMITED
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.units import MIB


def executor_size(executor: Mapping[str, Any], tasks: Iterable[Mapping[str, Any]], *, cfs_quota: bool) -> Size:
    """Return the size of the container of an executor (an ExecutorInfo) with these tasks (TaskInfos).

    Without `cfs_quota` CPUs are limited only when every task that has any says how much it may use at most: else the
    others would be held to a share of what is theirs only when the machine is busy.
    """
    own = Resources.from_json(executor.get("resources", []))
    infos = list(tasks)
    shares = [Resources.from_json(info.get("resources", [])) for info in infos]
    total = sum(shares, own)
    cpus, all_say_cpus = _limit(own, infos, shares, "cpus", 1000)
    mem, _ = _limit(own, infos, shares, "mem", MIB)
    return Size(
        cpus_milli=total.milli("cpus"),
        mem_bytes=_mem_bytes(total),
        gpus=total.gpus,
        disk_bytes=disk_bytes(executor) + sum(map(disk_bytes, infos)),
        cpus_limit_milli=cpus if cfs_quota or all_say_cpus else None,
        mem_limit_bytes=mem,
    )


def disk_bytes(info: Mapping[str, Any]) -> int:
    """Return the quota of a sandbox that a task or executor brings: its disk, less what is a volume; 0 for none."""
    plain = [resource for resource in info.get("resources", ()) if "disk" not in resource]
    return Resources.from_json(plain).milli("disk") * MIB // 1000


def _limit(
    own: Resources, tasks: list[Mapping[str, Any]], shares: list[Resources], name: str, unit: int
) -> tuple[int | None, bool]:
    """Return the limit of all together in `unit`s, None when none of the tasks has one; and whether all have."""
    limits = [(info.get("limits") or {}).get(name) for info in tasks]
    given = [float(limit["value"]) for limit in limits if limit is not None]
    if not given:
        return None, False
    rest = [share.milli(name) for share, limit in zip(shares, limits, strict=True) if limit is None]
    if any(map(math.isinf, given)):
        return UNLIMITED, not any(rest)
    return sum(round(value * unit) for value in given) + (own.milli(name) + sum(rest)) * unit // 1000, not any(rest)


def _mem_bytes(resources: Resources) -> int:
    return resources.milli("mem") * MIB // 1000
