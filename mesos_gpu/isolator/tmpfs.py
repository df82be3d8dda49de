"""mount(2), which Python does not have, for the one mount that this room makes."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_MS_NOSUID, _MS_NODEV = 2, 4


def mount_tmpfs(path: Path, *, size_mib: int) -> None:
    """Mount an empty tmpfs, readable by all, executable, without devices and set-uid programs. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    flags, options = ctypes.c_ulong(_MS_NOSUID | _MS_NODEV), f"mode=755,size={size_mib}m".encode()
    if libc.mount(b"tmpfs", os.fsencode(path), b"tmpfs", flags, options):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(path))
