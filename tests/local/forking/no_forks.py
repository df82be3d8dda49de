"""Read by the process that services are forked from, it has no process to give from then on."""

from __future__ import annotations

import errno
import os
from typing import NoReturn


def fork() -> NoReturn:
    raise OSError(errno.EAGAIN, "no more processes")


os.fork = fork
