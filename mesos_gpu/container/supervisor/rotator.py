"""A program that keeps what one container says in files of limited size, as Mesos' mesos-logrotate-logger does.

It outlives the agent, and is run by its path with nothing but the standard library:

    python -I -S rotator.py BUNDLE FOLDER UID GID {NAME PIPE FILE MAX_BYTES ROTATE COMPRESS}...

FOLDER is a descriptor of the sandbox; PIPE one to read from, FILE one of the file NAME in it. BUNDLE is there to be
found by. It becomes the container's user first, as tasks can write where it does, and follows no link. A full file is
cut at the end of a line where there is one, and becomes NAME.1, NAME.1 becomes NAME.2 and on; with ROTATE 0 it goes.
COMPRESS: 1 all older ones, 2 all but NAME.1. Where a file cannot be renamed, what is in it is given up: the limit
holds. It ends with the pipes, when nobody has their other sides any more.
"""

from __future__ import annotations

import gzip
import os
import select
import shutil
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass

AT_ONCE = 65536
NONE, ALL, LATER = 0, 1, 2


@dataclass
class Stream:
    """One of the container's streams, and its files in an open folder."""

    folder: int
    name: str
    pipe: int
    file: int
    max_bytes: int
    rotate: int
    compress: int

    def __post_init__(self) -> None:
        self.written = os.fstat(self.file).st_size

    def pump(self) -> bool:
        """Take what was said; return whether more may come."""
        data, start = os.read(self.pipe, AT_ONCE), 0
        while len(data) - start > (room := max(0, self.max_bytes - self.written)):
            end = data.rfind(b"\n", start, start + room) + 1
            if not end:
                end = start if self.written else start + room
            self._write(data[start:end])
            start = end
            self._turn()
        self._write(data[start:])
        return bool(data)

    def _write(self, data: bytes) -> None:
        self.written += len(data)
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self.file, left) :]
        except OSError:
            pass  # the disk is full: the container continues

    def _turn(self) -> None:
        """Begin a new file. What cannot be kept is given up."""
        new = None
        try:
            self._shift()
            with suppress(FileNotFoundError):  # the task has removed it
                if self.rotate:
                    os.rename(self.name, f"{self.name}.1", src_dir_fd=self.folder, dst_dir_fd=self.folder)
                else:
                    os.unlink(self.name, dir_fd=self.folder)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            new = os.open(self.name, flags, 0o644, dir_fd=self.folder)
            os.fchmod(new, stat.S_IMODE(os.fstat(self.file).st_mode))
        except OSError:
            with suppress(OSError):
                os.ftruncate(self.file, 0)
        self.written = 0
        if new is not None:
            os.close(self.file)
            self.file = new
            self._pack(1 if self.compress == ALL else 2 if self.compress == LATER else 0)

    def _shift(self) -> None:
        for number in range(self.rotate, 0, -1):
            for ending in ("", ".gz"):
                old, new = f"{self.name}.{number}{ending}", f"{self.name}.{number + 1}{ending}"
                with suppress(FileNotFoundError):
                    if number == self.rotate:
                        os.unlink(old, dir_fd=self.folder)
                    else:
                        os.rename(old, new, src_dir_fd=self.folder, dst_dir_fd=self.folder)

    def _pack(self, number: int) -> None:
        """Make a gzip file of an older file; it stays as it is where that cannot be done."""
        if not 0 < number <= self.rotate:
            return
        plain, packed = f"{self.name}.{number}", f"{self.name}.{number}.gz"
        try:
            source = os.open(plain, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self.folder)
            with os.fdopen(source, "rb") as reads:
                if not stat.S_ISREG(os.fstat(source).st_mode):
                    return
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                target = os.open(packed, flags, 0o644, dir_fd=self.folder)
                with os.fdopen(target, "wb") as raw, gzip.GzipFile("", "wb", 6, raw) as writes:
                    shutil.copyfileobj(reads, writes, AT_ONCE)
            os.unlink(plain, dir_fd=self.folder)
        except OSError:
            pass


def run(streams: list[Stream]) -> None:
    """Return when nobody can say anything any more, and all was written."""
    open_ = {stream.pipe: stream for stream in streams}
    poll = select.poll()
    for pipe in open_:
        poll.register(pipe, select.POLLIN)
    while open_:
        for pipe, _ in poll.poll():
            if not open_[pipe].pump():
                poll.unregister(pipe)
                del open_[pipe]


def become(uid: int, gid: int) -> None:
    """Be this user from now on; nothing happens where that is who we are."""
    if (os.geteuid(), os.getegid()) != (uid, gid):
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)


def main() -> int:
    """Keep what a container says until its end."""
    folder, uid, gid = (int(text) for text in sys.argv[2:5])
    rest = sys.argv[5:]
    become(uid, gid)
    streams = []
    for at in range(0, len(rest), 6):
        pipe, file, max_bytes, rotate, compress = (int(text) for text in rest[at + 1 : at + 6])
        streams.append(Stream(folder, rest[at], pipe, file, max_bytes, rotate, compress))
    run(streams)
    return 0


if __name__ == "__main__":
    sys.exit(main())
