"""The CDI file of an agent's GPUs, for engines that read such files: written again whenever the agent starts."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

from mesos_gpu.agent.gpus.lending_desk import LendingDesk
from mesos_gpu.base.files import PUBLIC, write_whole
from mesos_gpu.cdi.writing import gpu_spec
from mesos_gpu.errors import Unavailable

log = logging.getLogger(__name__)

NAME = "mesos-gpu.json"
HOOK = (sys.executable, "-I", "-m", "mesos_gpu.doors.oci.hook")
"""The program that takes a container's lease, by name: doors reach an agent over HTTP and import nothing of it."""


def write_cdi_file(folder: Path, desk: LendingDesk, url: str) -> Path | None:
    """Write the file; return where, None when there is no GPU and so no file. Raises Unavailable.

    It is there whole or not at all: engines read it at any moment, and pass over what does not end in .json or .yaml.
    """
    path, driver = folder / NAME, desk.driver()
    try:
        if not driver["gpus"]:
            path.unlink(missing_ok=True)
            return None
        spec = gpu_spec(driver, [*HOOK, "--agent", url, "lease"])
        write_whole(path, json.dumps(spec, indent=1).encode() + b"\n", mode=PUBLIC, folder_mode=0o755)
    except OSError as error:
        raise Unavailable(f"cannot write the CDI file {path}: {error}") from error
    log.info("%s describes %d GPUs to engines that know CDI", path, len(driver["gpus"]))
    return path
