"""How device plugins and CDI devices are used, from the flags."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from mesos_gpu.agent.flags import AgentFlags
from mesos_gpu.agent.model.cdi_names import EVERY, GPUS
from mesos_gpu.agent.model.device_units import is_units
from mesos_gpu.cdi.applying import is_kind
from mesos_gpu.errors import BadFlag

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


def device_settings(flags: AgentFlags) -> DeviceSettings:
    """Return what the flags come to."""
    folder = None if flags.device_plugins_dir is None else Path(flags.device_plugins_dir).absolute()
    folders = tuple(map(Path, flags.cdi_dirs))
    return DeviceSettings(folder, flags.device_plugins_gpus, flags.device_plugins_grace, flags.cdi_devices, folders)


def check_devices(flags: AgentFlags) -> None:
    """Refuse what cannot work together. Raises BadFlag."""
    folder, gpus = flags.device_plugins_dir, flags.device_plugins_gpus
    if folder is not None and len(str(Path(folder).absolute() / "kubelet.sock").encode()) > _LONGEST_PATH:
        raise BadFlag("device_plugins_dir", f"is too long for the path of a socket in it ({_LONGEST_PATH} bytes)")
    for kind in flags.cdi_devices:
        if kind == GPUS:
            raise BadFlag("cdi_devices", f"{GPUS}: tasks ask for GPUs by their number, as gpus, and by no name")
        if kind != EVERY and not is_kind(kind):
            raise BadFlag("cdi_devices", f"'{kind}' is not a kind of CDI devices: vendor.com/class, or {EVERY}")
    pods = flags.pod_resources_socket
    if pods is not None and len(str(Path(pods).absolute()).encode()) > _LONGEST_PATH:
        raise BadFlag("pod_resources_socket", f"is too long for the path of a socket ({_LONGEST_PATH} bytes)")
    if gpus is None:
        return
    if folder is None:
        raise BadFlag("device_plugins_gpus", "needs --device_plugins_dir")
    if not is_units(gpus):
        raise BadFlag(
            "device_plugins_gpus", f"'{gpus}' is not a resource of a plugin: DOMAIN/NAME, such as nvidia.com/gpu"
        )
    if "gpu/nvidia" in flags.isolation:
        raise BadFlag(
            "device_plugins_gpus",
            "gpus come from plugins or from this agent, not from both: take 'gpu/nvidia' out of --isolation",
        )
