"""A file's lock is waited for, no longer than asked."""

from __future__ import annotations

import fcntl
import time

_LOOK_S = 0.005


def taken(descriptor: int, wait_s: float) -> bool:
    """Take the exclusive flock(2) of an open file; return False when it was not free for `wait_s`. Raises OSError."""
    end_s = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= end_s:
                return False
            time.sleep(_LOOK_S)
