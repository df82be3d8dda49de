"""One container sees only its GPUs: finds them, hands out whole ones, keeps account, and limits access."""

from mesos_gpu.isolator.allocator import NvidiaGpuAllocator
from mesos_gpu.isolator.checkpoints import Checkpoints
from mesos_gpu.isolator.discovery import discover_gpus
from mesos_gpu.isolator.injection import ImageManifest, should_inject
from mesos_gpu.isolator.isolator import NvidiaGpuIsolator
from mesos_gpu.isolator.plan import BindMount, Change, DeviceRule, LaunchPlan
from mesos_gpu.isolator.pool import GpuPool
from mesos_gpu.isolator.volume import NvidiaVolume

__all__ = [
    "BindMount",
    "Change",
    "Checkpoints",
    "DeviceRule",
    "GpuPool",
    "ImageManifest",
    "LaunchPlan",
    "NvidiaGpuAllocator",
    "NvidiaGpuIsolator",
    "NvidiaVolume",
    "discover_gpus",
    "should_inject",
]
