"""A machine without NVIDIA GPUs: an ordinary case, not a branch in every caller."""

from __future__ import annotations

from collections.abc import Sequence

from mesos_gpu.gpu.device import DeviceNode, Gpu


class NullDriver:
    """No driver: no GPUs, no nodes, no version."""

    kind = "none"
    version: str | None = None

    def gpus(self) -> Sequence[Gpu]:
        """Return no GPU."""
        return ()

    def control_nodes(self) -> Sequence[DeviceNode]:
        """Return no node: without a driver there is nothing behind one."""
        return ()
