"""The flags about GPUs that several tasks share, and which cards that are."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import Struct

from mesos_gpu.errors import BadFlag
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.mesos.flags import Flag
from mesos_gpu.mesos.shares.gpu_shares import MOST_SLICES, PER_CARD, SharedCard
from mesos_gpu.mesos.shares.levels import Level, level_named

log = logging.getLogger(__name__)

SHARING_FLAGS: Sequence[Flag] = (
    Flag(
        "shared_gpus",
        "list",
        None,
        "GPUs, by index or UUID, that tasks share: they leave gpus and are offered as gpu_mem (GiB) and gpu_slices.",
    ),
    Flag(
        "gpu_share_policy",
        "integer",
        1,
        "How tasks take turns on a shared GPU: 0 fair, 1 preemptive, 2 weighted preemptive, 3 fixed, 4 weak, 5 native.",
    ),
    Flag(
        "gpu_share_max_inst",
        "integer",
        MOST_SLICES,
        "Into how many slices of compute a shared GPU is divided, 1 to 25; a task has as many as its weight.",
    ),
    Flag("gpu_share_slice", "duration", 0.02, "How long one slice of compute is, 5ms to 1secs."),
    Flag(
        "gpu_share_prio_ratio",
        "integer",
        90,
        "How many percent of a shared GPU tasks of high priority may take while they have work, 20 to 99.",
    ),
    Flag(
        "gpu_share_require",
        "text",
        Level.ADVISORY.word,
        "Refuse parts of GPUs whose memory is kept from others by less than this: mig, cgroup, mps, watcher, advisory.",
    ),
    Flag(
        "gpu_share_memory_grace",
        "duration",
        10.0,
        "How long a watched task may have more GPU memory than its part, after it was told.",
    ),
    Flag(
        "gpu_share_mps_dir",
        "path",
        None,
        "A folder with a folder for each shared GPU, by index, in which the `pipe` and `shm` of its MPS daemon are.",
    ),
    Flag(
        "gpu_share_tree",
        "path",
        None,
        "Where the files of cGPU's /proc/cgpu_km are, to look at shares and change them; needs FUSE. Default: nowhere.",
    ),
)


class SharingSettings(Struct, frozen=True):
    """Which cards are shared (None: none), and how tasks begin to take turns on them; that can be changed later."""

    devices: tuple[str, ...] | None
    policy: int
    max_inst: int
    slice_s: float
    prio_ratio: int
    require: Level = Level.ADVISORY
    """No part of a card is given that is kept from others by less."""
    memory_grace_s: float = 10.0
    mps: Path | None = None
    tree: Path | None = None


def sharing_settings(flags: Mapping[str, Any]) -> SharingSettings:
    """Return what the flags come to."""
    return SharingSettings(
        devices=flags["shared_gpus"] or None,
        policy=flags["gpu_share_policy"],
        max_inst=flags["gpu_share_max_inst"],
        slice_s=flags["gpu_share_slice"],
        prio_ratio=flags["gpu_share_prio_ratio"],
        require=level_named(flags["gpu_share_require"]),
        memory_grace_s=flags["gpu_share_memory_grace"],
        mps=None if flags["gpu_share_mps_dir"] is None else Path(flags["gpu_share_mps_dir"]).absolute(),
        tree=None if flags["gpu_share_tree"] is None else Path(flags["gpu_share_tree"]).absolute(),
    )


def check_sharing(flags: Mapping[str, Any]) -> None:
    """Refuse numbers that are none of a policy's, slices', ratio's. Raises BadFlag."""
    if not 0 <= flags["gpu_share_policy"] <= 5:
        raise BadFlag("gpu_share_policy", f"{flags['gpu_share_policy']} is not a policy: 0 to 5")
    if not 1 <= flags["gpu_share_max_inst"] <= MOST_SLICES:
        raise BadFlag("gpu_share_max_inst", f"{flags['gpu_share_max_inst']} is out of 1 to {MOST_SLICES}")
    if not 20 <= flags["gpu_share_prio_ratio"] <= 99:
        raise BadFlag("gpu_share_prio_ratio", f"{flags['gpu_share_prio_ratio']} is out of 20 to 99")
    if not 0.005 <= flags["gpu_share_slice"] <= 1:
        raise BadFlag("gpu_share_slice", "must be 5ms to 1secs")
    try:
        level_named(flags["gpu_share_require"])
    except ValueError as error:
        raise BadFlag("gpu_share_require", str(error)) from None
    if flags["shared_gpus"] and "gpu/nvidia" not in flags["isolation"]:
        raise BadFlag("shared_gpus", "needs 'gpu/nvidia' in --isolation")


def shared_of(
    settings: SharingSettings,
    whole: Sequence[str] | None,
    found: Iterable[Gpu],
    before: Mapping[int, str] | None = None,
) -> tuple[Gpu, ...]:
    """Return the GPUs of this machine that are shared, by index. `whole` are those of --nvidia_gpu_devices.

    `before` are the UUIDs of those that an earlier process of this agent shared, by index; None: there was none. They
    keep that index: a driver counts from 0 again when a card has vanished. One that has is left out and logged.

    Raises BadFlag for one that is not there, is named twice, is given whole too, or cannot be shared.
    """
    here, chosen = [_as_before(gpu, before or {}) for gpu in found], list[Gpu]()
    for device in settings.devices or ():
        wanted = (before or {}).get(int(device), device) if device.isdecimal() else device
        named = [gpu for gpu in here if wanted in (str(gpu.index), gpu.uuid)]
        if not named and before is not None:
            log.warning("GPU %s, which was to be shared, has vanished; the others are shared as before", device)
            continue
        if not named:
            usable = ", ".join(sorted({str(gpu.index) for gpu in here})) or "none"
            raise BadFlag("shared_gpus", f"there is no usable GPU '{device}'; usable here: {usable}")
        gpu = named[0]
        if gpu.mig is not None:
            raise BadFlag("shared_gpus", f"GPU {device} is in MIG mode: its instances are parts already, given whole")
        if gpu in chosen:
            raise BadFlag("shared_gpus", f"names GPU {gpu.index} ({gpu.uuid}) twice")
        if {str(gpu.index), gpu.uuid}.intersection(whole or ()):
            raise BadFlag("shared_gpus", f"names GPU {device}, which --nvidia_gpu_devices gives whole; take it off one")
        if gpu.memory_mib is None or not 0 < gpu.memory_mib < PER_CARD * 1024:
            raise BadFlag("shared_gpus", f"the driver does not tell how much memory GPU {device} has")
        chosen.append(gpu)
    return tuple(sorted(chosen, key=lambda gpu: gpu.index))


def _as_before(gpu: Gpu, before: Mapping[int, str]) -> Gpu:
    return next((replace(gpu, index=index) for index, uuid in before.items() if uuid == gpu.uuid), gpu)


def cards_of(gpus: Iterable[Gpu], slices: int) -> tuple[SharedCard, ...]:
    """Return shared GPUs as they are offered, each with so many slices."""
    return tuple(SharedCard(gpu.index, gpu.uuid, gpu.memory_mib or 0, slices) for gpu in gpus)
