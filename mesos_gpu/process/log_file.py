"""A program's log on standard error, kept small where that is a file.

A file that nobody but the program writes to is begun again when it is full: NAME becomes NAME.1, NAME.1 becomes NAME.2
and so on, and standard output and error go to the new NAME. A terminal, a pipe, journald and a file that somebody else
has renamed are left alone.
"""

from __future__ import annotations

import logging
import os
import stat
import sys
from pathlib import Path

STDOUT, STDERR = 1, 2
KEPT = 4
"""How many older files are kept."""


class LogFile(logging.StreamHandler):  # type: ignore[type-arg]  # it is generic for type checkers alone
    """Writes to standard error, and begins a new file when that has more than `max_bytes`; 0: never."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(sys.stderr)
        self._max_bytes = self._limit = max_bytes
        self._path = Path(f"/proc/self/fd/{STDERR}").readlink()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        super().emit(record)
        try:
            size = os.fstat(STDERR).st_size
            if not self._max_bytes or size <= self._limit:
                return
            begin_new_file(STDERR, self._path)
            self._limit = self._max_bytes
        except OSError:  # a full disk, or a folder that is not ours: not with every line
            self._limit = size + self._max_bytes


def begin_new_file(descriptor: int, path: Path) -> bool:
    """Move the file `path`, to which a descriptor writes, out of the way; lead that, and standard output, to a new one.

    Returns False, and does nothing, where there is no such file at its name any more. Raises OSError; then nothing has
    changed but the numbers of older files.
    """
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or not _is_at(path, found):
        return False
    name = path.name
    new = path.with_name(f".{name}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    opened = os.open(new, flags, 0o600)
    try:
        os.fchmod(opened, stat.S_IMODE(found.st_mode))
        for number in range(KEPT, 1, -1):
            older = path.with_name(f"{name}.{number - 1}")
            if older.exists():
                older.replace(path.with_name(f"{name}.{number}"))
        path.replace(path.with_name(f"{name}.1"))
        new.replace(path)
        for to in (STDOUT, STDERR, descriptor):
            if to == descriptor or os.path.samestat(os.fstat(to), found):
                os.dup2(opened, to)
    finally:
        os.close(opened)
    return True


def _is_at(path: Path, found: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.lstat(), found)
    except OSError:
        return False
