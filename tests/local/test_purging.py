"""What a box keeps is told by kinds, and removed with nothing else."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from mesos_gpu.errors import Conflict, NotFound, Unavailable
from mesos_gpu.local import purging
from mesos_gpu.local.purging import kept, purge
from tests.support.golden import Golden

MIB = 1 << 20


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "run" / "box"
    folder.mkdir(parents=True)
    monkeypatch.setattr(purging, "runtime_dir", lambda _: folder)
    monkeypatch.setattr(purging, "remove_network", lambda _: None)
    return folder


@pytest.fixture
def work_dir(tmp_path: Path, runtime: Path) -> Path:
    folder = tmp_path / "box"
    agent = ("agent1/store/docker", "agent1/slaves", "agent1/meta")
    for name in ("log", "marathon", "master", "access", "members/alice", "networks", *agent):
        (folder / name).mkdir(parents=True)
    (folder / "lock").touch()
    (folder / "networks" / "mesos-bridge.conflist").touch()
    (folder / "agent1" / "store" / "docker" / "layer").write_bytes(b"x" * MIB)
    (folder / "agent1" / "meta" / "info").write_bytes(b"x" * MIB)
    return folder


def test_each_kind_is_counted_once(work_dir: Path, golden: Golden) -> None:
    (work_dir / "agent1" / "slaves" / "link").symlink_to("/")
    found = kept(work_dir)
    assert [one.what for one in found] == golden
    assert [one.bytes // MIB for one in found] == [0, 0, 1, 0, 1, 0, 0]


def test_nothing_of_a_box_is_left(work_dir: Path, runtime: Path) -> None:
    assert purge(work_dir) == []
    assert not work_dir.exists()
    assert not runtime.exists()
    with pytest.raises(NotFound):
        kept(work_dir)


def test_what_is_not_the_boxs_stays(work_dir: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (work_dir / "mine").touch()
    (work_dir / "networks" / "mine.conflist").touch()
    (work_dir / "agent1" / "slaves" / "link").symlink_to(outside)
    assert purge(work_dir) == ["mine", "networks"]
    assert outside.is_dir()


def test_a_folder_without_a_box_is_not_touched(tmp_path: Path, golden: Golden) -> None:
    (tmp_path / "log").mkdir()
    with pytest.raises(NotFound) as refused:
        kept(tmp_path)
    assert str(refused.value) == golden


def test_a_box_that_runs_is_not_purged(work_dir: Path, golden: Golden) -> None:
    with (work_dir / "lock").open("rb+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Conflict) as refused:
            purge(work_dir)
        assert str(refused.value) == golden
    assert (work_dir / "marathon").is_dir()


def test_records_without_processes_do_not_prevent_a_purge(work_dir: Path, runtime: Path) -> None:
    (runtime / "agent1" / "containers").mkdir(parents=True)
    (runtime / "agent1" / "containers" / "damaged.json").touch()
    assert purge(work_dir) == []


class Cgroups:
    """The cgroups of one agent, whose processes end after some kills, or never."""

    def __init__(self, kills: int) -> None:
        self.left = kills

    def containers(self) -> frozenset[str]:
        return frozenset({"c"} if self.left else ())

    def pids(self, _: str) -> frozenset[int]:
        return frozenset({os.getpid()})

    def kill(self, _: str) -> None:
        self.left -= 1

    def remove(self, _: str) -> bool:
        return self.left == 0

    def remove_root(self) -> None:
        assert self.left == 0


@pytest.mark.parametrize("kills", [1, 3])
def test_processes_of_containers_are_killed_until_none_is_left(
    work_dir: Path, monkeypatch: pytest.MonkeyPatch, kills: int
) -> None:
    monkeypatch.setattr(purging, "find_cgroups", lambda _: Cgroups(kills))
    assert purge(work_dir) == []


def test_a_process_that_does_not_end_is_named_and_nothing_is_removed(
    work_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "find_cgroups", lambda _: Cgroups(-1))
    monkeypatch.setattr(purging, "LEFT_BEHIND_S", 0.0)
    with pytest.raises(Unavailable) as refused:
        purge(work_dir)
    assert str(os.getpid()) in str(refused.value)
    assert (work_dir / "agent1").is_dir()
