"""What is done about a box of which something is left when its test is over: it ends, and is gone."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from mesos_gpu.local.bridge import bridge_name
from mesos_gpu.local.plan import box_id, runtime_dir

_MOST_S = 20.0
_CGROUPS = Path("/sys/fs/cgroup")


def processes_of(work_dir: Path) -> Iterator[tuple[int, str]]:
    """Yield the processes of a box and what they were called with: services, and who watches its containers."""
    marks = str(work_dir), _mark(work_dir)
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if any(mark in command for mark in marks) and int(process.name) != os.getpid():
            yield int(process.name), command


def cgroups_of(work_dir: Path) -> list[Path]:
    """Return the roots of a box's cgroups in every hierarchy."""
    return [path for pattern in (f"{_mark(work_dir)}*", f"*/{_mark(work_dir)}*") for path in _CGROUPS.glob(pattern)]


def sweep(work_dir: Path) -> None:
    """End what runs of a box and its tasks, and remove its cgroups, mounts, bridge and runtime directory."""
    end = time.monotonic() + _MOST_S
    while time.monotonic() < end:
        roots = cgroups_of(work_dir)
        pids = {pid for pid, _ in processes_of(work_dir)} | {pid for root in roots for pid in _inside(root)}
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for root in roots:
            for folder, _, _ in os.walk(root, topdown=False):
                with suppress(OSError):
                    Path(folder).rmdir()
        if not pids and not cgroups_of(work_dir):
            break
        time.sleep(0.05)
    for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
        if f"{work_dir}/" in (at := line.split()[1]):
            subprocess.run(["umount", "-l", at], capture_output=True, check=False)
    bridge = bridge_name(box_id(work_dir))
    if Path("/sys/class/net", bridge).exists():
        subprocess.run(["ip", "link", "delete", bridge], capture_output=True, check=False)
    shutil.rmtree(runtime_dir(work_dir), ignore_errors=True)


def _mark(work_dir: Path) -> str:
    return f"mesos-{box_id(work_dir)}-"


def _inside(root: Path) -> Iterator[int]:
    for found in root.rglob("cgroup.procs"):
        with suppress(OSError, ValueError):
            yield from map(int, found.read_text().split())
