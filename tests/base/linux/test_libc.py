"""Calls that Python does not have: what they return, and that a refusal is an OSError with its number."""

from __future__ import annotations

import ast
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mesos_gpu.base.linux import libc
from tests.support.places import ROOT


def test_a_refused_call_is_an_error_that_names_it() -> None:
    with pytest.raises(OSError, match="umount2") as refused:
        libc.call("umount2", b"/no/such/mount", 0)
    assert refused.value.errno in (errno.ENOENT, errno.EPERM)


def test_flags_are_passed_whole(tmp_path: Path) -> None:
    """A C int is too short for 1 << 32, which openat2(2) refuses: cut off, it would be 0 and accepted."""
    folder = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    try:
        with pytest.raises(OSError) as refused:
            libc.openat2(folder, "", os.O_RDONLY | 1 << 40, resolve=0)
        assert refused.value.errno in (errno.EINVAL, errno.ENOSYS, errno.EPERM)
    finally:
        os.close(folder)


def test_a_path_is_opened_as_it_is_restricted(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("file")
    folder = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    try:
        os.close(libc.openat2(folder, "link", os.O_RDONLY, resolve=libc.RESOLVE_BENEATH))
        with pytest.raises(OSError) as refused:
            libc.openat2(folder, "link", os.O_RDONLY, resolve=libc.RESOLVE_NO_SYMLINKS)
        assert refused.value.errno == errno.ELOOP
        with pytest.raises(OSError) as refused:
            libc.openat2(folder, "../x", os.O_RDONLY, resolve=libc.RESOLVE_BENEATH)
        assert refused.value.errno == errno.EXDEV
    finally:
        os.close(folder)


def test_a_file_system_is_synced(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    libc.sync_file_system(folder)
    os.close(folder)
    with pytest.raises(OSError) as refused:
        libc.sync_file_system(folder)
    assert refused.value.errno == errno.EBADF


@pytest.mark.root
def test_what_is_open_by_path_only_is_given_to_another_user(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    entry = os.open(tmp_path / "file", os.O_PATH)
    libc.change_owner(entry, 65534, 65533)
    os.close(entry)
    assert ((tmp_path / "file").stat().st_uid, (tmp_path / "file").stat().st_gid) == (65534, 65533)


def test_memory_is_returned_with_any_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    libc.return_free_memory()
    monkeypatch.setattr(libc, "_libc", object())
    libc.return_free_memory()


def test_the_process_that_unpacks_layers_imports_little() -> None:
    """Each pull of an image waits for its start."""
    code = (
        "import sys, mesos_gpu.images.worker; print([m for m in ('pathlib', 'msgspec', 'asyncio') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


ELSEWHERE = {
    "agent/gpus/share_tree_mount.py": "looks for the FUSE library",
    "container/host/opener.py": "a program with the rights of a container, which imports the standard library only",
    "gpu/card_memory.py": "structures of NVML",
    "gpu/cuda_checkpoint_program.py": "calls libcuda",
    "gpu/mig_device.py": "structures of NVML",
    "isolator/bpf.py": "structures of bpf(2)",
    "local/forking/forked.py": "writes over the memory of its command line",
}
"""Modules that import ctypes, and why; none of them but `opener` loads the C library."""


def test_no_other_module_calls_the_c_library() -> None:
    found = set()
    for path in (ROOT / "mesos_gpu").rglob("*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "ctypes" in text else ():
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] == "ctypes" for name in names):
                found.add(path.relative_to(ROOT / "mesos_gpu").as_posix())
    assert found - {"base/linux/libc.py"} == ELSEWHERE.keys()
