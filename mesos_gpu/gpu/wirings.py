"""How the GPUs of machines that are sold are connected: what simulated GPUs can be. Pure.

NVLinks and PCIe as `nvidia-smi topo -m` shows them there; the numbers are of NVIDIA's descriptions of each machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mesos_gpu.errors import BadFlag
from mesos_gpu.gpu.device import Level, Link

_MESH = (
    "01122000",
    "10210200",
    "12020010",
    "21200001",
    "20000112",
    "02001021",
    "00101202",
    "00012120",
)
"""The hybrid cube mesh: six NVLinks each, two quads in which every pair has one or two, one between the quads."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """How the GPUs of one kind of machine are connected, by their index.

    `on_switch` of them share a PCIe switch and are `near` each other, `in_node` share a NUMA node and are `within` it;
    the others are across the system. `pair_links`: NVLinks between GPUs 0 and 1, 2 and 3, and so on; `switch_links`:
    those of each GPU to NVSwitches, through which it reaches every other; `mesh`: NVLinks by two indices. `most`: how
    many GPUs such a machine has, None where any number will do.
    """

    on_switch: int
    in_node: int
    near: Level = Level.SINGLE_SWITCH
    within: Level = Level.HOST_BRIDGE
    pair_links: int = 0
    switch_links: int = 0
    mesh: tuple[str, ...] = ()
    most: int | None = None

    def between(self, one: int, other: int) -> Link:
        """Return how two different GPUs are connected."""
        return Link(self._level(one, other), self.direct(one, other) + self.switch_links)

    def direct(self, one: int, other: int) -> int:
        """Return how many NVLinks lead from one GPU to the other, without a switch."""
        if self.mesh:
            return int(self.mesh[one][other])
        return self.pair_links if one // 2 == other // 2 else 0

    def numa_node(self, index: int) -> int:
        """Return the NUMA node that a GPU is at."""
        return index // self.in_node

    def _level(self, one: int, other: int) -> Level:
        if one // self.on_switch == other // self.on_switch:
            return self.near
        return self.within if self.numa_node(one) == self.numa_node(other) else Level.SYSTEM


PAIRS = "pairs"
WIRINGS: Mapping[str, Wiring] = {
    PAIRS: Wiring(2, 4, pair_links=4),
    "pcie": Wiring(2, 4),
    "dgx-1": Wiring(2, 4, mesh=_MESH, most=8),
    "dgx-a100": Wiring(2, 2, Level.MULTIPLE_SWITCHES, switch_links=12, most=8),
    "dgx-h100": Wiring(1, 4, within=Level.NUMA_NODE, switch_links=18, most=8),
}
"""By the name that `--simulated_gpu_topology` has for it: cards bridged in pairs, as A40s are; PCIe alone,
four cards at each of two sockets; DGX-1 with V100; DGX A100; DGX H100, as any HGX with eight H100s."""


def wiring_of(name: str, gpus: int) -> Wiring:
    """Return the wiring of that name. Raises BadFlag for an unknown one, or one that has no so many GPUs."""
    found = WIRINGS.get(name)
    if found is None:
        raise BadFlag("simulated_gpu_topology", f"must be one of {', '.join(WIRINGS)}, not {name!r}")
    if found.most is not None and gpus > found.most:
        raise BadFlag("simulated_gpu_topology", f"{name} has {found.most} GPUs, not {gpus}")
    return found
