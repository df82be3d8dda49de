"""Archives from strangers."""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from mesos_gpu.agent.fetch import archives
from mesos_gpu.agent.fetch.archives import unpack
from mesos_gpu.agent.model.fetch_uris import Archive
from mesos_gpu.errors import BadInput, ContainerError
from tests.support.golden import Golden

Fill = Callable[[tarfile.TarFile], None]


def tar(path: Path, fill: Fill, mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        fill(archive)
    return path


def put(archive: tarfile.TarFile, name: str, content: bytes = b"x", **more: object) -> None:
    member = tarfile.TarInfo(name)
    for field, value in more.items():
        setattr(member, field, value)
    member.size = len(content) if member.isreg() else 0
    archive.addfile(member, io.BytesIO(content))


def good(archive: tarfile.TarFile) -> None:
    put(archive, "app", type=tarfile.DIRTYPE, mode=0o755)
    put(archive, "app/run", b"#!/bin/sh\n", mode=0o6755)
    put(archive, "app/again", type=tarfile.LNKTYPE, linkname="app/run")
    put(archive, "app/link", type=tarfile.SYMTYPE, linkname="/anywhere")
    put(archive, "./deep/er/file", b"deep")
    put(archive, "/absolute", b"absolute")


def into(tmp_path: Path) -> Path:
    folder = tmp_path / "sandbox"
    folder.mkdir(exist_ok=True)
    return folder


def open_up(kind: Archive, path: Path, folder: Path, name: str | None = None) -> None:
    unpack(kind, path, name or path.name, folder, threading.Event())


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_tar_is_unpacked_whatever_its_compression(tmp_path: Path, mode: str) -> None:
    folder = into(tmp_path)
    (folder / "absolute").write_text("was there before")
    open_up("tar", tar(tmp_path / "a.tar", good, mode), folder)
    assert (folder / "app/run").read_bytes() == b"#!/bin/sh\n"
    assert stat.S_IMODE((folder / "app/run").stat().st_mode) == 0o755
    assert (folder / "app/again").samefile(folder / "app/run")
    assert str((folder / "app/link").readlink()) == "/anywhere"
    assert (folder / "deep/er/file").read_bytes() == b"deep"
    assert (folder / "absolute").read_bytes() == b"absolute"


def test_a_zip_and_a_lone_gzip_are_unpacked(tmp_path: Path) -> None:
    folder = into(tmp_path)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        program = zipfile.ZipInfo("bin/run")
        program.external_attr = 0o100755 << 16
        archive.writestr(program, "run")
        link = zipfile.ZipInfo("bin/link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "run")
        archive.writestr("folder/", "")
    open_up("zip", tmp_path / "a.zip", folder)
    assert stat.S_IMODE((folder / "bin/run").stat().st_mode) == 0o755
    assert (folder / "bin/link").read_text() == "run"
    assert (folder / "folder").is_dir()
    (tmp_path / "c1").write_bytes(gzip.compress(b"model"))
    open_up("gzip", tmp_path / "c1", folder, "model.bin.gz")
    assert (folder / "model.bin").read_bytes() == b"model"


def over_a_link(archive: tarfile.TarFile) -> None:
    put(archive, "out", type=tarfile.SYMTYPE, linkname="..")
    put(archive, "out/evil")


def over_a_link_to_a_link(archive: tarfile.TarFile) -> None:
    put(archive, "one", type=tarfile.SYMTYPE, linkname="two")
    put(archive, "two", type=tarfile.SYMTYPE, linkname="/tmp")
    put(archive, "one/deep/evil")


def hard_link_to_outside(archive: tarfile.TarFile) -> None:
    put(archive, "out", type=tarfile.SYMTYPE, linkname="..")
    put(archive, "mine", type=tarfile.LNKTYPE, linkname="out/secret")


def hard_link_to_a_link(archive: tarfile.TarFile) -> None:
    put(archive, "out", type=tarfile.SYMTYPE, linkname="../secret")
    put(archive, "mine", type=tarfile.LNKTYPE, linkname="out")


@pytest.mark.parametrize(
    "fill",
    [
        lambda archive: put(archive, "../evil"),
        lambda archive: put(archive, "a/../../evil"),
        lambda archive: put(archive, "pipe", type=tarfile.FIFOTYPE),
        lambda archive: put(archive, "disk", type=tarfile.BLKTYPE, devmajor=8),
        over_a_link,
        over_a_link_to_a_link,
        hard_link_to_outside,
        hard_link_to_a_link,
        lambda archive: put(archive, "mine", type=tarfile.LNKTYPE, linkname="nothing"),
    ],
)
def test_an_archive_that_wants_out_is_refused(tmp_path: Path, fill: Fill) -> None:
    (tmp_path / "secret").write_text("secret")
    folder = into(tmp_path)
    with pytest.raises(BadInput):
        open_up("tar", tar(tmp_path / "a.tar", fill), folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar", "sandbox", "secret"]
    assert not Path("/tmp/deep").exists()


def test_a_file_in_the_place_of_a_link_does_not_write_through_it(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")

    def fill(archive: tarfile.TarFile) -> None:
        put(archive, "link", type=tarfile.SYMTYPE, linkname="../secret")
        put(archive, "link", b"mine")

    open_up("tar", tar(tmp_path / "a.tar", fill), into(tmp_path))
    assert (tmp_path / "secret").read_text() == "secret"
    assert (tmp_path / "sandbox/link").read_bytes() == b"mine"


@pytest.mark.parametrize("kind", ["tar", "zip", "gzip"])
def test_what_is_no_archive_or_cut_short_is_refused(tmp_path: Path, kind: Archive) -> None:
    (tmp_path / "a").write_bytes(b"not an archive at all" * 100)
    with pytest.raises(BadInput):
        open_up(kind, tmp_path / "a", into(tmp_path))
    whole = tar(tmp_path / "b.tar.gz", lambda archive: put(archive, "f", bytes(range(256)) * 4096), "w:gz").read_bytes()
    (tmp_path / "b.tar.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadInput):
        open_up("tar", tmp_path / "b.tar.gz", into(tmp_path))


def test_a_bomb_does_not_fill_the_disk_and_a_kill_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    path = tar(tmp_path / "a.tar.gz", lambda archive: put(archive, "zeros", bytes(8 << 20)), "w:gz")
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(ContainerError) as refused:
        unpack("tar", path, "a.tar.gz", into(tmp_path), stopped)
    assert str(refused.value) == golden
    monkeypatch.setattr(archives, "KEEP_FREE_BYTES", 1 << 60)
    with pytest.raises(ContainerError) as refused:
        open_up("tar", path, into(tmp_path))
    assert str(refused.value) == golden
    monkeypatch.setattr(archives, "KEEP_FREE_BYTES", 0)
    monkeypatch.setattr(archives, "MAX_ENTRIES", 3)
    with pytest.raises(BadInput) as refused:
        open_up("tar", tar(tmp_path / "b.tar", good), into(tmp_path))
    assert str(refused.value) == golden
