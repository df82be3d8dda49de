"""Files that are replaced whole, and the one place where that is done."""

from __future__ import annotations

import ast
import errno
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from mesos_gpu.base import files
from mesos_gpu.base.files import (
    hard_link_whole,
    is_unfinished,
    link_whole,
    make_folders,
    private_folder,
    replacing,
    sync_existing,
    sync_folder,
    write_whole,
)
from tests.support.places import ROOT

Write = Callable[[Path, bytes], None]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("before", [None, b"before", b"a much longer text than the new one"])
def test_a_file_has_the_new_content_and_nothing_else_is_left(tmp_path: Path, before: bytes | None) -> None:
    path = tmp_path / "file"
    if before is not None:
        path.write_bytes(before)
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["file"]


class Disk:
    """Notes each call that changes the disk, in order, and fails one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, failing: str | None = None) -> None:
        self.calls: list[str] = []
        self._failing = failing
        sync, replace = os.fsync, Path.replace

        def synced(descriptor: int) -> None:
            self._note("sync folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "sync file")
            sync(descriptor)

        def renamed(path: Path, target: Path) -> Path:
            self._note("rename")
            return replace(path, target)

        monkeypatch.setattr(os, "fsync", synced)
        monkeypatch.setattr(Path, "replace", renamed)

    def _note(self, call: str) -> None:
        self.calls.append(call)
        if call == self._failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_the_content_is_on_the_disk_before_the_name_and_both_before_the_call_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    write_whole(tmp_path / "file", b"new")
    assert disk.calls == ["sync file", "rename", "sync folder"]


def test_new_folders_are_synced_in_the_folders_around_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(files, "sync_folder", synced.append)
    write_whole(tmp_path / "a" / "b" / "file", b"new", folder_mode=0o700)
    assert sorted(synced) == [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    assert mode(tmp_path / "a") == mode(tmp_path / "a" / "b") == 0o700


def test_what_need_not_be_durable_does_not_wait_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    write_whole(tmp_path / "a" / "file", b"new", durable=False, folder_mode=0o755)
    assert disk.calls == ["rename"]


@pytest.mark.parametrize("failing", ["sync file", "rename"])
def test_a_write_that_fails_leaves_the_previous_content_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    Disk(monkeypatch, failing)
    with pytest.raises(OSError):
        write_whole(path, b"new")
    assert path.read_bytes() == b"before"
    assert names(tmp_path) == ["file"]


def test_an_error_names_the_file_that_the_caller_named(tmp_path: Path) -> None:
    (tmp_path / "folder").touch()
    path = str(tmp_path / "folder" / "file")
    with pytest.raises(NotADirectoryError) as refused:
        write_whole(Path(path), b"")
    assert (refused.value.filename, refused.value.filename2) == (path, None)
    with pytest.raises(NotADirectoryError) as refused:
        link_whole(Path(path), "target")
    assert (refused.value.filename, refused.value.filename2) == ("target", path)
    (tmp_path / "taken" / "inner").mkdir(parents=True)
    with pytest.raises(IsADirectoryError) as refused:
        write_whole(tmp_path / "taken", b"")
    assert refused.value.filename == str(tmp_path / "taken")


def test_a_write_of_which_only_the_name_may_be_lost_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    Disk(monkeypatch, "sync folder")
    with pytest.raises(OSError):
        write_whole(path, b"new")
    assert path.read_bytes() == b"new"


def test_a_block_that_raises_leaves_the_previous_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")

    def interrupted() -> None:
        with replacing(path) as file:
            file.write(b"half")
            file.flush()
            (unfinished,) = [name for name in names(tmp_path) if name != "file"]
            assert is_unfinished(unfinished)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"before"
    assert names(tmp_path) == ["file"]


def test_a_name_can_have_255_bytes(tmp_path: Path) -> None:
    write_whole(tmp_path / ("n" * 255), b"new")
    link_whole(tmp_path / ("l" * 255), "n" * 255)
    assert (tmp_path / ("l" * 255)).read_bytes() == b"new"


def test_only_the_owner_reads_a_file_unless_it_is_given_a_mode(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_whole(tmp_path / "private", b"")
        write_whole(tmp_path / "public", b"", mode=files.PUBLIC)
        os.umask(0o777)
        write_whole(tmp_path / "whatever the umask", b"", mode=0o640)
    finally:
        os.umask(before)
    assert [mode(tmp_path / name) for name in ("private", "public", "whatever the umask")] == [0o600, 0o644, 0o640]


def test_nobody_else_reads_a_file_before_it_has_its_mode(tmp_path: Path) -> None:
    with replacing(tmp_path / "file", mode=0o644):
        (unfinished,) = tmp_path.iterdir()
        assert mode(unfinished) == 0o600
    assert mode(tmp_path / "file") == 0o644


def test_a_file_can_keep_the_mode_of_the_one_it_replaces(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, b"", mode=None)
    assert mode(path) == 0o644
    path.chmod(0o640)
    write_whole(path, b"new", mode=None)
    assert mode(path) == 0o640


@pytest.mark.root
def test_root_gives_a_file_to_its_owner_and_leaves_it_to_that_owner(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, b"secret", mode=0o400, owner=65534)
    assert (path.stat().st_uid, mode(path)) == (65534, 0o400)
    os.chown(path, 65534, 65533)
    write_whole(path, b"changed", mode=None)
    assert (path.stat().st_uid, path.stat().st_gid, mode(path)) == (65534, 65533, 0o400)
    write_whole(path, b"root's", mode=0o600)
    assert path.stat().st_uid == 0


def test_a_link_is_replaced_and_what_it_points_to_is_not_written_to(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"of another user")
    (tmp_path / "file").symlink_to(other)
    write_whole(tmp_path / "file", b"new")
    assert other.read_bytes() == b"of another user"
    assert not (tmp_path / "file").is_symlink()


def test_a_link_in_the_place_of_the_unfinished_file_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"before")
    monkeypatch.setattr(os, "urandom", lambda _: b"guessed!")
    (tmp_path / f".{b'guessed!'.hex()}.tmp").symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "file", b"new")
    assert victim.read_bytes() == b"before"


def test_links_replace_files_and_links_at_once(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"target")
    for put in (lambda path: link_whole(path, "target"), lambda path: hard_link_whole(path, tmp_path / "target")):
        for _ in range(2):  # the second time over its own kind
            put(tmp_path / "link")
            assert (tmp_path / "link").read_bytes() == b"target"
            assert names(tmp_path) == ["link", "target"]


def test_a_link_that_cannot_be_made_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "link").write_bytes(b"before")
    with pytest.raises(FileNotFoundError):
        hard_link_whole(tmp_path / "link", tmp_path / "missing")
    assert (tmp_path / "link").read_bytes() == b"before"
    assert names(tmp_path) == ["link"]


def test_the_folders_with_a_new_name_are_returned(tmp_path: Path) -> None:
    assert make_folders(tmp_path / "a" / "b" / "c") == [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    assert make_folders(tmp_path / "a" / "b" / "d") == [tmp_path / "a" / "b"]
    assert make_folders(tmp_path / "a") == []


def test_a_private_folder_is_closed_for_others_when_it_was_open(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    for folder in (tmp_path / "open", tmp_path / "new" / "folder"):
        private_folder(folder)
        assert mode(folder) == 0o700


def test_what_was_removed_needs_no_sync(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    sync_existing([tmp_path / "gone", file / "below", tmp_path, file])
    sync_folder(tmp_path)
    with pytest.raises(NotADirectoryError):
        sync_folder(file)


# --- nothing else does it ----------------------------------------------------------------------------------------

ELSEWHERE = {
    "agent/disk/removal.py": "moves folders that are to be deleted out of the way",
    "agent/disk/volumes.py": "moves volumes that are to be deleted out of the way",
    "agent/fetch/nested_fetch.py": "exchanges two folders below an open folder",
    "container/supervisor/rotator.py": "rotates log files, in a program of the standard library",
    "images/folders.py": "moves finished layers into the store",
    "isolator/volume.py": "moves finished and unused volumes, which are folders",
    "marathon/store/sqlite.py": "creates a database only if there is none",
    "process/log_file.py": "rotates log files",
}
"""Modules that rename, and what they do that is not the replacement of a file."""
MENTIONED = re.compile(r"sync\(|\.replace\(|\.rename\(|mkstemp|NamedTemporaryFile")
CALLS = {("os", "fsync"), ("os", "fdatasync"), ("os", "replace"), ("os", "rename"), ("tempfile", "mkstemp")}


def replaces_or_syncs(node: ast.AST) -> bool:
    """Return whether a call renames a file, syncs something or makes a temporary file."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    owner, name = node.func.value, node.func.attr
    if isinstance(owner, ast.Name) and (owner.id, name) in CALLS:
        return True
    if name == "NamedTemporaryFile" or (name == "rename" and len(node.args) == 1):
        return True
    # Path.replace has one argument; str.replace and dataclasses.replace have others.
    return name == "replace" and len(node.args) == 1 and not node.keywords


def test_no_other_module_replaces_or_syncs_files() -> None:
    found = {
        path.relative_to(ROOT / "mesos_gpu").as_posix() if "mesos_gpu" in path.parts else path.name
        for package in ("mesos_gpu", "marathon_cli")
        for path in (ROOT / package).rglob("*.py")
        if MENTIONED.search(text := path.read_text())  # most files need not be parsed
        and any(map(replaces_or_syncs, ast.walk(ast.parse(text))))
    }
    assert found - {"base/files.py"} == ELSEWHERE.keys()
