"""Facts of this machine that an agent's resources are made of."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from mesos_gpu.agent.model.resources import Machine
from mesos_gpu.mesos.units import MIB


def measure(work_dir: Path) -> Machine:
    """Return CPUs, memory and the size of the file system under `work_dir`, which must exist."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(cpus=os.cpu_count() or 1, mem_mib=memory // MIB, disk_mib=shutil.disk_usage(work_dir).total // MIB)
