"""What simulated GPUs say they are. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mesos_gpu.errors import BadFlag
from mesos_gpu.gpu.wirings import PAIRS, wiring_of

SIMULATED_VERSION = "999.0-simulated"
"""No NVIDIA driver has it, so a driver volume of ours is never taken for a real one."""
MAX_GPUS = 254
"""Minors 254 and 255 of major 195 are nvidia-modeset and nvidiactl."""
MEMORY_MIB = 16384
MAX_MEMORY_MIB = 1 << 24
_VERSION = re.compile(r"[0-9][0-9A-Za-z.-]{0,40}")
"""It names a folder, and stands between tabs in the table that nvidia-smi reads."""


@dataclass(frozen=True, slots=True)
class Make:
    """What simulated GPUs say they are: a model's name, memory of each in MiB, the version of their driver, and how
    they are connected (a name of `wirings`).
    """

    model: str = "Simulated GPU"
    memory_mib: int = MEMORY_MIB
    driver_version: str = SIMULATED_VERSION
    topology: str = PAIRS

    def checked(self, gpus: int = 0) -> Make:
        """Return it. Raises BadFlag for what so many GPUs cannot be, or cannot say by nvidia-smi."""
        if not self.model.strip() or not self.model.isprintable() or len(self.model) > 64:
            raise BadFlag("simulated_gpu_model", f"must be a name of 1 to 64 printable characters, not {self.model!r}")
        if not 1 <= self.memory_mib <= MAX_MEMORY_MIB:
            raise BadFlag("simulated_gpu_memory", f"must be 1 MiB to {MAX_MEMORY_MIB} MiB, not {self.memory_mib} MiB")
        if not _VERSION.fullmatch(self.driver_version):
            raise BadFlag(
                "simulated_gpu_driver_version",
                f"must be a version such as 535.104.05 (digits, letters, points, dashes), not {self.driver_version!r}",
            )
        wiring_of(self.topology, gpus)
        return self
