"""The flags about device plugins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mesos_gpu.agent.decisions.device_book import GRACE_S
from mesos_gpu.agent.model.device_units import is_units
from mesos_gpu.errors import BadFlag
from mesos_gpu.mesos.flags import Flag

DEVICE_FLAGS: Sequence[Flag] = (
    Flag(
        "device_plugins_dir",
        "path",
        None,
        "Host Kubernetes device plugins, of any vendor, that register at kubelet.sock in this folder; default: none.",
    ),
    Flag(
        "device_plugins_gpus",
        "text",
        None,
        "The resource of them whose devices are offered as gpus, such as nvidia.com/gpu; others keep their own names.",
    ),
    Flag(
        "device_plugins_grace",
        "duration",
        GRACE_S,
        "How long the devices of a plugin that is gone are remembered; none of them is given meanwhile.",
    ),
    Flag(
        "pod_resources_socket",
        "path",
        None,
        "Tell node tools that know kubelets' PodResources API, such as dcgm-exporter, at this socket file which task "
        "has which GPU; default: nowhere.",
    ),
)
_LONGEST_PATH = 107
"""Of a socket file, in bytes: sockaddr_un."""


@dataclass(frozen=True, slots=True)
class DeviceSettings:
    """Where plugins register, which resource stands for `gpus` (None: none), and how long they may be gone."""

    folder: Path
    gpus_from: str | None
    grace_s: float


def device_settings(flags: Mapping[str, Any]) -> DeviceSettings | None:
    """Return what the flags come to, None where no plugins are hosted."""
    if flags["device_plugins_dir"] is None:
        return None
    folder = Path(flags["device_plugins_dir"]).absolute()
    return DeviceSettings(folder, flags["device_plugins_gpus"], flags["device_plugins_grace"])


def check_devices(flags: Mapping[str, Any]) -> None:
    """Refuse what cannot work together. Raises BadFlag."""
    folder, gpus = flags["device_plugins_dir"], flags["device_plugins_gpus"]
    if folder is not None and len(str(Path(folder).absolute() / "kubelet.sock").encode()) > _LONGEST_PATH:
        raise BadFlag("device_plugins_dir", f"is too long for the path of a socket in it ({_LONGEST_PATH} bytes)")
    pods = flags["pod_resources_socket"]
    if pods is not None and len(str(Path(pods).absolute()).encode()) > _LONGEST_PATH:
        raise BadFlag("pod_resources_socket", f"is too long for the path of a socket ({_LONGEST_PATH} bytes)")
    if flags["device_plugins_grace"] < 0:
        raise BadFlag("device_plugins_grace", "must not be negative")
    if gpus is None:
        return
    if folder is None:
        raise BadFlag("device_plugins_gpus", "needs --device_plugins_dir")
    if not is_units(gpus):
        raise BadFlag(
            "device_plugins_gpus", f"'{gpus}' is no resource of a plugin: DOMAIN/NAME, such as nvidia.com/gpu"
        )
    if "gpu/nvidia" in flags["isolation"]:
        raise BadFlag(
            "device_plugins_gpus",
            "gpus come from plugins or from this agent, not from both: take 'gpu/nvidia' out of --isolation",
        )
