"""How a container ended, in Mesos' words."""

from __future__ import annotations

from msgspec.structs import replace

from mesos_gpu.container.cgroups import Cgroups
from mesos_gpu.container.host.disk import over_quota
from mesos_gpu.container.spec.config import Termination, read_status
from mesos_gpu.container.state.live import LiveContainer
from mesos_gpu.mesos.ids import ContainerId


def judge(container: LiveContainer, status: int | None, cgroups: Cgroups) -> Termination:
    """Return the termination of a container whose cgroup is still there; `status` None: nobody knows it."""
    if status is None:
        message = "how the container ended is not known: conmon, which keeps its exit status, has ended too"
        termination = Termination(message=message)
    else:
        termination = read_status(status)
    container_id = container.record.container_id
    if container.over_disk is not None:
        found = container.over_disk
        return replace(termination, message=over_quota(found), disk_limit_bytes=found.limit)
    if container.record.shares_cgroup:  # its parent's memory, of which that one's end tells
        return termination
    killed = container.ran_out_of_memory or cgroups.oom_kills(container_id) > 0
    if not killed or termination.exit_code == 0:
        return termination
    limit, most = container.record.mem_bytes, cgroups.mem_max_bytes(container_id)
    used = f" Maximum Used: {most >> 20}MB" if most is not None else ""
    return Termination(
        exit_code=termination.exit_code,
        signal=termination.signal,
        oom=True,
        mem_limit_bytes=limit,
        mem_max_bytes=most,
        message=f"Memory limit exceeded: Requested: {limit >> 20}MB{used}{_memory_statistics(cgroups, container_id)}",
    )


def _memory_statistics(cgroups: Cgroups, container_id: ContainerId) -> str:
    """Return what the kernel says of a container's memory, as Mesos puts it into the message."""
    text = cgroups.mem_statistics(container_id)
    return "" if text is None else f"\n\nMEMORY STATISTICS: \n{text}\n"
