"""How tasks are kept to their part of a card's memory on this machine: what there is for it, and its use."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from mesos_gpu.errors import DeviceError, MesosGpuError, Unavailable
from mesos_gpu.gpu.device import CardMemory, Gpu
from mesos_gpu.isolator.plan import BindMount, LaunchPlan
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.shares.gpu_shares import Share, SharedCard, level_of
from mesos_gpu.mesos.shares.levels import Level, strongest

log = logging.getLogger(__name__)

SHM_IN_CONTAINER = "/dev/shm"
"""Where CUDA looks for the memory that it shares with its MPS daemon."""
_PIPE, _SHM, _PID = "pipe", "shm", "nvidia-cuda-mps-control.pid"


def find_level(gpu: Gpu, memory: CardMemory | None, *, simulated: bool, limits: bool, mps: Path | None) -> Level:
    """Return the strongest level that a card has. `limits`: containers have cgroups that a driver could limit.

    `mps` has, for each card by index, a folder with the `pipe` and `shm` of an MPS daemon of its own, as NVIDIA's
    device plugin for Kubernetes lays them out.
    """
    present = [Level.WATCHER] if simulated else []
    if memory is not None:
        try:
            if memory.by_process(gpu) is not None:
                present.append(Level.WATCHER)
            if limits and memory.can_limit(gpu):
                present.append(Level.CGROUP)
        except DeviceError as error:
            log.warning("GPU %d: nobody is kept to the memory of its part: %s", gpu.index, error)
    if mps is not None and (mps / str(gpu.index) / _PIPE / _PID).exists():
        present.append(Level.MPS)
    return strongest(present)


def with_levels(cards: Iterable[SharedCard], levels: Mapping[int, Level]) -> tuple[SharedCard, ...]:
    """Return cards with the level of each; the log says which."""
    found = tuple(replace(card, level=levels.get(card.index, Level.ADVISORY)) for card in cards)
    for card in found:
        log.info("GPU %d is shared; tasks are kept to their memory: %s", card.index, card.level.word)
    return found


class Keeper:
    """Uses the level of each container's cards. `cgroup_of`: the folder of its cgroup of version 2, None without."""

    def __init__(
        self,
        gpus: Iterable[Gpu],
        cards: Iterable[SharedCard],
        memory: CardMemory | None,
        *,
        cgroup_of: Callable[[ContainerId], Path | None],
        mps: Path | None = None,
    ) -> None:
        self._gpus = {gpu.index: gpu for gpu in gpus}
        self._cards = {card.index: card for card in cards}
        self._memory, self._cgroup_of, self._mps = memory, cgroup_of, mps

    def limit(self, container_id: ContainerId, share: Share) -> None:
        """Have the driver limit it, where that is the level; its cgroup is made for that, before the runtime's turn.

        Raises DeviceError, Unavailable.
        """
        limited = [part for part in share.parts if self._cards[part.card].level is Level.CGROUP]
        if self._memory is None or not limited:
            return
        cgroup = self._cgroup_of(container_id)
        if cgroup is None:
            raise Unavailable(f"container {container_id} has no cgroup of version 2 whose GPU memory could be limited")
        try:
            cgroup.mkdir(parents=True, exist_ok=True)
            for part in limited:
                mib = self._cards[part.card].memory_of(part.mem_units)
                self._memory.limit(self._gpus[part.card], str(cgroup), mib)
        except OSError as error:
            raise Unavailable(f"cannot make {cgroup}: {error}") from error
        except MesosGpuError:
            with suppress(OSError):  # it was given another part, and runs
                cgroup.rmdir()
            raise

    def plan(self, share: Share) -> LaunchPlan:
        """Return the way to the card's MPS daemon, with a limit for each process, where that is the level."""
        if self._mps is None or level_of(share.parts, self._cards) is not Level.MPS:
            return LaunchPlan()
        (part,) = share.parts
        card, folder = self._cards[part.card], self._mps / str(part.card)
        pipe = str(folder / _PIPE)
        mounts = [BindMount(pipe, pipe, read_only=False)]
        if (folder / _SHM).is_dir():
            mounts.append(BindMount(str(folder / _SHM), SHM_IN_CONTAINER, read_only=False))
        limit = f"{card.uuid}={card.memory_of(part.mem_units)}M"
        said = {"CUDA_MPS_PIPE_DIRECTORY": pipe, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": limit}
        return LaunchPlan(mounts=tuple(mounts), environment=said)
