"""What a container may use, over its life: what changes on record, what the kernel is told, what statistics show.

Source: Mesos src/slave/containerizer/mesos/containerizer.cpp (usage), isolators/cgroups/subsystems/{cpu,memory}.cpp.
"""

from __future__ import annotations

import os

import msgspec

from mesos_gpu.container.cgroups import Cgroups
from mesos_gpu.container.cgroups.files import Statistics
from mesos_gpu.container.spec.bundle import MIN_MEM_BYTES, cpu_limits
from mesos_gpu.container.spec.config import ContainerConfig, Size
from mesos_gpu.container.spec.linux import UNLIMITED, LinuxSettings, memory_document
from mesos_gpu.container.spec.nesting import is_nested
from mesos_gpu.container.state.checkpoints import Record


def first_record(config: ContainerConfig, boot_id: str) -> Record:
    """Return what is put on record of a container that is about to be launched."""
    shares = is_nested(config.container_id) and config.shares_cgroup
    limit = config.linux.mem_limit_bytes
    sure = config.mem_bytes if shares else max(config.mem_bytes, MIN_MEM_BYTES)
    return Record(
        container_id=config.container_id,
        step="preparing",
        boot_id=boot_id,
        sandbox=str(config.sandbox),
        cpus_milli=config.cpus_milli,
        cpus_limit_milli=config.linux.cpus_limit_milli,
        disk_bytes=0 if is_nested(config.container_id) else config.disk_bytes,
        mem_sure_bytes=sure,
        mem_bytes=sure if shares else max(sure, limit or 0),
        mem_unlimited=limit == UNLIMITED,
        gpus=config.gpus,
        user=config.user,
        shares_cgroup=shares,
        standalone=config.standalone,
        volumes=config.sandbox_volumes,
        device_plan=config.device_plan,
    )


def resized(record: Record, size: Size) -> Record:
    """Return the record of a container with another size, but for its GPUs.

    Its memory is not limited to less than it was once given: what it uses cannot be taken from it (so does Mesos).
    """
    sure = max(size.mem_bytes, MIN_MEM_BYTES)
    return msgspec.structs.replace(
        record,
        cpus_milli=size.cpus_milli,
        cpus_limit_milli=size.cpus_limit_milli,
        mem_sure_bytes=sure,
        mem_bytes=max(record.mem_bytes, sure, size.mem_limit_bytes or 0),
        mem_unlimited=record.mem_unlimited or size.mem_limit_bytes == UNLIMITED,
        disk_bytes=size.disk_bytes,
    )


def enforce(cgroups: Cgroups, record: Record, *, cfs_quota: bool) -> None:
    """Have the kernel hold a container to what is on record. Raises OSError."""
    limit: int | None = None
    if record.mem_unlimited:
        limit = UNLIMITED
    elif record.mem_sure_bytes and record.mem_bytes > record.mem_sure_bytes:
        limit = record.mem_bytes
    sure = record.mem_sure_bytes or record.mem_bytes
    cgroups.limit(
        record.container_id,
        cpu_limits(record.cpus_milli, cfs_quota=cfs_quota, limit_milli=record.cpus_limit_milli),
        memory_document(LinuxSettings(mem_limit_bytes=limit), sure),
    )


def limits_shown(record: Record) -> Statistics:
    """Return the part of ResourceStatistics that says what a container may use; without end is all there is."""
    cpus = record.cpus_milli if record.cpus_limit_milli is None else record.cpus_limit_milli
    page = os.sysconf("SC_PAGE_SIZE")
    return {
        "cpus_soft_limit": record.cpus_milli / 1000,
        "cpus_limit": float(os.cpu_count() or 1) if cpus == UNLIMITED else cpus / 1000,
        "mem_soft_limit_bytes": record.mem_sure_bytes or record.mem_bytes,
        "mem_limit_bytes": page * os.sysconf("SC_PHYS_PAGES") if record.mem_unlimited else record.mem_bytes,
    }
