"""A machine without NVIDIA GPUs: an ordinary case, not a branch in every caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

from mesos_gpu.errors import DeviceError
from mesos_gpu.gpu.device import CardMemory, DeviceNode, Gpu, GpuDetails, GpuUsage, HealthEvent, Topology
from mesos_gpu.gpu.mig_layout import MigCard


class NullDriver:
    """No driver: no GPUs, no nodes, no version."""

    kind = "none"
    version: str | None = None
    cuda_version: str | None = None

    def gpus(self) -> Sequence[Gpu]:
        """Return no GPU."""
        return ()

    def control_nodes(self) -> Sequence[DeviceNode]:
        """Return no node: without a driver there is nothing behind one."""
        return ()

    def usage(self, gpu: Gpu) -> GpuUsage:
        """Raise DeviceError: no GPU can have been given."""
        raise DeviceError(f"there is no driver here to ask for GPU {gpu.uuid}")

    def memory(self) -> CardMemory | None:
        """Return that nobody can tell."""
        return None

    def details(self, gpu: Gpu) -> GpuDetails:
        """Return that nothing is known."""
        return GpuDetails()

    def topology(self) -> Topology:
        """Return the empty topology."""
        return Topology()

    def watch_health(self, on_event: Callable[[HealthEvent], None]) -> Callable[[], None]:
        """Watch nothing."""
        return lambda: None

    def divided(self, gpu: str, holders: Mapping[str, str]) -> AbstractContextManager[MigCard]:
        """Raise DeviceError: there is no GPU."""
        raise DeviceError(f"there is no GPU {gpu} here: no driver is used (--gpu_driver)")

    def retest(self, gpu: Gpu) -> str | None:
        """Return that there is no driver."""
        return "there is no driver"
