"""A disk that really fails: a file system on a loop device whose end is put in front of nearly all that is on it.

What is read or written behind the end is refused by the kernel's block layer with EIO, as by a disk that is going: what
programs wrote before, and did not wait for, is lost at that. With its end where it was, the disk is well.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SIZE = 256 << 20
_LEAST = 64 << 10
"""What is left of it: the superblock, and nothing that anybody writes to."""
_SET_STATUS, _GET_STATUS = 0x4C04, 0x4C05  # LOOP_SET_STATUS64, LOOP_GET_STATUS64 of loop(4)
_CLONE_NEWNS = 0x00020000
_INFO_BYTES, _LIMIT_AT = 232, 32  # struct loop_info64, and lo_sizelimit in it


def missing() -> str:
    """Return what this machine lacks for such a disk; empty if nothing."""
    if not Path("/dev/loop-control").exists():
        return "no loop devices here"
    return "" if shutil.which("mkfs.ext4") and shutil.which("losetup") else "no mkfs.ext4 or losetup here"


@contextmanager
def own_mounts() -> Iterator[None]:
    """Have a mount namespace of one's own meanwhile, so that nobody else's processes hold what is mounted here."""
    libc = ctypes.CDLL(None, use_errno=True)
    here = Path.cwd()
    before = os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    assert libc.unshare(_CLONE_NEWNS) == 0, os.strerror(ctypes.get_errno())
    try:
        _run("mount", "--make-rprivate", "/")
        yield
    finally:
        assert libc.setns(before, _CLONE_NEWNS) == 0, os.strerror(ctypes.get_errno())
        os.close(before)
        os.chdir(here)  # who joins a namespace of mounts is in its root: setns(2)


class FailingDisk:
    """A disk of its own at a folder, with ext4; well until something befalls it. Made within `own_mounts`.

    As ext4 usually is: at the first write that fails the kernel makes it read-only, for good. It has to be taken out
    and looked over then.
    """

    def __init__(self, folder: Path) -> None:
        self.at, self._image = folder / "disk", folder / "disk.img"
        self.at.mkdir()
        with self._image.open("wb") as image:
            image.truncate(SIZE)
        _run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,nodiscard", str(self._image))
        self._device = _run("losetup", "-f", "--show", str(self._image))
        self._filler = self.at / "filler"
        self._frozen = False
        self.has_failed = False
        self._mount()

    def fill(self) -> None:
        """Leave no byte free: ENOSPC."""
        with self._filler.open("wb", buffering=0) as filler:
            for size in (1 << 20, 1 << 12):
                while True:
                    try:
                        filler.write(bytes(size))
                    except OSError as error:
                        if error.errno != errno.ENOSPC:
                            raise
                        break

    def empty(self) -> None:
        self._filler.unlink(missing_ok=True)

    def freeze(self) -> None:
        """Let every write wait, as on a disk that does not answer."""
        _run("fsfreeze", "-f", str(self.at))
        self._frozen = True

    def thaw(self) -> None:
        if self._frozen:
            _run("fsfreeze", "-u", str(self.at))
            self._frozen = False

    def fail(self) -> None:
        """Refuse what is not in the kernel's memory, and all that is to be written: EIO, then EROFS."""
        self._end_at(_LEAST)
        self.has_failed = True

    def repair(self) -> None:
        """Take it out, look it over as an operator does, and put it back. Nobody may use it meanwhile."""
        self._end_at(0)
        self.has_failed = False
        _run("umount", str(self.at))
        checked = subprocess.run(["fsck.ext4", "-f", "-y", self._device], capture_output=True, text=True, check=False)
        assert checked.returncode in (0, 1), checked.stdout + checked.stderr
        self._mount()

    def is_read_only(self) -> bool:
        (line,) = (line for line in Path("/proc/self/mounts").read_text().splitlines() if f" {self.at} " in line)
        return "ro" in line.split()[3].split(",") or "emergency_ro" in line

    def remove(self) -> None:
        """Be gone."""
        self.thaw()
        self._end_at(0)
        try:
            _run("umount", str(self.at))
        finally:  # where a test has failed the device goes with the last who uses it
            subprocess.run(["umount", "-l", str(self.at)], capture_output=True, check=False)
            _run("losetup", "-d", self._device)
            self._image.unlink()

    def _mount(self) -> None:
        _run("mount", "-o", "errors=remount-ro", self._device, str(self.at))
        # Files of up to so many blocks share preallocated ones ("group preallocation"), 16 unless told. Where a disk
        # fails under an fdatasync, Linux 6.18 hits a BUG in that (fs/ext4/mballoc.c), and whoever waits does for ever.
        setting = Path("/sys/fs/ext4") / Path(self._device).name / "mb_stream_req"
        if setting.exists():
            setting.write_text("0")

    def _end_at(self, limit: int) -> None:
        device = os.open(self._device, os.O_RDWR)
        try:
            info = bytearray(_INFO_BYTES)
            fcntl.ioctl(device, _GET_STATUS, info)
            struct.pack_into("Q", info, _LIMIT_AT, limit)
            fcntl.ioctl(device, _SET_STATUS, bytes(info))
        finally:
            os.close(device)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FailingDisk]:
    """A disk of a test's own, which nobody else's processes hold."""
    with own_mounts():
        found = FailingDisk(tmp_path)
        yield found
        found.remove()
