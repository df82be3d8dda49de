"""Folders of persistent volumes: there with the volume, gone with it, and right again after a crash."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mesos_gpu.agent.disk.volumes import OWNERS, Volumes, check_owners
from mesos_gpu.container.spec.user_namespace import IdRange
from mesos_gpu.errors import Conflict


@pytest.fixture
def volumes(tmp_path: Path) -> Volumes:
    return Volumes(tmp_path)


def until(true: Callable[[], bool]) -> None:
    """Deleting is done by a thread that tells nobody."""
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


def nothing_discarded(folder: Path) -> bool:
    return not list((folder / "volumes" / ".discarded").iterdir())


def test_a_volume_lies_where_mesos_has_it(volumes: Volumes, tmp_path: Path) -> None:
    volumes.make("ml/train", "v1")
    assert (tmp_path / "volumes" / "roles" / "ml train" / "v1").is_dir()


def test_the_folders_around_a_new_volume_are_synced(
    volumes: Volumes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr("mesos_gpu.agent.disk.volumes.sync_folder", synced.append)
    volumes.make("ml", "v1")
    folder = tmp_path / "volumes" / "roles" / "ml"
    assert {folder, folder.parent, folder.parent.parent, tmp_path} <= set(synced)


def test_a_discarded_volume_is_out_of_the_way_at_once_and_deleted_behind(volumes: Volumes, tmp_path: Path) -> None:
    volumes.make("ml", "v")
    (volumes.path("ml", "v") / "weights").write_text("w")
    volumes.discard("ml", "v")
    assert not volumes.path("ml", "v").exists()
    until(lambda: nothing_discarded(tmp_path))
    volumes.discard("ml", "v")


def test_a_new_volume_is_empty_whatever_lay_there(volumes: Volumes, tmp_path: Path) -> None:
    volumes.make("ml", "v")
    (volumes.path("ml", "v") / "old").touch()
    volumes.make("ml", "v")
    assert list(volumes.path("ml", "v").iterdir()) == []
    until(lambda: nothing_discarded(tmp_path))


def test_after_a_crash_the_disk_is_made_to_agree(volumes: Volumes, tmp_path: Path) -> None:
    volumes.make("ml", "kept")
    (volumes.path("ml", "kept") / "data").write_text("d")
    volumes.make("ml", "destroyed")
    (tmp_path / "volumes" / ".discarded" / "x").mkdir(parents=True)
    volumes.settle({("ml", "kept"), ("a/b", "lost")})
    assert (volumes.path("ml", "kept") / "data").read_text() == "d"
    assert not volumes.path("ml", "destroyed").exists()
    assert volumes.path("a/b", "lost").is_dir()
    until(lambda: nothing_discarded(tmp_path))


def test_volumes_with_files_of_an_earlier_range_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids, other = IdRange(1_879_048_192, 65536), IdRange(1_900_000_000, 65536)
    (tmp_path / "meta").mkdir()
    check_owners(tmp_path, None)
    check_owners(tmp_path, ids)
    file = tmp_path / "volumes" / "roles" / "ml" / "v" / "deep" / "file"
    file.parent.mkdir(parents=True)
    file.touch()
    check_owners(tmp_path, other)  # no file has a number of the first range
    check_owners(tmp_path, ids)
    monkeypatch.setattr(Path, "lstat", lambda path: file_status(ids.first + 7 if path == file else 0))
    for change in (other, None):
        with pytest.raises(Conflict, match=str(file)):
            check_owners(tmp_path, change)
        assert (tmp_path / OWNERS).read_text() == f"{ids}\n"
    check_owners(tmp_path, ids)


def file_status(uid: int) -> os.stat_result:
    return os.stat_result((0o100644, 1, 1, 1, uid, 0, 0, 0, 0, 0))
