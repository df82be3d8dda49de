"""Which GPUs this machine uses: the one place where `--gpu_driver` becomes a driver."""

from __future__ import annotations

from pathlib import Path

from mesos_gpu.errors import BadFlag
from mesos_gpu.gpu.device import GpuDriver
from mesos_gpu.gpu.make import Make
from mesos_gpu.gpu.null import NullDriver
from mesos_gpu.gpu.simulated import SimulatedDriver

KINDS = ("auto", "nvml", "simulated", "none")
MIG_STRATEGIES = ("none", "single")


def open_driver(
    kind: str,
    *,
    simulated_gpus: int = 4,
    mig_strategy: str = "none",
    simulated_faults: Path | None = None,
    simulated_machine: int = 0,
    simulated_make: Make | None = None,
    simulated_cards: Path | None = None,
) -> GpuDriver:
    """Return the driver that `--gpu_driver=kind` names.

    `auto` is NVML where it answers, else none, with the reason in the log. `mig_strategy`: what becomes of a GPU in
    MIG mode: `none` leaves it out, `single` gives each of its instances as if it were a GPU. `simulated_faults`
    names the file that says which simulated GPUs are ill; those of another `simulated_machine` have other UUIDs;
    `simulated_make` is what they say of themselves, `simulated_cards` where the program answers that plays them.
    Raises BadFlag for another kind or strategy or a bad count or
    make, DeviceError when the driver asked for by name does not answer or is too old.
    """
    if mig_strategy not in MIG_STRATEGIES:
        raise BadFlag("mig_strategy", f"must be one of {', '.join(MIG_STRATEGIES)}, not '{mig_strategy}'")
    instances = mig_strategy == "single"
    match kind:
        case "none":
            return NullDriver()
        case "simulated":
            return SimulatedDriver(
                simulated_gpus,
                faults=simulated_faults,
                machine=simulated_machine,
                make=simulated_make,
                cards=simulated_cards,
                mig_instances=instances,
            )
        case "nvml":
            from mesos_gpu.gpu.nvml import NvmlDriver

            return NvmlDriver(mig_instances=instances)
        case "auto":
            from mesos_gpu.gpu.nvml import find_nvml

            return find_nvml(mig_instances=instances) or NullDriver()
        case _:
            raise BadFlag("gpu_driver", f"must be one of {', '.join(KINDS)}, not '{kind}'")
