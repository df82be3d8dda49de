"""Device nodes on the host, for those who make their containers themselves: the driver's own, or ones that we make."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from mesos_gpu.errors import Unavailable
from mesos_gpu.gpu.device import DeviceNode


class HostNodes:
    """Finds nodes where the driver has them; what is not there (simulated GPUs have no nodes) is made in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path_of(self, node: DeviceNode) -> str:
        """Return where the host has the node. Raises Unavailable when it has none and none can be made."""
        path = Path(node.path)
        if _is(path, node):
            return node.path
        made = self._folder / path.relative_to("/dev")
        if not _is(made, node):
            try:
                made.parent.mkdir(parents=True, exist_ok=True)
                made.unlink(missing_ok=True)
                os.mknod(made, stat.S_IFCHR | 0o600, os.makedev(node.major, node.minor))
                made.chmod(node.mode)
            except OSError as error:
                raise Unavailable(f"there is no node {node.path} here, and none can be made: {error}") from error
        return str(made)


def _is(path: Path, node: DeviceNode) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == os.makedev(node.major, node.minor)
