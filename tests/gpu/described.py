"""The machines described in data/: NVLinks, and PCIe in the words of nvidia-smi."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

from mesos_gpu.gpu.device import Gpu, Level, Link, Topology

DATA = Path(__file__).parent / "data"
LEVELS = {
    "PIX": Level.SINGLE_SWITCH,
    "PXB": Level.MULTIPLE_SWITCHES,
    "PHB": Level.HOST_BRIDGE,
    "NODE": Level.NUMA_NODE,
    "SYS": Level.SYSTEM,
}


def gpus(count: int) -> list[Gpu]:
    """Return so many GPUs."""
    return [Gpu(minor=index, index=index, uuid=f"GPU-{index}", name="H200") for index in range(count)]


def machine(name: str) -> tuple[list[Gpu], Topology]:
    """Return the GPUs of a machine, and how they are connected."""
    described = json.loads((DATA / f"{name}.json").read_text())
    nvlinks, pcie = described["nvlinks"], [row.split() for row in described["pcie"]]
    found = gpus(len(nvlinks))
    links = {}
    for one, other in combinations(range(len(found)), 2):
        assert (nvlinks[one][other], pcie[one][other]) == (nvlinks[other][one], pcie[other][one]), "it is symmetric"
        links[frozenset((found[one].uuid, found[other].uuid))] = Link(LEVELS[pcie[one][other]], nvlinks[one][other])
    return found, Topology(links)
