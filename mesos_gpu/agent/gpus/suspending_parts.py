"""Who looks after an agent's GPUs, and who suspends what runs on them: each put together."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from mesos_gpu.agent.gpus.care import AgentGpus
from mesos_gpu.agent.gpus.gpu_record import HealthRecord
from mesos_gpu.agent.gpus.suspender import Suspender, pids_below
from mesos_gpu.agent.gpus.whole_and_parts import WholeAndParts
from mesos_gpu.gpu.cuda_checkpoints import CudaCheckpoints
from mesos_gpu.gpu.device import GpuDriver
from mesos_gpu.isolator.isolator import NvidiaGpuIsolator
from mesos_gpu.isolator.sharing import SharingIsolator
from mesos_gpu.simulated.libraries import CUDA


def open_care(
    retest_interval_s: float | None,
    driver: GpuDriver,
    whole: NvidiaGpuIsolator,
    sharers: SharingIsolator,
    meta: Path,
    container_of: Callable[[int], str],
) -> AgentGpus:
    """Return who looks after the GPUs; what is ill is on record in the folder `meta`."""
    record = HealthRecord(meta / "gpu_health.json")
    return AgentGpus(
        driver, whole, record, retest_interval_s=retest_interval_s, sharers=sharers, container_of=container_of
    )


def open_suspender(
    runtime_dir: Path,
    cgroups_root: str,
    driver: GpuDriver,
    holdings: WholeAndParts,
) -> Suspender | None:
    """Return who suspends tasks; None without GPUs."""
    volume = holdings.volume
    if volume is None:
        return None
    simulated = driver.kind == "simulated"
    cuda = CudaCheckpoints(str(volume.host_path / "lib64" / CUDA) if simulated else CUDA)
    path = runtime_dir / "suspended.json"
    return Suspender(holdings, cuda, path, partial(pids_below, root=cgroups_root))
