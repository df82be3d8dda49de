"""What a sandbox takes of the disk."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from mesos_gpu.container.host.disk import DiskRules, OverQuota, over_quota, used_bytes, watch_disk
from tests.support.golden import Golden


def test_it_is_what_du_says(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").write_bytes(b"x" * 300_000)
    (tmp_path / "twice").hardlink_to(tmp_path / "a/b/file")
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 1 << 30)
    (tmp_path / "out").symlink_to("/usr")
    said = subprocess.run(["du", "-s", "-B1", str(tmp_path)], capture_output=True, check=True, text=True).stdout
    assert used_bytes(tmp_path) == int(said.split()[0])


def test_a_folder_that_is_gone_is_an_error_and_what_goes_meanwhile_is_not(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        used_bytes(tmp_path / "none")


def test_sizes_are_printed_as_mesos_prints_them(golden: Golden) -> None:
    assert over_quota(OverQuota(10 << 20, 1 << 30)) == golden
    assert over_quota(OverQuota(10_300 << 10, 0)) == golden


async def test_it_is_measured_again_and_again_and_only_enforced_where_that_is_asked_for(tmp_path: Path) -> None:
    seen: asyncio.Queue[int] = asyncio.Queue()
    shown = asyncio.ensure_future(watch_disk(tmp_path, lambda: 1, DiskRules(0.001), seen.put_nowait))
    first = [await seen.get() for _ in range(3)]
    assert min(first) > 1
    shown.cancel()
    await asyncio.gather(shown, return_exceptions=True)
    small = used_bytes(tmp_path)
    ended = asyncio.ensure_future(watch_disk(tmp_path, lambda: small, DiskRules(0.001, enforce=True), seen.put_nowait))
    await seen.get()
    assert not ended.done()
    (tmp_path / "more").write_bytes(b"x" * 100_000)
    found = await asyncio.wait_for(ended, 60)
    assert found.used > found.limit == small


def dig(folder: Path, levels: int, name: str) -> int:
    """Make folders in one another, each of this name; return a descriptor of the last."""
    at = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=at)
        inner = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    return at


@pytest.mark.parametrize(
    ("levels", "name"), [(30, "d" * 200), pytest.param(6000, "d", marks=pytest.mark.slow), (40, "ü" * 100)]
)
def test_what_lies_below_a_path_that_no_kernel_takes_counts(tmp_path: Path, levels: int, name: str) -> None:
    (tmp_path / "sandbox").mkdir()
    deep = dig(tmp_path / "sandbox", levels, name)
    before = used_bytes(tmp_path / "sandbox")
    file = os.open("hidden", os.O_WRONLY | os.O_CREAT, dir_fd=deep)
    os.write(file, b"x" * (1 << 20))
    os.fsync(file)
    os.close(file)
    os.close(deep)
    open_files = len(list(Path("/proc/self/fd").iterdir()))
    assert used_bytes(tmp_path / "sandbox") >= before + (1 << 20)
    assert len(list(Path("/proc/self/fd").iterdir())) == open_files
    subprocess.run(["rm", "-rf", tmp_path / "sandbox"], check=True)
    assert list(tmp_path.iterdir()) == []
