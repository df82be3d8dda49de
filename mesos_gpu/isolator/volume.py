"""The NVIDIA volume: driver files that a container needs to see, as one host directory per driver version."""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from mesos_gpu.errors import Unavailable
from mesos_gpu.gpu.device import Gpu, GpuDriver
from mesos_gpu.isolator.files import write_whole
from mesos_gpu.isolator.plan import BindMount, LaunchPlan
from mesos_gpu.isolator.tmpfs import mount_tmpfs

CONTAINER_PATH = "/usr/local/nvidia"
"""Where images made for NVIDIA's first docker plugin, and Mesos, expect the volume."""

_TABLE_TITLE = "#minor\tindex\tuuid\tname\tmemory_mib\tbus_id\tdriver_version\n"


class NvidiaVolume:
    """A volume on this host's disk, read-only to containers.

    Source: Mesos `isolators/gpu/volume.cpp`. Files are only ever added or replaced whole, never removed: containers
    of an earlier run of the agent may be using them.
    """

    def __init__(self, host_path: Path) -> None:
        self.host_path = host_path

    is_nowhere_else = True

    @classmethod
    def create(cls, directory: Path, driver: GpuDriver) -> NvidiaVolume | None:
        """Return the volume `directory/nvidia_<version>`, written as far as it is not there yet.

        Only simulated GPUs have one: their nvidia-smi is nowhere else, while a container that sees the host's
        filesystem has the real driver's files there; for those, and without a driver, the answer is None.
        Where `directory` lies on a filesystem that forbids execution, as /run often does, a small tmpfs is mounted
        over the volume (needs root; call this after entering a private mount namespace and before the container's root
        filesystem is bound). Raises Unavailable when the files cannot be written or could not be executed.
        """
        if driver.kind != "simulated":
            return None
        volume = cls((directory / f"nvidia_{driver.version}").absolute())
        try:
            volume.host_path.mkdir(parents=True, exist_ok=True)
            _allow_execution(volume.host_path)
            volume._write(driver)
        except OSError as error:
            raise Unavailable(f"cannot write the NVIDIA volume {volume.host_path}: {error}") from error
        return volume

    def plan(self, *, image: bool) -> LaunchPlan:
        """Return what makes a container see the volume: at its host path, or at /usr/local/nvidia over an image."""
        if not image:
            return LaunchPlan(search_paths={"PATH": (str(self.host_path / "bin"),)})
        return LaunchPlan(
            mounts=(BindMount(str(self.host_path), CONTAINER_PATH),),
            search_paths={
                "PATH": (f"{CONTAINER_PATH}/bin",),
                # An image's own forward-compatible CUDA goes before the host's libraries, as in Mesos.
                "LD_LIBRARY_PATH": ("/usr/local/cuda/compat", f"{CONTAINER_PATH}/lib", f"{CONTAINER_PATH}/lib64"),
            },
        )

    def _write(self, driver: GpuDriver) -> None:
        for name in ("bin", "lib", "lib64"):
            folder = self.host_path / name
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
        self.host_path.chmod(0o755)
        script = resources.files("mesos_gpu.gpu").joinpath("nvidia-smi").read_bytes()
        _ensure(self.host_path / "bin" / "nvidia-smi", script, mode=0o755)
        _ensure(self.host_path / "gpus", gpu_table(driver.gpus(), driver.version).encode(), mode=0o644)


def gpu_table(gpus: Iterable[Gpu], version: str | None) -> str:
    """Return the table that the simulated nvidia-smi reads; its form is told at the head of that script."""
    rows = (
        (gpu.minor, gpu.index, gpu.uuid, gpu.name, gpu.memory_mib, gpu.bus_id, version)
        for gpu in sorted(gpus, key=lambda gpu: gpu.index)
    )
    # An empty field would be lost: a shell takes several tabs for one.
    lines = ("\t".join("-" if value is None else str(value) for value in row) + "\n" for row in rows)
    return _TABLE_TITLE + "".join(lines)


def _ensure(path: Path, data: bytes, *, mode: int) -> None:
    try:
        if path.read_bytes() == data and path.stat().st_mode & 0o777 == mode:
            return
    except FileNotFoundError:
        pass
    write_whole(path, data, mode=mode)


def _allow_execution(path: Path) -> None:
    if os.statvfs(path).f_flag & os.ST_NOEXEC:
        try:
            mount_tmpfs(path)
        except OSError as error:
            raise Unavailable(
                f"{path} is on a filesystem that forbids execution, and mounting another over it failed: "
                f"{error.strerror}; choose a --runtime_dir on a filesystem mounted without noexec"
            ) from error
