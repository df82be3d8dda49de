from __future__ import annotations

from pathlib import Path

import pytest

from mesos_gpu.container.spec.config import Termination
from mesos_gpu.container.state.checkpoints import ContainerRecords, Record

RECORD = Record(container_id="c", step="running", boot_id="b", sandbox="/s", pid=5, pid_start_time=77)


def test_a_record_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    ended = Record(container_id="d", step="ended", boot_id="b", sandbox="/s", termination=Termination(exit_code=3))
    checkpoints = ContainerRecords(tmp_path / "made")
    assert checkpoints.load() == {}
    checkpoints.save(RECORD)
    checkpoints.save(ended)
    assert ContainerRecords(tmp_path / "made").load() == {"c": RECORD, "d": ended}


def test_an_unfinished_replacement_is_removed_and_the_old_record_stands(tmp_path: Path) -> None:
    checkpoints = ContainerRecords(tmp_path)
    checkpoints.save(RECORD)
    (tmp_path / "c.new").write_text('{"container_id": "c", "st')
    assert checkpoints.load() == {"c": RECORD}
    assert [path.name for path in tmp_path.iterdir()] == ["c.json"]


def test_an_unreadable_record_still_names_its_container(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("")
    (tmp_path / "other.json").write_text('{"container_id": "c", "step": "running", "boot_id": "", "sandbox": ""}')
    assert ContainerRecords(tmp_path).load() == {"broken": None, "other": None}


@pytest.mark.parametrize("damage", [b"[]", b"\xff\xfe", b'{"container_id": "\xff"}', b"[" * 100_000])
def test_garbage_still_names_its_container(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "c.json").write_bytes(damage)
    assert ContainerRecords(tmp_path).load() == {"c": None}


def test_forgetting_twice_is_forgetting_once(tmp_path: Path) -> None:
    checkpoints = ContainerRecords(tmp_path)
    checkpoints.save(RECORD)
    checkpoints.forget("c")
    checkpoints.forget("c")
    assert checkpoints.load() == {}
