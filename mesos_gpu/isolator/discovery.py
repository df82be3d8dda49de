"""Which GPUs an agent manages: `gpus` of --resources against --nvidia_gpu_devices. Pure.

The rules and their order are Mesos' (`slave/containerizer/containerizer.cpp` and `isolators/gpu/allocator.cpp`).
"""

from __future__ import annotations

from collections.abc import Sequence

from mesos_gpu.errors import BadFlag, BadInput
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.isolator.arguments import gpus_of, texts_of


def discover_gpus(
    *, gpus_asked: int | None, devices: Sequence[str] | None, isolating: bool, found: Sequence[Gpu]
) -> tuple[Gpu, ...]:
    """Return the GPUs that this agent hands out, by minor number.

    `gpus_asked` is the sum of `gpus` in --resources over all roles, None where it names none; `devices` is
    --nvidia_gpu_devices, indices as nvidia-smi prints them or UUIDs, None where the flag is absent; `isolating` says
    whether --isolation has `gpu/nvidia`; `found` is what the driver reports.

    Without `gpu/nvidia` the answer is empty: `gpus` of --resources then pass through as they are, managed by nobody.
    `gpus:0` means that this agent uses no GPU. Raises BadFlag when the two flags disagree with each other or with
    the machine.
    """
    if devices is not None:
        texts_of(devices, "devices")
    if gpus_asked is not None and (isinstance(gpus_asked, bool) or not isinstance(gpus_asked, int)):
        raise BadInput(f"gpus_asked must be a whole number, not {gpus_asked!r}")
    gpus_of(found)
    if not isolating:
        if devices is not None:
            raise BadFlag("nvidia_gpu_devices", "needs 'gpu/nvidia' in --isolation")
        return ()
    if gpus_asked is not None and gpus_asked < 0:
        raise BadFlag("resources", f"'gpus' cannot be {gpus_asked}")
    if gpus_asked == 0:
        if devices is not None:
            raise BadFlag("nvidia_gpu_devices", "names GPUs, but --resources has 'gpus:0', which means to use none")
        return ()
    if devices is not None and gpus_asked is None:
        raise BadFlag("nvidia_gpu_devices", f"needs the number of GPUs in --resources too: 'gpus:{len(devices)}'")
    if gpus_asked is None:
        return tuple(sorted(found))
    if devices is None:
        raise BadFlag(
            "resources",
            f"'gpus:{gpus_asked}' needs --nvidia_gpu_devices to say which; without both, all {len(found)} are used",
        )
    chosen = _chosen(devices, found)
    if len(chosen) != gpus_asked:
        raise BadFlag("nvidia_gpu_devices", f"names {len(chosen)} GPUs, but --resources has 'gpus:{gpus_asked}'")
    return tuple(sorted(chosen))


def _chosen(devices: Sequence[str], found: Sequence[Gpu]) -> list[Gpu]:
    """Return the GPUs that `devices` name. Raises BadFlag for one that is named twice or is not there."""
    if len(devices) > len(found):
        raise BadFlag("nvidia_gpu_devices", f"names {len(devices)} GPUs, but this machine has {len(found)}")
    chosen: list[Gpu] = []
    for device in devices:
        named = [gpu for gpu in found if device in (str(gpu.index), gpu.uuid)]
        if len(named) > 1:  # the MIG instances of one GPU, which nvidia-smi prints under its index
            there = ", ".join(gpu.uuid for gpu in named)
            raise BadFlag("nvidia_gpu_devices", f"GPU {device} is shared out as MIG instances; name them: {there}")
        gpu = named[0] if named else None
        if gpu is None:
            there = ", ".join(str(gpu.index) for gpu in found) or "none"
            raise BadFlag("nvidia_gpu_devices", f"there is no usable GPU '{device}'; usable here: {there}")
        if gpu in chosen:
            raise BadFlag("nvidia_gpu_devices", f"names GPU {gpu.index} ({gpu.uuid}) twice")
        chosen.append(gpu)
    return chosen
