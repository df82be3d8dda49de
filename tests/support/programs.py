"""The installed programs, started as a service manager does, and what is left of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.box.live import PLAYER, PLAYS_ON_S
from tests.support.patience import TIMES

PATIENCE_S = 60.0 * TIMES
MASTER, AGENT, MARATHON = "mesos-gpu-master", "mesos-gpu-agent", "mesos-gpu-marathon"


class Programs:
    """Programs of one folder; each says in a file when it can be used."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.processes = folder, dict[str, subprocess.Popen[bytes]]()
        self.agent_port = 0
        self.cgroups_root = f"mesos-test-{uuid.uuid4().hex[:12]}"

    def start(self, name: str, *flags: str) -> dict[str, Any]:
        """Start one, and return what it says of itself once it can be used."""
        ready, log = self.folder / f"{name}.json", self.folder / f"{name}.log"
        ready.unlink(missing_ok=True)
        words = [str(Path(sys.executable).with_name(name)), *flags, f"--ready_file={ready}"]
        with log.open("ab") as file:
            process = subprocess.Popen(words, stdout=file, stderr=file)
        self.processes[name] = process
        end = time.monotonic() + PATIENCE_S
        while not ready.exists():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.02)
        document: dict[str, Any] = json.loads(ready.read_text())
        return document

    def start_master(self) -> str:
        """Start a master on a free port; return its URL."""
        return str(self.start(MASTER, "--port=0", f"--work_dir={self.folder / 'master'}")["url"])

    def start_agent(self, master_url: str, *flags: str) -> dict[str, Any]:
        """Start an agent of two simulated GPUs on a free port, and a later one on the first one's."""
        said = self.start(
            AGENT,
            f"--master={master_url.removeprefix('http://')}",
            *(
                f"--port={self.agent_port}",
                f"--work_dir={self.folder / 'agent'}",
                f"--cgroups_root={self.cgroups_root}",
            ),
            *("--gpu_driver=simulated", "--simulated_gpus=2", "--resources=cpus:4;mem:4096;disk:4096"),
            "--registration_backoff_factor=50ms",
            *flags,
        )
        self.agent_port = int(said["url"].rpartition(":")[2])
        return said

    def end(self, name: str, number: signal.Signals) -> int:
        process = self.processes.pop(name)
        process.send_signal(number)
        return process.wait(PATIENCE_S)

    def running(self) -> list[str]:
        """Return the command lines of what runs in its folder, but for what plays GPUs, which ends by itself."""
        mark = os.fsencode(str(self.folder))
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                command = path.read_bytes()
            except OSError:
                continue
            if mark in command:
                found.append(command.replace(b"\0", b" ").decode())
        return found


@contextmanager
def started_in(folder: Path) -> Iterator[Programs]:
    """Yield programs of a folder; in the end they are told to go, and nothing that they started is left."""
    programs = Programs(folder)
    try:
        yield programs
        # SIGUSR1 is how Mesos' agents are told to leave for good, with all that runs.
        for name, number in ((MARATHON, signal.SIGTERM), (AGENT, signal.SIGUSR1), (MASTER, signal.SIGTERM)):
            if name in programs.processes:
                status = programs.end(name, number)
                assert status == 0, (folder / f"{name}.log").read_text()
    finally:
        for process in programs.processes.values():
            process.kill()
            process.wait()
    end = time.monotonic() + PLAYS_ON_S
    while (left := programs.running()) and time.monotonic() < end and all(PLAYER in line for line in left):
        time.sleep(0.1)
    assert left == []
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    assert [line for line in mounts if str(folder) in line] == []
    roots = (programs.cgroups_root, f"*/{programs.cgroups_root}")
    assert [path for root in roots for path in Path("/sys/fs/cgroup").glob(root)] == []
