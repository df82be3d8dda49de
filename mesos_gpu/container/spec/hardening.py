"""What hardens a container beside its namespaces and its resources. Pure.

Defaults are decided here. System calls: Docker's, see `seccomp_default`. `no_new_privileges`: off, as in Docker and
Mesos (isolator linux/nnp), since sudo, ping and su in images need it so; on where a task that is not root puts a volume
over the host's own files, which programs with a set-user-ID bit believe. Processes: a number that leaves the machine
room for others, since one container could else take all there are; Docker and Mesos set none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from mesos_gpu.container.spec.seccomp import Machine, Profile
from mesos_gpu.container.spec.seccomp_default import DEFAULT

MASKED_PATHS = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
)
"""What Docker hides (moby daemon/pkg/oci/defaults.go): secrets of the kernel, and meters that give away what others
compute."""
READONLY_PATHS = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")

USUAL_PIDS = 32768
SOME_MACHINE = Machine("x86_64", (5, 10))


class Hardening(Struct, frozen=True):
    """What holds for all containers of an agent; `seccomp` for those that ask for no other profile.

    None: no filter of system calls, no limit of processes, no AppArmor profile.
    """

    machine: Machine = SOME_MACHINE
    seccomp: Profile | None = DEFAULT
    no_new_privileges: bool = False
    users_confined: bool = False
    """Whether who is not root gains nothing in a container: no capability that is asked for, and no_new_privs."""
    pids_limit: int | None = None
    apparmor: str | None = None

    def process_document(self, *, no_new_privileges: bool) -> dict[str, Any]:
        """Return the part of `process` of an OCI bundle; `no_new_privileges`: also for this container."""
        profile = {} if self.apparmor is None else {"apparmorProfile": self.apparmor}
        return {"noNewPrivileges": self.no_new_privileges or no_new_privileges, **profile}

    def linux_document(self, capabilities: Sequence[str]) -> dict[str, Any]:
        """Return the part of `linux` of an OCI bundle, for a container that may have these capabilities."""
        filters = {} if self.seccomp is None else {"seccomp": self.seccomp.document(self.machine, capabilities)}
        return {"maskedPaths": list(MASKED_PATHS), "readonlyPaths": list(READONLY_PATHS), **filters}

    def pids_document(self) -> dict[str, Any]:
        """Return the part of `linux.resources` of an OCI bundle."""
        return {} if self.pids_limit is None else {"pids": {"limit": self.pids_limit}}


USUAL_HARDENING = Hardening()


def usual_pids_limit(most: int) -> int:
    """Return how many processes and threads a container may have where `most` are all that the machine can have."""
    return max(1, min(USUAL_PIDS, most // 2))
