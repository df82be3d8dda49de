"""Values in JSON files: saved, loaded, and what a damaged file means."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec
import pytest

from mesos_gpu.base import files
from mesos_gpu.base.records import Record, Records
from mesos_gpu.errors import DamagedRecord, Unavailable

DAMAGE = [
    pytest.param(b"", id="empty, as after a power failure"),
    pytest.param(b"\0" * 40, id="zeros, as after a power failure"),
    pytest.param(b'{"name": "a", "gpus"', id="cut off"),
    pytest.param(b"[]", id="another type"),
    pytest.param(b'{"name": "a"}', id="incomplete"),
    pytest.param(b'{"name": "a", "gpus": "two"}', id="a value of another type"),
    pytest.param(b"\xff\xfe", id="not UTF-8"),
    pytest.param(b'{"name": "\xff", "gpus": 1}', id="not UTF-8 in a string"),
    pytest.param(b"[" * 100_000, id="nested too deeply"),
]


class Holding(msgspec.Struct, frozen=True):
    name: str
    gpus: int


def record(path: Path) -> Record[Holding]:
    return Record(path, Holding, what="the GPUs of a container", advice="remove it")


def records(folder: Path) -> Records[Holding]:
    return Records(folder, Holding, lambda one: one.name, what="the GPUs of a container", advice="remove it")


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# --- one value ---------------------------------------------------------------------------------------------------


def test_a_value_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "record.json"
    assert record(path).load() is None
    record(path).save(Holding("a", 2))
    assert record(path).load() == Holding("a", 2)
    assert path.read_bytes() == b'{"name":"a","gpus":2}'
    record(path).forget()
    record(path).forget()
    assert record(path).load() is None


@pytest.mark.parametrize("data", DAMAGE)
def test_a_damaged_record_is_an_error_that_names_the_file_and_what_to_do(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(data)
    with pytest.raises(DamagedRecord) as refused:
        record(path).load()
    assert refused.value.path == path
    for part in (str(path), "the GPUs of a container", "remove it"):
        assert part in str(refused.value)
    assert path.read_bytes() == data, "whoever repairs it finds what was there"


def test_a_record_that_cannot_be_read_is_not_taken_for_a_damaged_or_a_missing_one(tmp_path: Path) -> None:
    (tmp_path / "record.json").mkdir()
    with pytest.raises(Unavailable) as refused:
        record(tmp_path / "record.json").load()
    assert not isinstance(refused.value, DamagedRecord)


def test_a_value_that_cannot_be_saved_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = record(tmp_path / "record.json")
    kept.save(Holding("a", 1))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(Unavailable):
            kept.save(Holding("a", 2))
    assert kept.load() == Holding("a", 1)


# --- a folder of values ------------------------------------------------------------------------------------------


def test_values_are_loaded_by_name(tmp_path: Path) -> None:
    kept = records(tmp_path / "new")
    assert kept.load() == ({}, [])
    for value in (Holding("b", 1), Holding("a", 2), Holding("b", 3)):
        kept.save(value)
    assert records(tmp_path / "new").load() == ({"a": Holding("a", 2), "b": Holding("b", 3)}, [])
    assert kept.has("a")
    kept.forget("a")
    kept.forget("a")
    assert not kept.has("a")
    assert kept.load()[0].keys() == {"b"}


@pytest.mark.parametrize("data", [*DAMAGE, pytest.param(b'{"name": "b", "gpus": 1}', id="another name")])
def test_damaged_records_are_returned_next_to_the_others(tmp_path: Path, data: bytes) -> None:
    kept = records(tmp_path)
    kept.save(Holding("good", 1))
    (tmp_path / "a.json").write_bytes(data)
    found, damaged = kept.load()
    assert found == {"good": Holding("good", 1)}
    assert [one.path for one in damaged] == [tmp_path / "a.json"]


def test_what_a_killed_process_left_is_removed_and_other_files_are_not(tmp_path: Path) -> None:
    kept = records(tmp_path)
    kept.save(Holding("a", 1))
    (tmp_path / ".0123456789abcdef.tmp").write_bytes(b'{"name"')
    (tmp_path / ".b.json.4711.tmp").write_bytes(b'{"name"')  # as versions before this one named it
    (tmp_path / ".lock").touch()
    (tmp_path / "folder").mkdir()
    assert kept.load() == ({"a": Holding("a", 1)}, [])
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "a.json", "folder"]


def test_a_folder_that_cannot_be_read_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "folder").touch()
    with pytest.raises(NotADirectoryError):
        records(tmp_path / "folder").load()


def test_a_record_that_cannot_be_read_is_not_taken_for_a_damaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = records(tmp_path)
    kept.save(Holding("a", 1))
    monkeypatch.setattr(Path, "read_bytes", lambda _: (_ for _ in ()).throw(OSError(errno.EMFILE, "too many")))
    with pytest.raises(OSError, match="too many"):
        kept.load()


def test_names_of_any_characters_have_a_file_name(tmp_path: Path) -> None:
    kept = Records(
        tmp_path, Holding, lambda one: one.name, what="x", advice="y", file_name=lambda name: name.encode().hex()
    )
    kept.save(Holding("../a b", 1))
    assert kept.load() == ({"../a b": Holding("../a b", 1)}, [])
    assert [path.name for path in tmp_path.iterdir()] == [f"{b'../a b'.hex()}.json"]


@pytest.mark.parametrize("durable", [True, False])
def test_records_say_whether_they_outlive_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    Record(tmp_path / "one.json", Holding, what="x", advice="y", durable=durable).save(Holding("a", 1))
    Records(tmp_path, Holding, lambda one: one.name, what="x", advice="y", durable=durable).save(Holding("a", 1))
    assert len(synced) == (4 if durable else 0)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {files.PRIVATE}
