"""The first files of the virtual machine: modules in the order that they need, and an archive that others read."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pure_v2.__main__ import CANNOT, GUEST, KERNEL_WORDS, machine
from tests.pure_v2.initramfs import EXECUTABLE, FOLDER, PLAIN, archive, depends_on, in_order, name_of
from tests.support import places


def module(*needed: str) -> bytes:
    """Return what matters of a kernel module's file."""
    return b"\x7fELF...\0license=GPL\0depends=" + ",".join(needed).encode() + b"\0retpoline=Y\0name=x\0"


MODULES = {
    "virtio_blk": module("virtio", "virtio-ring"),
    "virtio_ring": module(),
    "virtio": module("virtio_ring"),
    "nft_compat": module("nf_tables", "x_tables"),
    "nf_tables": module("nfnetlink"),
    "nfnetlink": module(),
    "round": module("trip"),
    "trip": module(),
}


def test_a_module_comes_after_those_that_it_needs_and_each_once() -> None:
    paths = {name: f"/lib/{name}.ko" for name in MODULES}
    order = in_order(["virtio-blk", "built_in", "nft_compat", "virtio"], paths, lambda path: MODULES[name_of(path)])
    names = [name_of(path) for path in order]
    assert names == ["virtio_ring", "virtio", "virtio_blk", "nfnetlink", "nf_tables", "nft_compat"]


def test_what_a_module_needs_is_read_from_its_file() -> None:
    assert depends_on(module("a", "b-c")) == ["a", "b_c"]
    assert depends_on(module()) == []
    assert depends_on(b"\x7fELF") == []
    assert name_of("/lib/modules/6.1/kernel/drivers/block/virtio-blk.ko.xz") == "virtio_blk"


def test_the_archive_is_one_that_busybox_unpacks(tmp_path: Path) -> None:
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("needs busybox")
    files = {
        "bin": (FOLDER, b""),
        "bin/tool": (EXECUTABLE, b"#!/bin/sh\n"),
        "odd": (PLAIN, b"12345"),
        "empty": (PLAIN, b""),
    }
    subprocess.run([busybox, "cpio", "-idm"], input=archive(files), cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "bin" / "tool").read_bytes() == b"#!/bin/sh\n"
    assert (tmp_path / "bin" / "tool").stat().st_mode == EXECUTABLE
    assert (tmp_path / "odd").read_bytes() == b"12345"
    assert (tmp_path / "empty").stat().st_size == 0


def test_without_its_programs_it_says_so_and_that_nothing_was_tried() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.pure_v2"],
        cwd=places.ROOT,
        env={"PATH": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == CANNOT
    assert "pure cgroup v2: not tried, since " in done.stdout


def test_the_machine_has_no_network_no_version_1_and_writes_to_its_disk_alone() -> None:
    folder = places.ROOT / "nowhere"
    command = machine(folder / "vmlinuz", "tcg", "1G", folder, folder / "files")
    assert command[command.index("-nic") + 1] == "none"
    assert "cgroup_no_v1=all" in KERNEL_WORDS.split()
    assert [word for word in command if word.startswith("file=")] == [
        f"file={folder}/disk,if=none,id=disk,format=raw,cache=unsafe"
    ]
    assert "mount -t virtiofs root /lower -o ro" in (GUEST / "init").read_text()
