"""What a machine lacks for a box, said before anything of one is started."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from mesos_gpu.container.host.runtime import RUNTIMES, find_conmon, find_image_init, find_init, find_program
from mesos_gpu.errors import Unavailable

_ROOT = "root, for cgroups, mounts and device nodes of tasks: `sudo mesos-gpu up`"
_RUNTIME = f"an OCI runtime, {' or '.join(RUNTIMES)}: apt install crun, or dnf install crun"


def check_machine() -> None:
    """Raise Unavailable with all that is missing at once: root, and the programs that containers need."""
    missing = list(what_is_missing(os.geteuid(), (find_conmon, find_init, find_image_init), find_program))
    if missing:
        lines = "".join(f"\n  {one}" for one in missing)
        raise Unavailable(f"a box needs what is not here, and nothing was started:{lines}")


def what_is_missing(uid: int, finders: Sequence[Callable[[], object]], find: Callable[[str], object]) -> Sequence[str]:
    """Return what is missing, a line each. `finders` raise Unavailable for a program that is not there."""
    lines = [] if uid == 0 else [_ROOT]
    if not any(find(name) for name in RUNTIMES):
        lines.append(_RUNTIME)
    for finder in finders:
        try:
            finder()
        except Unavailable as error:
            lines.append(str(error))
    return lines
