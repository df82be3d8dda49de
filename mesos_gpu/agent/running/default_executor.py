"""The program that runs task groups, a neighbour of ours."""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from mesos_gpu.container.life.remapping import reachable
from mesos_gpu.errors import ContainerError

PROGRAM = Path(__file__).absolute().parents[2] / "executor" / "__main__.py"
SAME_VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"

log = logging.getLogger(__name__)


def default_executor(*, remapped: bool, pythons: Sequence[str | None] | None = None) -> tuple[str, ...]:
    """Return its command: by path, without the site-packages that it does not use.

    In a user namespace (`remapped`) nobody has our rights: there it is run by the first of `pythons` that everybody may
    reach, by default our own and the system's of the same version. Where there is none the log says what to do.
    """
    command = (sys.executable, "-S", str(PROGRAM))
    if not remapped:
        return command
    problem = None
    for python in (
        pythons if pythons is not None else (sys.executable, shutil.which(SAME_VERSION, path="/usr/bin:/bin"))
    ):
        if python is None:
            continue
        try:
            for path in (Path(python), Path(python).resolve(), PROGRAM):
                reachable(path)
        except (ContainerError, OSError) as error:
            problem = problem or error
            continue
        return (python, *command[1:])
    log.warning("task groups will not start in user namespaces: %s", problem)
    return command
