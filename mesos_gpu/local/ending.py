"""How a box is told to end, how long that may take, and whether its tasks have ended with it."""

from __future__ import annotations

import signal
from pathlib import Path

from mesos_gpu.errors import Unavailable
from mesos_gpu.local import plan
from mesos_gpu.local.record import still_running

# Marathon and the master only close files and sockets; an agent that ends its tasks waits out their kill grace.
STOP_S, AGENT_STOP_S, LEFT_BEHIND_S = 15.0, 45.0, 5.0
KEEP_TASKS = signal.SIGUSR1
"""The signal that tells a supervisor to stop the services and leave tasks running; SIGTERM ends tasks too."""
SHOWN = 5
"""How many containers a message names."""


def check_ended(work_dir: Path) -> None:
    """Raise Unavailable when a box that is down has containers on record which may still run."""
    left = still_running(plan.runtime_dir(work_dir))
    if left:
        raise Unavailable(
            f"the box is down, but {len(left)} of its containers may still run, since their agent did not end them: "
            f"{', '.join(left[:SHOWN])}{', ...' if len(left) > SHOWN else ''}. `mesos-gpu up` takes them over again, "
            "and `mesos-gpu down` then ends them"
        )
