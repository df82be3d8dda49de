"""Programs of ours that run beside a container, and outlive whoever started them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from mesos_gpu.container.host.processes import Process
from mesos_gpu.errors import ContainerError


def start_beside(program: str, words: Sequence[str], descriptors: Sequence[int], *, stdout: int, what: str) -> Process:
    """Start the Python file `program` in a session of its own, without environment, with these open files.

    It reads nothing, and writes to `stdout`. Raises OSError, and ContainerError when it has vanished; `what` names it.
    """
    started = subprocess.Popen(
        [sys.executable, "-I", "-S", program, *words],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        env={},
        cwd="/",
        pass_fds=descriptors,
        start_new_session=True,
    )
    started.returncode = 0  # Popen must not wait for it: `Process` does, and after a restart nobody of ours
    process = Process.open(started.pid)
    if process is None:  # only if somebody else in this process reaps our children
        raise ContainerError(f"{what} has vanished")
    return process
