"""The flags about device plugins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from mesos_gpu.agent.decisions.device_book import GRACE_S
from mesos_gpu.agent.devices.cdi import FOLDERS
from mesos_gpu.agent.model.cdi_names import EVERY, GPUS
from mesos_gpu.agent.model.device_units import is_units
from mesos_gpu.cdi.applying import is_kind
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
        "cdi_devices",
        "list",
        (),
        "Kinds of CDI devices that tasks may ask for by name, such as vendor.com/class, or all; GPUs are asked for as "
        "gpus.",
    ),
    Flag("cdi_dirs", "list", FOLDERS, "Folders with CDI files, the last with the highest priority."),
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


class DeviceSettings(Struct, frozen=True):
    """Where plugins register (None: nowhere), which resource stands for `gpus` (None: none), how long they may be gone.

    `cdi_kinds` are those CDI devices that tasks may ask for, `cdi_folders` where their files are.
    """

    folder: Path | None
    gpus_from: str | None
    grace_s: float
    cdi_kinds: tuple[str, ...] = ()
    cdi_folders: tuple[Path, ...] = ()


def device_settings(flags: Mapping[str, Any]) -> DeviceSettings:
    """Return what the flags come to."""
    folder = None if flags["device_plugins_dir"] is None else Path(flags["device_plugins_dir"]).absolute()
    folders = tuple(map(Path, flags["cdi_dirs"]))
    return DeviceSettings(
        folder, flags["device_plugins_gpus"], flags["device_plugins_grace"], tuple(flags["cdi_devices"]), folders
    )


def check_devices(flags: Mapping[str, Any]) -> None:
    """Refuse what cannot work together. Raises BadFlag."""
    folder, gpus = flags["device_plugins_dir"], flags["device_plugins_gpus"]
    if folder is not None and len(str(Path(folder).absolute() / "kubelet.sock").encode()) > _LONGEST_PATH:
        raise BadFlag("device_plugins_dir", f"is too long for the path of a socket in it ({_LONGEST_PATH} bytes)")
    for kind in flags["cdi_devices"]:
        if kind == GPUS:
            raise BadFlag("cdi_devices", f"{GPUS}: tasks ask for GPUs by their number, as gpus, and by no name")
        if kind != EVERY and not is_kind(kind):
            raise BadFlag("cdi_devices", f"'{kind}' is not a kind of CDI devices: vendor.com/class, or {EVERY}")
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
            "device_plugins_gpus", f"'{gpus}' is not a resource of a plugin: DOMAIN/NAME, such as nvidia.com/gpu"
        )
    if "gpu/nvidia" in flags["isolation"]:
        raise BadFlag(
            "device_plugins_gpus",
            "gpus come from plugins or from this agent, not from both: take 'gpu/nvidia' out of --isolation",
        )
