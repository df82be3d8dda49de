"""The supervisor of a box in the background: reads the services' code, has a process to fork them from, and serves."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import time
from pathlib import Path

from mesos_gpu.errors import MesosGpuError
from mesos_gpu.local.forking.forked import SERVICES, preload, rename
from mesos_gpu.local.forking.forks import Preloading
from mesos_gpu.local.plan import MAX_LOG_MIB, GpuChoice, UpOptions, program
from mesos_gpu.local.record import Box
from mesos_gpu.local.screen import screen
from mesos_gpu.local.supervisor import Supervisor
from mesos_gpu.process.log_file import LogFile
from mesos_gpu.process.program import give_back_soon
from mesos_gpu.stages import Stages

log = logging.getLogger(__name__)


def serve_detached(argv: list[str]) -> int:
    """Be the supervisor of a detached box: argv is [options as JSON, file descriptor to report to, room]."""
    stages = Stages("start of the box", time.monotonic())
    given = json.loads(argv[0])
    options = UpOptions(**{**given, "work_dir": Path(given["work_dir"]), "pools": tuple(given["pools"])})
    # Before there are threads, an event loop or files that are not its own.
    for _ in preload(SERVICES):
        pass
    stages.mark("code read")
    preloading = Preloading.forked(options.work_dir, SERVICES)
    gc.enable()
    rename("supervisor", [*program("mesos_gpu.local"), *argv[:2]])
    report = os.fdopen(int(argv[1]), "w")
    handler = LogFile(MAX_LOG_MIB << 20)
    logging.basicConfig(handlers=[handler], format="%(asctime)s %(levelname).1s %(message)s")

    def ready(box: Box, gpus: GpuChoice) -> None:
        report.write(f"ready\n{screen(box, gpus, options)}")
        report.close()
        stages.mark("told")
        log.info("%s", stages.line())
        give_back_soon()

    try:
        asyncio.run(Supervisor(options, preloading, stages.mark).run(ready))
    except (MesosGpuError, OSError) as error:  # a full disk has no room for a traceback, and who waits is told why
        if report.closed:
            log.error("%s", error)
            return 1
        report.write(f"refused\n{error}")
        report.close()
        return 1
    return 0
