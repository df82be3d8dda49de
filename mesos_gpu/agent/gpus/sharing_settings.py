"""Which GPUs several tasks share, and how, from the flags."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from msgspec import Struct

from mesos_gpu.agent.flags import AgentFlags
from mesos_gpu.errors import BadFlag
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.mesos.shares.gpu_shares import PER_CARD, SharedCard
from mesos_gpu.mesos.shares.levels import Level, level_named

log = logging.getLogger(__name__)


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


def sharing_settings(flags: AgentFlags) -> SharingSettings:
    """Return what the flags come to."""
    return SharingSettings(
        devices=flags.shared_gpus or None,
        policy=flags.gpu_share_policy,
        max_inst=flags.gpu_share_max_inst,
        slice_s=flags.gpu_share_slice,
        prio_ratio=flags.gpu_share_prio_ratio,
        require=level_named(flags.gpu_share_require),
        memory_grace_s=flags.gpu_share_memory_grace,
        mps=None if flags.gpu_share_mps_dir is None else Path(flags.gpu_share_mps_dir).absolute(),
        tree=None if flags.gpu_share_tree is None else Path(flags.gpu_share_tree).absolute(),
    )


def check_sharing(flags: AgentFlags) -> None:
    """Refuse shared GPUs without the isolator. Raises BadFlag."""
    if flags.shared_gpus and "gpu/nvidia" not in flags.isolation:
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
