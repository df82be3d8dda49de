"""What a task wrote last before it failed: its errors, else its output."""

from __future__ import annotations

from collections.abc import Sequence

from marathon_cli.clients.sandbox import Mesos, RemoteFile
from mesos_gpu.errors import MesosGpuError

LINES = 5
_LONGEST = 64 * 1024


def last_words(mesos: Mesos, task_id: str, agent_id: str) -> tuple[str, Sequence[str]] | None:
    """Return the file, stderr or stdout, and its last lines; None where nothing was written or nobody tells."""
    try:
        sandbox = mesos.sandbox(task_id, agent_id or None)
        for name in ("stderr", "stdout"):
            file = RemoteFile(sandbox.agent, f"{sandbox.directory}/{name}")
            if not file.size():
                continue
            file.skip_to_last(LINES)
            data = b""
            while len(data) < _LONGEST and (more := file.next()):
                data += more
            lines = [line.rstrip() for line in data.decode(errors="replace").splitlines()]
            if any(lines):
                return name, lines[-LINES:]
    except MesosGpuError:
        pass  # the agent is away, or has removed the files: the failure itself is told anyway
    return None
