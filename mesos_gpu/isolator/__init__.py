"""Containers that see their own GPUs and no others: the API for authors of containerizers and agents.

Everything that an author needs is imported from here. docs/do/isolator.md shows how it is used.
"""

from mesos_gpu.errors import (
    BadFlag,
    BadInput,
    Conflict,
    ContainerError,
    DeviceError,
    MesosGpuError,
    NotEnoughGpus,
    NotFound,
    Unavailable,
)
from mesos_gpu.gpu.device import DeviceNode, Gpu, GpuDriver, GpuUsage, MigInstance
from mesos_gpu.gpu.drivers import open_driver
from mesos_gpu.isolator.access import BASE_RULES, gpu_nodes, rule_for
from mesos_gpu.isolator.allocator import NvidiaGpuAllocator
from mesos_gpu.isolator.checkpoints import Checkpoints
from mesos_gpu.isolator.discovery import discover_gpus
from mesos_gpu.isolator.injection import ImageManifest, should_inject
from mesos_gpu.isolator.isolator import NvidiaGpuIsolator
from mesos_gpu.isolator.ledger import Choice
from mesos_gpu.isolator.live_access import LiveAccess, RunningAccess
from mesos_gpu.isolator.plan import BindMount, Change, DeviceRule, Hook, LaunchPlan, device_rules
from mesos_gpu.isolator.reach import HeldGpu
from mesos_gpu.isolator.share_records import ShareRecords
from mesos_gpu.isolator.sharing import MemoryKeeper, SharingIsolator
from mesos_gpu.isolator.volume import NvidiaVolume
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.shares.gpu_shares import CardPart, Share, SharedCard

__all__ = [
    "BASE_RULES",
    "BadFlag",
    "BadInput",
    "BindMount",
    "CardPart",
    "Change",
    "Checkpoints",
    "Choice",
    "Conflict",
    "ContainerError",
    "ContainerId",
    "DeviceError",
    "DeviceNode",
    "DeviceRule",
    "Gpu",
    "GpuDriver",
    "GpuUsage",
    "HeldGpu",
    "Hook",
    "ImageManifest",
    "LaunchPlan",
    "LiveAccess",
    "MemoryKeeper",
    "MesosGpuError",
    "MigInstance",
    "NotEnoughGpus",
    "NotFound",
    "NvidiaGpuAllocator",
    "NvidiaGpuIsolator",
    "NvidiaVolume",
    "RunningAccess",
    "Share",
    "ShareRecords",
    "SharedCard",
    "SharingIsolator",
    "Unavailable",
    "device_rules",
    "discover_gpus",
    "gpu_nodes",
    "open_driver",
    "rule_for",
    "should_inject",
]
