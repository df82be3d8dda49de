"""Whether a process was killed for want of memory."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from mesos_gpu.local.memory import MemoryWatch, memory_cgroup
from tests.support.golden import Golden

ROOT = Path("/sys/fs/cgroup")


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("0::/system.slice/mesos-gpu.service\n", ROOT / "system.slice/mesos-gpu.service"),
        ("9:name=systemd:/a\n4:memory:/b/c\n0::/d\n", ROOT / "memory/b/c"),
        ("4:cpu,memory:/b\n0::/d\n", ROOT / "memory/b"),
        ("9:name=memory:/a\n0::/\n", ROOT),
        ("3:cpuset:/a\n", None),
        ("", None),
    ],
)
def test_the_memory_cgroup_is_that_of_version_1_where_there_is_one(text: str, folder: Path | None) -> None:
    assert memory_cgroup(text, ROOT) == folder


class Machine:
    """Files as a kernel shows them."""

    def __init__(self, folder: Path, version: int) -> None:
        self.version = version
        (folder / "proc" / "7").mkdir(parents=True)
        (folder / "proc" / "7" / "cgroup").write_text("0::/it\n" if version == 2 else "4:memory:/it\n0::/\n")
        self.cgroup = folder / ("it" if version == 2 else "memory/it")
        self.cgroup.mkdir(parents=True)
        self.watch = lambda: MemoryWatch.of(7, folder, folder / "proc")
        self.say(0, 64 << 20)

    def say(self, kills: int, limit: int | None) -> None:
        if self.version == 2:
            (self.cgroup / "memory.events").write_text(f"low 0\nhigh 3\nmax 9\noom 5\noom_kill {kills}\n")
            (self.cgroup / "memory.max").write_text("max\n" if limit is None else f"{limit}\n")
        else:
            (self.cgroup / "memory.oom_control").write_text(f"oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n")
            (self.cgroup / "memory.limit_in_bytes").write_text(f"{limit or 9223372036854771712}\n")


@pytest.mark.parametrize("version", [1, 2])
def test_a_kill_that_the_cgroup_counted_is_told_with_its_limit(tmp_path: Path, version: int, golden: Golden) -> None:
    machine = Machine(tmp_path, version)
    machine.say(3, 64 << 20)
    watch = machine.watch()
    assert watch.why(-signal.SIGKILL) == ""
    machine.say(4, 64 << 20)
    assert watch.why(-signal.SIGKILL) == golden
    assert (watch.why(1), watch.why(-signal.SIGTERM)) == ("", "")
    machine.say(4, None)
    assert watch.why(-signal.SIGKILL) == golden


def test_where_nothing_is_known_nothing_is_said(tmp_path: Path) -> None:
    assert MemoryWatch.of(7, tmp_path, tmp_path / "proc").why(-signal.SIGKILL) == ""
    (tmp_path / "proc" / "7").mkdir(parents=True)
    (tmp_path / "proc" / "7" / "cgroup").write_text("0::/gone\n")
    assert MemoryWatch.of(7, tmp_path, tmp_path / "proc").why(-signal.SIGKILL) == ""
