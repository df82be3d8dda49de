"""Memory cgroups for tests, of version 1 or 2: a process is put in, and the kernel kills it for want of memory."""

from __future__ import annotations

from pathlib import Path

from mesos_gpu.local.memory import memory_cgroup

ROOT = Path("/sys/fs/cgroup")
STEP = 128 << 10


class MemoryCgroup:
    """A cgroup beside that of this process."""

    def __init__(self, name: str) -> None:
        home = memory_cgroup(Path("/proc/self/cgroup").read_text(), ROOT)
        assert home is not None, "this machine has no memory cgroups"
        self.home, self.folder = home, home / name
        self.folder.mkdir()
        one = (self.folder / "memory.limit_in_bytes").exists()
        self._limit = self.folder / ("memory.limit_in_bytes" if one else "memory.max")
        self._usage = self.folder / ("memory.usage_in_bytes" if one else "memory.current")
        self._none = "-1" if one else "max"
        self._counts = self.folder / ("memory.oom_control" if one else "memory.events")

    def add(self, pid: int) -> None:
        """Put a process in. What it takes from then on is counted here, and so is all of what it starts."""
        (self.folder / "cgroup.procs").write_text(str(pid))

    def let_go(self, pid: int) -> None:
        """Put a process back to where this one is."""
        (self.home / "cgroup.procs").write_text(str(pid))

    def pids(self) -> list[int]:
        return [int(pid) for pid in (self.folder / "cgroup.procs").read_text().split()]

    def squeeze(self) -> None:
        """Leave those in it the memory that the kernel cannot take away from them, and no more."""
        least = int(self._usage.read_text()) + STEP
        while not self.kills():
            try:
                self._limit.write_text(str(least))
            except OSError:  # version 1 refuses what it cannot reach; version 2 kills for it
                return
            least = min(least, int(self._usage.read_text())) - STEP

    def loosen(self) -> None:
        self._limit.write_text(self._none)

    def kills(self) -> int:
        """Return how many the kernel killed here."""
        return _counted(self._counts)["oom_kill"]

    def remove(self) -> None:
        """Let all go, and be gone."""
        self.loosen()
        for pid in self.pids():
            try:
                self.let_go(pid)
            except ProcessLookupError:
                pass
        self.folder.rmdir()


def _counted(file: Path) -> dict[str, int]:
    return {name: int(number) for name, number in (line.split() for line in file.read_text().splitlines())}
