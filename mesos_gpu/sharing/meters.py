"""What containers have used of a card: asked of a simulated card, or, where nobody can tell, taken from the clock."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from mesos_gpu.base.linux.cgroups import processes_in
from mesos_gpu.base.linux.processes import open_devices
from mesos_gpu.base.linux.sockets import LineConnection, connect
from mesos_gpu.sharing.ring import Reading

ANSWER_S = 0.2
NVIDIA_MAJOR = 195


class Meter(Protocol):
    """Of one card."""

    def read(self, now_s: float, owner: str | None) -> Mapping[str, Reading]:
        """Return what each container has used; `owner` is whose turn it has been since the last time."""


class SimulatedMeter:
    """Asks the simulated card at a socket."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection: LineConnection | None = None
        self._last: dict[str, Reading] = {}

    def read(self, now_s: float, owner: str | None) -> Mapping[str, Reading]:
        """Return the card's own account, the last one known while it does not answer."""
        try:
            if self._connection is None:
                self._connection = LineConnection(connect(self._path, timeout_s=ANSWER_S))
            answer = self._connection.ask(b"S")
            self._last = {
                one: Reading(float(used_s), bool(opened), bool(waiting))
                for one, (used_s, opened, waiting) in json.loads(answer).items()
            }
        except (OSError, ValueError):
            if self._connection is not None:
                self._connection.close()
            self._connection = None
        return self._last


class ClockMeter:
    """Takes a turn for used by who had it and has the card's node open: for cards that count nothing.

    `pids` are where the processes of each container are listed (cgroup.procs).
    """

    LOOK_S = 1.0

    def __init__(self, minor: int, pids: Mapping[str, str]) -> None:
        self._minor, self._pids = minor, pids
        self._used: dict[str, float] = {}
        self._open: dict[str, bool] = {}
        self._read_s: float | None = None
        self._looked_s: float | None = None

    def read(self, now_s: float, owner: str | None) -> Mapping[str, Reading]:
        """Return the sums of turns, and who has the node open, looked at once a second."""
        if self._looked_s is None or now_s - self._looked_s >= self.LOOK_S:
            self._looked_s = now_s
            self._open = {one: _has_open(Path(file).parent, self._minor) for one, file in self._pids.items()}
        passed_s = 0.0 if self._read_s is None else now_s - self._read_s
        self._read_s = now_s
        users = [owner] if owner is not None else [one for one, opened in self._open.items() if opened]
        for one in users:
            if self._open.get(one):
                self._used[one] = self._used.get(one, 0.0) + passed_s / len(users)
        return {one: Reading(self._used.get(one, 0.0), self._open.get(one, False)) for one in self._pids}


def _has_open(cgroup: Path, minor: int) -> bool:
    """Return whether a process of a cgroup, or of one below it, has the node of a card open, as far as can be seen."""
    number = os.makedev(NVIDIA_MAJOR, minor)
    try:
        return any(number in open_devices(pid) for pid in processes_in(cgroup))
    except OSError:
        return False
