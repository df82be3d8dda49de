"""What an agent's sharing of GPUs is made of: the cards with their levels, who keeps tasks to memory, who reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mesos_gpu.agent.gpus.memory_keeper import Keeper, find_level, with_levels
from mesos_gpu.agent.gpus.memory_watcher import DriverReader, MemoryReader, SimulatedReader
from mesos_gpu.agent.gpus.sharing_settings import SharingSettings, cards_of
from mesos_gpu.container.cgroups import find_cgroups
from mesos_gpu.errors import Conflict
from mesos_gpu.gpu.device import Gpu, GpuDriver
from mesos_gpu.isolator.checkpoints import Checkpoints
from mesos_gpu.isolator.isolator import NvidiaGpuIsolator
from mesos_gpu.isolator.share_tables import ShareTables
from mesos_gpu.isolator.sharing import SharingIsolator
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.shares.gpu_shares import SharedCard


def shared_cards(
    shared: Sequence[Gpu], settings: SharingSettings, driver: GpuDriver, cgroups_root: str
) -> tuple[SharedCard, ...]:
    """Return shared GPUs as they are offered, with how tasks are kept to their memory. Raises Unavailable."""
    if not shared:
        return ()
    memory, limits = driver.memory(), find_cgroups(cgroups_root).version == 2
    levels = {
        gpu.index: find_level(gpu, memory, simulated=driver.kind == "simulated", limits=limits, mps=settings.mps)
        for gpu in shared
    }
    return with_levels(cards_of(shared, settings.max_inst), levels)


def check_free(records: Checkpoints, shared: Sequence[Gpu]) -> None:
    """Refuse to share what a container of an earlier process has whole. Raises Conflict, Unavailable."""
    for container_id, held in records.load().items():
        for gpu in shared:
            if any(was.uuid == gpu.uuid for was in held):
                raise Conflict(
                    f"GPU {gpu.index} ({gpu.uuid}) is to be shared (--shared_gpus), and container {container_id} "
                    "has it whole: start the agent as it was, wait for the end of that task, then share the card"
                )


def keep_memory(
    isolator: SharingIsolator,
    whole: NvidiaGpuIsolator,
    shared: Sequence[Gpu],
    settings: SharingSettings,
    runtime_dir: Path,
    freeze_file: Callable[[ContainerId], Path | None],
) -> None:
    """Have containers kept to their part of the memory of shared cards, and shown how much that is."""
    if not shared:
        return

    def cgroup_of(container_id: ContainerId) -> Path | None:
        file = freeze_file(container_id)
        return file.parent if file is not None and file.name == "cgroup.freeze" else None

    driver, cards = whole.driver, isolator.cards.values()
    isolator.keeper = Keeper(shared, cards, driver.memory(), cgroup_of=cgroup_of, mps=settings.mps)
    if driver.kind == "simulated" and whole.volume is not None:
        isolator.tables = ShareTables(runtime_dir / "share_tables", whole.volume, driver.gpus(), driver.version)


def memory_reader(
    driver: GpuDriver, shared: Sequence[Gpu], cgroups_root: str, sockets: Mapping[int, Path]
) -> MemoryReader:
    """Return who tells the memory that containers have of cards: the driver, or simulated cards at their `sockets`."""
    memory = driver.memory() if shared else None
    if memory is None:
        return SimulatedReader(sockets)
    return DriverReader(memory, {gpu.index: gpu for gpu in shared}, cgroups_root)
