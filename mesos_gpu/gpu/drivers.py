"""Which GPUs this machine uses: the one place where `--gpu_driver` becomes a driver."""

from __future__ import annotations

from mesos_gpu.errors import BadFlag
from mesos_gpu.gpu.device import GpuDriver
from mesos_gpu.gpu.null import NullDriver
from mesos_gpu.gpu.simulated import SimulatedDriver

KINDS = ("auto", "nvml", "simulated", "none")


def open_driver(kind: str, *, simulated_gpus: int = 4) -> GpuDriver:
    """Return the driver that `--gpu_driver=kind` names.

    `auto` is NVML where it answers, else none, with the reason in the log. Raises BadFlag for another kind or a bad
    count, DeviceError when the driver asked for by name does not answer or is too old.
    """
    match kind:
        case "none":
            return NullDriver()
        case "simulated":
            return SimulatedDriver(simulated_gpus)
        case "nvml":
            from mesos_gpu.gpu.nvml import NvmlDriver

            return NvmlDriver()
        case "auto":
            from mesos_gpu.gpu.nvml import find_nvml

            return find_nvml() or NullDriver()
        case _:
            raise BadFlag("gpu_driver", f"must be one of {', '.join(KINDS)}, not '{kind}'")
