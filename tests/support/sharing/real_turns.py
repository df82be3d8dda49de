"""Real cgroups with burners in them, a simulated card and a turner: all processes, as an agent starts them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from mesos_gpu.base.linux.mounts import current_mounts
from mesos_gpu.container.cgroups import hierarchies_v1
from mesos_gpu.container.host.mounts import unified_tree
from mesos_gpu.sharing.freezer import is_frozen, thaw

PROGRAM = str(Path(__file__).parents[3] / "mesos_gpu" / "sharing" / "__main__.py")
CARDS = str(Path(__file__).parents[3] / "mesos_gpu" / "simulated" / "__main__.py")
BURNER = str(Path(__file__).parent / "burner.py")
PATIENCE_S = 20.0


def freezer_v1() -> Path | None:
    return hierarchies_v1(current_mounts()).get("freezer")


def freezer_v2() -> Path | None:
    return unified_tree() or next((Path(m.path) for m in current_mounts() if m.kind == "cgroup2"), None)


class RealTurns:
    """One card and its turner in a folder; containers are cgroups below one of a name that nobody else has."""

    def __init__(self, folder: Path, tree: Path, file: str) -> None:
        self.folder, self.root, self._file = folder, f"mesos-turns-{uuid.uuid4().hex[:8]}", file
        self._tree = tree / self.root
        self._tree.mkdir()
        self.socket = str(folder / "card.sock")
        self.card = subprocess.Popen([sys.executable, "-S", CARDS, self.root, "", f"0={16 << 30}={self.socket}"])
        self.until(lambda: Path(self.socket).exists())
        self.processes: list[subprocess.Popen[bytes]] = []
        self.members: dict[str, dict[str, Any]] = {}
        self.rules = {"policy": 2, "slice_s": 0.02, "max_inst": 25, "prio_ratio": 90}
        self.number = 0
        self.figures: dict[str, Any] = {}
        self.watchdog = 0
        self.control: socket.socket = None  # type: ignore[assignment]
        self.start()

    def start(self) -> None:
        """Start a turner, as an agent does after its own start."""
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-S", PROGRAM, "turner", str(self.folder)]
        self.turner = subprocess.Popen(command, stdin=theirs)
        theirs.close()
        if self.control is not None:
            self.control.close()
        self.control, self._heard = ours, b""
        ours.settimeout(PATIENCE_S)
        self.watchdog = 0
        if self.members:
            self.tell()
        self.until_told(lambda told: "watchdog" in told)

    def tenant(
        self,
        name: str,
        weight: int = 1,
        *,
        kernel_ms: float = 2,
        depth: int = 2,
        processes: int = 1,
        command: Sequence[str] = (),
    ) -> None:
        """Start burners in a container of their own, or another command."""
        folder = self._tree / name
        folder.mkdir()
        for _ in range(processes):
            burner = [sys.executable, "-S", BURNER, self.socket, str(kernel_ms), str(depth)]
            into = f'echo $$ > {folder}/cgroup.procs; exec "$@"'
            argv = ["/bin/sh", "-c", into, "sh", *(command or burner)]
            self.processes.append(subprocess.Popen(argv, stderr=subprocess.DEVNULL))
        file = str(folder / self._file)
        self.members[name] = {"id": name, "weight": weight, "high": False, "held": False, "file": file}

    def tell(self) -> None:
        """Say what is to be, and wait until the turner has taken it."""
        self.number += 1
        meters = [{"kind": "simulated", "socket": self.socket}]
        ring = {"rules": self.rules, "members": list(self.members.values()), "meters": meters}
        self.control.sendall(json.dumps({"number": self.number, "rings": {"0": ring}}).encode() + b"\n")
        self.until_told(lambda told: told.get("done") == self.number)

    def until_told(self, is_it: Callable[[dict[str, Any]], bool]) -> None:
        while True:
            line, newline, rest = self._heard.partition(b"\n")
            if not newline:
                part = self.control.recv(65536)
                assert part, "the turner is gone"
                self._heard += part
                continue
            self._heard = rest
            told = json.loads(line)
            self.figures = told.get("figures", self.figures)
            self.watchdog = told.get("watchdog", self.watchdog)
            if is_it(told):
                return

    def used(self) -> dict[str, float]:
        """Return what each container has used of the card, as the card counts it."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
            asking.connect(self.socket)
            asking.sendall(b"S\n")
            answer = b""
            while not answer.endswith(b"\n"):
                answer += asking.recv(65536)
        return {name: told[0] for name, told in json.loads(answer).items()}

    def shares(self, seconds: float) -> list[float]:
        """Let a window go by; return the part of each container, in the order of their start."""
        before, end_s = self.used(), time.monotonic() + seconds
        while time.monotonic() < end_s:
            self.until_told(lambda told: "figures" in told)
        after = self.used()
        used = [after.get(name, 0.0) - before.get(name, 0.0) for name in self.members]
        return [each / sum(used) for each in used]

    def share_settles(self, expected: float, within: float) -> bool:
        """Return whether the first container's part comes to `expected`, counted from now on over 4 to 20 s.

        A loaded machine is late for turns. The accounts make that good, but not in so short a window.
        """
        before, began_s = self.used(), time.monotonic()
        while (passed_s := time.monotonic() - began_s) < 20.0:
            self.until_told(lambda told: "figures" in told)
            used = {name: after - before.get(name, 0.0) for name, after in self.used().items() if name in self.members}
            first = used.get(next(iter(self.members)), 0.0) / (sum(used.values()) or 1.0)
            if passed_s > 4.0 and abs(first - expected) <= within * expected:
                return True
        return False

    def frozen(self) -> list[str]:
        return [name for name, member in self.members.items() if is_frozen(member["file"])]

    def until_frozen(self) -> None:
        self.until(lambda: bool(self.frozen()))

    def thawed_within_s(self, watch_s: float = 0.5) -> float:
        """Return how long it takes until nobody is frozen, and stays so for a while."""
        began_s = time.monotonic()
        free_s: float | None = None
        while True:
            now_s = time.monotonic()
            assert now_s - began_s < PATIENCE_S, self.frozen()
            if self.frozen():
                free_s = None
            elif free_s is None:
                free_s = now_s
            elif now_s - free_s > watch_s:
                return free_s - began_s
            time.sleep(0.005)

    def until(self, true: Callable[[], bool]) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while not true():
            assert time.monotonic() < end_s
            time.sleep(0.002)

    def stop(self) -> None:
        """End everything, by its own number, and remove the cgroups."""
        self.control.close()
        for process in (self.turner, self.card, *self.processes):
            process.send_signal(signal.SIGKILL)
        tenants = [folder for folder in self._tree.iterdir() if folder.is_dir()]
        for folder in tenants:
            thaw(str(folder / self._file))
        _wait([self.turner, self.card, *self.processes])
        for folder in tenants:
            self.until(partial(_remove, folder))
        self.until(lambda: _remove(self._tree))


def _wait(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.wait(PATIENCE_S)


def _remove(folder: Path) -> bool:
    """Remove a cgroup, ending what is left in it; tell whether it is gone."""
    for pid in (folder / "cgroup.procs").read_text().split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    try:
        folder.rmdir()
    except OSError:
        return False
    return True
