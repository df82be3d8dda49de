"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import threading
from pathlib import Path


def write_whole(path: Path, data: bytes, *, mode: int = 0o644, durable: bool = True) -> None:
    """Put `data` at `path` so that a reader, or a crash of this program or machine, finds all of it or what was before.

    Raises OSError. When this returns, the file outlasts a power failure; where it is not to be `durable`, only the end
    of this program.
    """
    # Without the name of the file: with it, a name of 250 bytes would be too long.
    temporary = path.with_name(f".{os.getpid()}-{threading.get_native_id()}.tmp")
    try:
        with temporary.open("wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory outlast a power failure. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
