"""The program that plays an agent's GPUs where they are simulated."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path

from mesos_gpu.agent.gpus.turns import card_sockets
from mesos_gpu.gpu.device import GpuDriver
from mesos_gpu.gpu.simulated import SimulatedDriver
from mesos_gpu.gpu.simulated_mig import played
from mesos_gpu.isolator.isolator import NvidiaGpuIsolator
from mesos_gpu.isolator.sharing import SharingIsolator
from mesos_gpu.mesos.shares.gpu_shares import SharedCard
from mesos_gpu.simulated.running import CONTROL, RunningCards

_FOLDER = "cards"


def control_of(runtime_dir: Path) -> Path:
    """Return where the program answers the agent of this runtime_dir."""
    return runtime_dir / _FOLDER / CONTROL


def open_cards(
    driver: GpuDriver, shared: Iterable[SharedCard], runtime_dir: Path, cgroups_root: str
) -> RunningCards | None:
    """Return the program, which starts meanwhile; None where GPUs are not simulated, or there are none."""
    if not isinstance(driver, SimulatedDriver) or not driver.boards:
        return None
    sizes = {gpu.minor: (gpu.memory_mib or 0) << 20 for gpu in driver.boards}
    profiles = {minor: played(driver.profiles) for minor in sizes} if driver.profiles else {}
    sockets = card_sockets(runtime_dir / "turns", [card.index for card in shared])
    plays = RunningCards(sizes, runtime_dir / _FOLDER, cgroups_root, sockets, profiles)
    plays.begin()
    return plays


async def play(
    cards: RunningCards | None, isolator: SharingIsolator, whole: NvidiaGpuIsolator, closing: AsyncExitStack
) -> None:
    """Have simulated GPUs answer; at the end of the agent they stay as long as a container has one."""
    if cards is None:
        return

    def close() -> None:
        cards.close(keep=bool(isolator.shares or any(whole.held.values()) or any(whole.lent.values())))

    closing.callback(close)
    await asyncio.to_thread(cards.start, None if whole.volume is None else whole.volume.host_path)
