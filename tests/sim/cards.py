"""Cards that several containers of a machine use at a time: what each truly can use of them, and what is put away."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from mesos_gpu.agent import opening
from mesos_gpu.agent.gpus import memory_watcher, sharing_parts
from mesos_gpu.agent.gpus.suspender import Suspender
from mesos_gpu.agent.gpus.turns import Turns
from mesos_gpu.agent.gpus.whole_and_parts import WholeAndParts
from mesos_gpu.errors import DeviceError
from mesos_gpu.gpu.cuda_checkpoints import State
from mesos_gpu.gpu.device import GpuDriver
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.shares.gpu_shares import CardPart

if TYPE_CHECKING:
    from tests.sim.machine import Container, Machine

SIZES_MIB = (15109, 16384, 24564, 81559)
SLICES = 25
GREEDY = "SIM_GREEDY"
"""A task's variable: after so many seconds it has more of its card's memory than its part is."""
LOOK_S = 5.0
"""How often an agent reads the memory of cards: more often would be most of the steps of a history."""
REFUSED = 0.1
"""How often the driver cannot put a process away."""


@dataclass(frozen=True)
class Card:
    """One that containers share: its memory in MiB, and into how many slices of compute it is divided."""

    memory_mib: int
    slices: int = SLICES

    @property
    def gib(self) -> int:
        """Return its memory in GiB, as it is counted: rounded."""
        return int(self.memory_mib / 1024 + 0.5)


def cards_of(seed: int, host: str, gpus: int, count: int) -> dict[int, Card]:
    """Return which of the GPUs of a host are shared in the history of a seed, by number: `count` of one kind."""
    chance = Random(f"cards of {host} at {seed}")
    size_mib = chance.choice(SIZES_MIB)
    return {number: Card(size_mib) for number in sorted(chance.sample(range(gpus), count))}


def number_of(uuid: str) -> int:
    """Return the number of a GPU of a host, by which the isolator takes the highest first."""
    return int(uuid.rpartition("-")[2])


def overbooked(cards: Mapping[int, Card], containers: Iterable[Container]) -> Iterator[str]:
    """Tell of each card of which containers can use more than there is, or that is given whole and in parts."""
    used: dict[int, list[tuple[str, CardPart]]] = {}
    for container in containers:
        if container.gpus and container.parts:
            yield f"{container.task} has GPUs of its own and parts of others"
        for number in sorted({number_of(uuid) for uuid in container.gpus} & cards.keys()):
            yield f"card {number} is shared, and {container.task} has it whole"
        for part in container.parts:
            used.setdefault(part.card, []).append((container.task, part))
    for number, parts in sorted(used.items()):
        card = cards.get(number, Card(0, 0))
        gib, slices = sum(part.mem_units for _, part in parts), sum(part.weight for _, part in parts)
        if gib > card.gib or slices > card.slices:
            whose = ", ".join(f"{task} {part.mem_units} GiB {part.weight} slices" for task, part in parts)
            yield f"{gib} of {card.gib} GiB and {slices} of {card.slices} slices of card {number} are used: {whose}"


def amounts(parts: Iterable[CardPart]) -> dict[int, tuple[int, int]]:
    """Return how many GiB and slices parts are of each card."""
    found: dict[int, tuple[int, int]] = {}
    for part in parts:
        gib, slices = found.get(part.card, (0, 0))
        found[part.card] = gib + part.mem_units, slices + part.weight
    return found


class Checkpoints:
    """The driver's checkpoints, of containers that are one process each."""

    def __init__(self, machine: Machine) -> None:
        self._machine, self._world = machine, machine.host.world

    def states(self, pids: Iterable[int]) -> Mapping[int, State]:
        """See Checkpointing."""
        found = {pid: self._of(pid) for pid in pids}
        return {pid: State.CHECKPOINTED if one.away else State.RUNNING for pid, one in found.items() if one is not None}

    def put_away(self, states: Mapping[int, State]) -> None:
        """See Checkpointing: what one has on its cards is copied, or it is not."""
        for pid in states:
            container = self._of(pid)
            if container is None:
                raise DeviceError(f"process {pid} is not there")
            if not container.away and self._world.random.random() < REFUSED:
                raise DeviceError(f"process {pid} has not ended its kernels in time")
            self._tell(container, away=True)

    def bring_back(self, states: Mapping[int, State], pairs: Sequence[tuple[str, str]] = ()) -> None:
        """See Checkpointing: it has to be able to open what it is to run on."""
        for pid in states:
            container = self._of(pid)
            if container is None or not (container.parts or container.gpus):
                raise DeviceError(f"process {pid} is not there, or cannot open a GPU")
            self._tell(container, away=False)

    def _of(self, pid: int) -> Container | None:
        return next((one for one in self._machine.running.values() if one.pid == pid), None)

    def _tell(self, container: Container, *, away: bool) -> None:
        if container.away != away:
            container.away = away
            words = "is put away" if away else "is brought back"
            self._world.tell(self._machine.host.name, f"what {container.task} has on GPUs {words}")


class MemoryReader:
    """What containers have of the memory of a machine's cards: half of their part, or half as much again."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def read(self, card: int) -> Mapping[str, int] | None:
        """Return MiB by container."""
        there, found = self._machine.cards[card], dict[str, int]()
        for container_id, container in self._machine.running.items():
            part_mib = sum(
                part.mem_units * there.memory_mib // there.gib for part in container.parts if part.card == card
            )
            if part_mib and not container.away:
                found[container_id] = part_mib * (3 if is_greedy(container) else 1) // 2
        return found


def replacements(here: Callable[[], Machine], thread: Any) -> list[tuple[Any, str, Any]]:
    """Return what stands in the place of programs that give turns, of sockets, and of CUDA: owner, name, and what."""

    async def start(turns: Turns) -> None:
        if turns._isolator.cards:
            turns.rules.load()

    def processes_of(container: ContainerId) -> list[int]:
        return [one.pid for name, one in here().running.items() if name == container]

    def open_suspender(runtime_dir: Path, cgroups_root: str, driver: GpuDriver, holdings: WholeAndParts) -> Any:
        if not here().cards:
            return None  # the driver has no files, and so nobody suspends
        return Suspender(holdings, Checkpoints(here()), runtime_dir / "suspended.json", processes_of)

    return [
        (Turns, "start", start),
        (opening, "memory_reader", lambda *_: MemoryReader(here())),
        (memory_watcher, "DriverThread", thread),
        (memory_watcher, "EVERY_S", LOOK_S),
        (sharing_parts, "find_cgroups", lambda root: SimpleNamespace(version=2)),
        (opening, "open_suspender", open_suspender),
    ]


def is_greedy(container: Container) -> bool:
    """Tell whether a container has more memory than it may by now."""
    after_s = container.config.environment.get(GREEDY)
    return after_s is not None and container.kernel.host.world.now_s - container.began_s >= float(after_s)
