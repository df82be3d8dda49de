"""What is on disk of each container, so that a restarted agent finds its containers again.

One JSON file per container. It is written before the step it names is taken, and outlives the process, not the machine:
a record of an earlier boot describes a container that is gone, so no fsync is needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from mesos_gpu.base.files import private_folder
from mesos_gpu.base.records import SUFFIX, Records
from mesos_gpu.container.spec.config import CONTAINER_ID, Termination, Volume
from mesos_gpu.isolator.plan import LaunchPlan
from mesos_gpu.mesos.ids import ContainerId

Step = Literal["preparing", "running", "ended"]
"""preparing: anything may exist or not. running: `pid` is its init. ended: see `termination`; may need releasing."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One container. The start times are those of `mesos_gpu.base.linux.processes.start_time`.

    A `session` ends with the agent that started it. `mem_bytes` are the most it may use, unless `mem_unlimited`,
    `mem_sure_bytes` what it is sure of (0 in records of before there was a difference).
    """

    container_id: ContainerId
    step: Step
    boot_id: str
    sandbox: str
    cpus_milli: int = 0
    cpus_limit_milli: int | None = None
    mem_bytes: int = 0
    mem_sure_bytes: int = 0
    mem_unlimited: bool = False
    gpus: int = 0
    disk_bytes: int = 0
    user: str | None = None
    users: str = ""
    """The numbers of its user namespace, FIRST:COUNT; empty: it has none."""
    users_on_disk: str = ""
    """The numbers that its files bear; empty: the same, as before there was a difference."""
    shares_cgroup: bool = False
    standalone: bool = False
    volumes: tuple[Volume, ...] = ()
    """Its persistent volumes in its sandbox, which containers nested in it may see too."""
    device_plan: LaunchPlan | None = None
    """What device plugins and CDI files gave it; containers nested in it have the same."""
    session: bool = False
    pid: int | None = None
    pid_start_time: int | None = None
    conmon_pid: int | None = None
    conmon_start_time: int | None = None
    holder_pid: int | None = None
    holder_start_time: int | None = None
    rotator_pid: int | None = None
    rotator_start_time: int | None = None
    held_until_s: float | None = None
    """Until when its init may be stopped for the other processes to end, in monotonic seconds; None: it is not."""
    termination: Termination | None = None


class ContainerRecords:
    """The records in one folder. Methods raise OSError."""

    def __init__(self, folder: Path) -> None:
        self._records = Records(
            folder,
            Record,
            lambda record: record.container_id,
            what="the state of its container",
            advice="the container is destroyed",
            durable=False,
        )

    def save(self, record: Record) -> None:
        """Replace the record of that container."""
        self._records.save(record)

    def forget(self, container_id: ContainerId) -> None:
        """Remove the record; nothing happens without one."""
        self._records.forget(container_id)

    def load(self) -> dict[ContainerId, Record | None]:
        """Return all records by container id; None for one that is damaged. Creates the folder if needed."""
        folder = self._records.folder
        private_folder(folder)
        for path in folder.iterdir():
            if path.suffix != SUFFIX or not CONTAINER_ID.fullmatch(path.stem):
                path.unlink()  # a replacement that was not finished
        records, damaged = self._records.load()
        found: dict[ContainerId, Record | None] = {record.container_id: record for record in records.values()}
        return found | {ContainerId(one.path.stem): None for one in damaged}
