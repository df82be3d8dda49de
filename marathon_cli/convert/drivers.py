"""Tells what elsewhere brings the NVIDIA driver into a container; here the agent does, so none of it is needed."""

from __future__ import annotations

import re

_DRIVER_PATH = re.compile(
    r"(/usr/lib(64)?(/x86_64-linux-gnu)?/(nvidia[^/]*|lib(cuda|nvidia|nvcuvid)[^/]*)"
    r"|/var/lib/nvidia-docker/volumes/.*|/.*/volumes/nvidia_[^/]+|/home/kubernetes/bin/nvidia|/usr/local/nvidia|/opt/nvidia-driver"
    r"|/usr/bin/nvidia-(smi|debugdump|persistenced|cuda-mps-.*)|/dev/nvidia[^/]*)(/.*)?"
)
_GPU_NODE = re.compile(r"/dev/nvidia[0-9]+")
_NODE = re.compile(r"/dev/nvidia[^/]*(/nvidia-cap[0-9]+)?")
_CDI = re.compile(r"nvidia\.com/gpu=(.+)")
_CDI_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*/[A-Za-z][A-Za-z0-9_.-]*=[A-Za-z0-9][A-Za-z0-9_.:-]*")


def is_driver_path(path: str) -> bool:
    """Return whether a path of a machine is part of its NVIDIA driver, or one of its devices."""
    return _DRIVER_PATH.fullmatch(path.rstrip("/")) is not None


def is_driver_volume(source: str) -> bool:
    """Return whether a Docker volume is nvidia-docker 1's: `nvidia_driver_375.39`."""
    return source.startswith("nvidia_driver")


def is_gpu_node(path: str) -> bool:
    """Return whether a device is a GPU: /dev/nvidia0."""
    return _GPU_NODE.fullmatch(path) is not None


def is_nvidia_node(path: str) -> bool:
    """Return whether a device belongs to the NVIDIA driver: /dev/nvidiactl, /dev/nvidia-uvm."""
    return _NODE.fullmatch(path) is not None


def node_inside(device: str) -> str:
    """Return where a container has the device of `--device HOST[:CONTAINER[:RIGHTS]]`."""
    host, _, rest = device.partition(":")
    inside = rest.partition(":")[0]
    return inside if inside.startswith("/") else host


def cdi_gpu(device: str) -> str | None:
    """Return which GPU a CDI name is of: `0` of `nvidia.com/gpu=0`; None for other devices."""
    match = _CDI.fullmatch(device)
    return None if match is None else match[1]


def is_cdi_name(device: str) -> bool:
    """Return whether a device is meant by its CDI name, `vendor.com/class=name`, of whichever vendor."""
    return _CDI_NAME.fullmatch(device) is not None
