"""The program that plays an agent's GPUs where they are simulated."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
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
    """Return the program; None where GPUs are not simulated, or there are none.

    It starts meanwhile where the agent itself asks it, which it does of cards that are shared or divided; else when a
    program in a container opens the driver.
    """
    if not isinstance(driver, SimulatedDriver) or not driver.boards:
        return None
    sizes = {gpu.minor: (gpu.memory_mib or 0) << 20 for gpu in driver.boards}
    profiles = {minor: played(driver.profiles) for minor in sizes} if driver.profiles else {}
    sockets = card_sockets(runtime_dir / "turns", [card.index for card in shared])
    plays = RunningCards(sizes, runtime_dir / _FOLDER, cgroups_root, sockets, profiles, on_demand=True)
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
    if cards.asked is not None:
        closing.push_async_callback(_wake_when_asked(cards, cards.asked.fileno()))


def _wake_when_asked(cards: RunningCards, asked: int) -> Callable[[], Awaitable[None]]:
    """Have the program started when somebody asks for it at this descriptor; return what ends that."""
    loop = asyncio.get_running_loop()
    waking: list[asyncio.Task[None]] = []

    def wake() -> None:
        loop.remove_reader(asked)
        waking.append(loop.create_task(asyncio.to_thread(cards.wake)))

    async def end() -> None:
        if waking:
            await waking[0]
        else:
            loop.remove_reader(asked)

    loop.add_reader(asked, wake)
    return end
