"""One container as the process that watches it knows it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from mesos_gpu.container.attached.switchboard import Switchboard
from mesos_gpu.container.cgroups import OomWatch
from mesos_gpu.container.host.disk import OverQuota
from mesos_gpu.container.host.processes import Process
from mesos_gpu.container.spec.config import Termination
from mesos_gpu.container.state.checkpoints import Record
from mesos_gpu.images.store import Image


@dataclass(eq=False)
class LiveContainer:
    """One container of this process; `started` is set when its launch has succeeded or failed."""

    record: Record
    init: Process | None = None
    conmon: Process | None = None
    holder: Process | None = None
    """What holds its terminal."""
    rotator: Process | None = None
    """What writes its output to files of limited size."""
    started: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    termination: Termination | None = None
    doomed: bool = False
    ran_out_of_memory: bool = False
    over_disk: OverQuota | None = None
    disk_used: int | None = None
    disk_watch: asyncio.Task[None] | None = None
    oom_watch: OomWatch | None = None
    term_timer: asyncio.TimerHandle | None = None
    kill_timer: asyncio.TimerHandle | None = None
    asked: bool = False
    """SIGTERM has been sent, and SIGKILL will follow."""
    hold: asyncio.Task[None] | None = None
    """Lets a stopped init go on when no other process is left."""
    held_until_s: float = 0.0
    """Until when the processes beside the first are waited for, in seconds of the loop."""
    watcher: asyncio.Task[None] | None = None
    pulling: asyncio.Future[Image] | None = None
    first: Process | None = None
    board: Switchboard | None = None
    ending: bool = False

    def give_up_pull(self) -> None:
        """Have a launch that waits for its image fail now."""
        if self.pulling is not None:
            self.doomed = True
            self.pulling.cancel()

    def close(self) -> None:
        """Let go of its processes, which live on."""
        for process in (self.init, self.first, self.conmon, self.holder, self.rotator):
            if process is not None:
                process.close()
