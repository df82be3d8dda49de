"""One container sees only its GPUs."""

from mesos_gpu.isolator.checkpoints import Checkpoints
from mesos_gpu.isolator.isolator import NvidiaGpuIsolator
from mesos_gpu.isolator.pool import GpuPool
from mesos_gpu.isolator.volume import NvidiaVolume

__all__ = ["Checkpoints", "GpuPool", "NvidiaGpuIsolator", "NvidiaVolume"]
