"""How NVML's GPUs are connected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from mesos_gpu.gpu.binding import (
    INVALID_ARGUMENT,
    MAX_NVLINKS,
    REMOTE_IS_GPU,
    REMOTE_IS_SWITCH,
    UNUSABLE,
    Binding,
    code_of,
    optional,
    text_of,
)
from mesos_gpu.gpu.device import Level, Link, Topology


@dataclass(frozen=True, slots=True)
class Board:
    """A GPU that answered: its uuid, its handle and its place on the bus."""

    uuid: str
    handle: Any
    bus_id: str | None


@dataclass(frozen=True, slots=True)
class _NvLinks:
    """The active NVLinks of one GPU: by the bus id of the GPU at the other end, and to switches."""

    to_gpus: Mapping[str, int] = field(default_factory=dict)
    to_switches: int = 0


def read_topology(nvml: Binding, boards: Sequence[Board]) -> Topology:
    """Return how `boards` are connected; what NVML does not tell of a pair counts as far apart.

    Every GPU on an NVSwitch reaches every other one there with all its links.
    """
    nvlinks = {board.uuid: _nvlinks(nvml, board) for board in boards}
    return Topology(
        {
            frozenset((one.uuid, other.uuid)): Link(
                _level(nvml, one, other), _between(one, nvlinks[one.uuid], other, nvlinks[other.uuid])
            )
            for one, other in combinations(boards, 2)
        }
    )


def _level(nvml: Binding, one: Board, other: Board) -> Level:
    try:
        return Level(nvml.nvmlDeviceGetTopologyCommonAncestor(one.handle, other.handle))
    except (nvml.NVMLError, ValueError):
        return Level.SYSTEM


def _between(one: Board, of_one: _NvLinks, other: Board, of_other: _NvLinks) -> int:
    direct = max(of_one.to_gpus.get(_bus(other.bus_id), 0), of_other.to_gpus.get(_bus(one.bus_id), 0))
    return direct + min(of_one.to_switches, of_other.to_switches)


def _nvlinks(nvml: Binding, board: Board) -> _NvLinks:
    to_gpus: Counter[str] = Counter()
    to_switches = 0
    for link in range(MAX_NVLINKS):
        try:
            if not nvml.nvmlDeviceGetNvLinkState(board.handle, link):
                continue
            # Drivers that cannot tell what is at the other end are older than NVSwitch.
            kind = optional(nvml, nvml.nvmlDeviceGetNvLinkRemoteDeviceType, board.handle, link)
            if kind == REMOTE_IS_SWITCH:
                to_switches += 1
            elif kind in (None, REMOTE_IS_GPU):
                remote = nvml.nvmlDeviceGetNvLinkRemotePciInfo(board.handle, link)
                to_gpus[_bus(text_of(remote.busId))] += 1
        except nvml.NVMLError as error:
            if code_of(error) == INVALID_ARGUMENT or code_of(error) in UNUSABLE:
                break
    return _NvLinks(to_gpus, to_switches)


def _bus(bus_id: str | None) -> str:
    return "" if bus_id is None else bus_id.upper()
