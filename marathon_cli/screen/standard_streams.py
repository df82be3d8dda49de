"""Standard input, output and errors as a shell may leave them: closed, or leading to a disk that is full."""

from __future__ import annotations

import errno
import os
import sys

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def complete() -> None:
    """Put /dev/null in place of streams that are closed, as by `>&-`: Python has None there, and files get numbers."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDONLY if mode == "r" else os.O_WRONLY)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def full(error: Exception) -> str | None:
    """Return what is to be said when output cannot be written for want of room; None for any other error."""
    if isinstance(error, OSError) and error.errno in _FULL and error.filename is None:
        return f"the output cannot be written: {error.strerror}"
    return None


def give_up_output() -> None:
    """Lead standard output to nowhere: what is left in its buffer is not written, and Python does not complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
