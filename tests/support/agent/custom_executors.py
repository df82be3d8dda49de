"""Tasks of an executor that is a program over pymesos."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mesos_gpu.mesos.messages import devolve
from tests.support.agent.documents import scalar, task
from tests.support.agent.hosting import IDS

PROGRAM = Path(__file__).with_name("pymesos_executor.py")
CUSTOM = {"pymesos": PROGRAM, "libprocess": Path(__file__).with_name("libprocess_executor.py")}
"""Two that do the same: one speaks HTTP, one libprocess."""


def hosted(task_id: str, *, gpus: int = 0, line: str = f"exec {sys.executable} {PROGRAM}") -> dict[str, Any]:
    """Return a task of the executor `echo`, in the master's form."""
    executor = {
        "type": "CUSTOM",
        **IDS,
        "name": "an echo",
        "source": "tests",
        "command": {"value": line},
        "resources": [scalar("cpus", 0.1), scalar("mem", 64.0)],
    }
    document = task(task_id, gpus=gpus, executor=executor)
    del document["command"]
    return devolve("mesos.TaskInfo", document)
