"""Doing something as another user of this machine, in one thread of this process.

The kernel keeps users for each thread; only the C library changes them for all (setresuid(2), nptl(7)).
"""

from __future__ import annotations

import ctypes
import os
import platform
import pwd
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_SETRESUID, _SETRESGID, _SETGROUPS = (117, 119, 116) if platform.machine() == "x86_64" else (147, 149, 159)
_libc = ctypes.CDLL(None, use_errno=True)


def as_user(name: str, do: Callable[[], T]) -> T:
    """Return what `do` returns when it is done as that user; what it imports must have been imported."""
    user = pwd.getpwnam(name)
    found: list[T] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            gid, uid = [user.pw_gid] * 3, [user.pw_uid] * 3
            for call in ((_SETGROUPS, 0, None), (_SETRESGID, *gid), (_SETRESUID, *uid)):
                if _libc.syscall(*call):
                    raise OSError(ctypes.get_errno(), f"cannot be {name}")
            assert os.geteuid() == user.pw_uid
            found.append(do())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found[0]
