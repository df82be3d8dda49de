from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from mesos_gpu.errors import BadInput, Unavailable
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.isolator.checkpoints import Checkpoints
from mesos_gpu.isolator.reach import HeldGpu
from tests.support.golden import Golden
from tests.support.gpu_records import records_in

GPUS = [Gpu(minor=minor, index=minor, uuid=f"GPU-{minor}", name="Some GPU") for minor in range(4)]


def test_what_is_saved_is_loaded_by_another_run(tmp_path: Path) -> None:
    for name, gpus in (("a", GPUS[:2]), ("b", GPUS[3:])):
        Checkpoints(tmp_path / "gpu").save(name, gpus)
    assert Checkpoints(tmp_path / "gpu").load() == {
        "a": {HeldGpu(0, "GPU-0"), HeldGpu(1, "GPU-1")},
        "b": {HeldGpu(3, "GPU-3")},
    }


def test_nothing_saved_is_nothing_loaded(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path / "gpu").load() == {}
    assert records_in(tmp_path / "gpu") == []


def test_save_again_replaces(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save("a", GPUS[:1])
    checkpoints.save("a", GPUS[:2])
    assert len(checkpoints.load()["a"]) == 2
    assert records_in(tmp_path) == ["a.json"]


def test_remove_twice_equals_remove_once(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save("a", GPUS[:1])
    checkpoints.remove("a")
    checkpoints.remove("a")
    assert checkpoints.load() == {}


def test_file_that_was_being_written_at_a_crash_is_not_taken_for_a_record(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save("a", GPUS[:1])
    (tmp_path / ".b.json.4711.tmp").write_bytes(b'{"container_id"')
    assert set(checkpoints.load()) == {"a"}
    assert records_in(tmp_path) == ["a.json"]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"container_id":"a"}', '{"container_id":"a","gpus":[{"minor":"0","uuid":"x"}]}', "\0" * 40],
)
def test_record_that_is_not_one_is_an_error_naming_the_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(Unavailable, match=rf"{tmp_path}/a\.json"):
        Checkpoints(tmp_path).load()


def test_record_of_another_container_is_an_error(tmp_path: Path, golden: Golden) -> None:
    Checkpoints(tmp_path).save("a", GPUS[:1])
    (tmp_path / "a.json").rename(tmp_path / "b.json")
    with pytest.raises(Unavailable) as refused:
        Checkpoints(tmp_path).load()
    assert str(refused.value) == golden


def test_record_that_cannot_be_read_is_an_error_naming_the_file(tmp_path: Path, golden: Golden) -> None:
    (tmp_path / "a.json").mkdir()
    with pytest.raises(Unavailable) as refused:
        Checkpoints(tmp_path).load()
    assert str(refused.value) == golden


@pytest.mark.parametrize("container_id", ["", ".", "..", "../a", "a/b", ".hidden", "a\0b"])
def test_id_that_would_leave_the_directory_is_refused(tmp_path: Path, container_id: str) -> None:
    with pytest.raises(BadInput):
        Checkpoints(tmp_path).save(container_id, GPUS[:1])
    with pytest.raises(BadInput):
        Checkpoints(tmp_path).remove(container_id)


def test_record_that_cannot_be_written_is_an_error_and_leaves_nothing(tmp_path: Path, golden: Golden) -> None:
    (tmp_path / "gpu").write_text("a file where the directory should be")
    with pytest.raises(Unavailable) as refused:
        Checkpoints(tmp_path / "gpu").save("a", GPUS[:1])
    assert str(refused.value) == golden
    assert [path.name for path in tmp_path.iterdir()] == ["gpu"]


def test_write_that_fails_keeps_the_record_of_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save("a", GPUS[:1])

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(Unavailable, match="No space left"):
            checkpoints.save("a", GPUS[:2])
    assert len(checkpoints.load()["a"]) == 1
    assert records_in(tmp_path) == ["a.json"]


def test_records_of_a_run_of_the_machine_wait_for_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def synced(descriptor: int) -> None:
        raise AssertionError("it was waited for")

    monkeypatch.setattr(os, "fsync", synced)
    Checkpoints(tmp_path, "boot-1").save("a", GPUS[:1])
    assert Checkpoints(tmp_path, "boot-1").load() == {"a": {HeldGpu(0, "GPU-0")}}


@pytest.mark.parametrize("left", [b'{"container_id":"a","gpus":[]}', b"", b"\0" * 40])
def test_records_of_another_run_of_the_machine_are_gone_however_much_is_left(tmp_path: Path, left: bytes) -> None:
    Checkpoints(tmp_path, "boot-1").save("a", GPUS[:1])
    (tmp_path / "boot-1" / "a.json").write_bytes(left)
    assert Checkpoints(tmp_path, "boot-2").load() == {}
    assert records_in(tmp_path) == []


@pytest.mark.parametrize("left", ["", "{", "\0" * 40])
def test_a_record_of_this_run_that_is_none_is_an_error(tmp_path: Path, left: str) -> None:
    Checkpoints(tmp_path, "boot-1").save("a", GPUS[:1])
    (tmp_path / "boot-1" / "a.json").write_text(left)
    with pytest.raises(Unavailable, match=r"a\.json"):
        Checkpoints(tmp_path, "boot-1").load()


def test_records_from_before_there_were_boot_ids_count_until_they_are_replaced(tmp_path: Path) -> None:
    older, newer = Checkpoints(tmp_path), Checkpoints(tmp_path, "boot-1")
    older.save("a", GPUS[:1])
    older.save("b", GPUS[1:2])
    older.close()
    assert set(newer.load()) == {"a", "b"}
    newer.save("a", GPUS[2:])
    assert newer.load() == {"a": {HeldGpu(2, "GPU-2"), HeldGpu(3, "GPU-3")}, "b": {HeldGpu(1, "GPU-1")}}
    newer.remove("a")
    newer.remove("b")
    assert newer.load() == {}


@pytest.mark.parametrize("fails", [0, 1])
def test_a_record_that_cannot_be_removed_is_there_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: int, golden: Golden
) -> None:
    """Whichever of its two places the disk fails at: else the next process would give its GPUs to another."""
    checkpoints, unlink, calls = Checkpoints(tmp_path, "boot-1"), Path.unlink, []
    checkpoints.save("a", GPUS[:1])

    def failing(path: Path, missing_ok: bool = False) -> None:
        calls.append(path)
        if len(calls) == fails + 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", failing)
    with pytest.raises(Unavailable) as refused:
        checkpoints.remove("a")
    assert str(refused.value) == golden
    checkpoints.close()
    assert Checkpoints(tmp_path, "boot-1").load() == {"a": {HeldGpu(0, "GPU-0")}}


def test_a_record_that_was_written_counts_although_the_older_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = Checkpoints(tmp_path, "boot-1")
    Checkpoints(tmp_path).save("a", GPUS[:2])
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda *_, **__: (_ for _ in ()).throw(OSError(errno.EIO, "EIO")))
        checkpoints.save("a", GPUS[:1])
    assert checkpoints.load() == {"a": {HeldGpu(0, "GPU-0")}}
