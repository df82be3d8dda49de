"""Gathers the facts about this machine; reads only, and starts nothing but `crun --version`."""

from __future__ import annotations

import os
import platform
import re
import socket
import stat
import subprocess
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path

from mesos_gpu.container.host.runtime import find_conmon, find_image_init, find_init, find_program
from mesos_gpu.doctor.doors import find_doors
from mesos_gpu.doctor.facts import Facts, Node, Nvml, PciGpu, RunningAgent
from mesos_gpu.doctor.kubernetes_doors import kubernetes_doors
from mesos_gpu.errors import DeviceError, Unavailable
from mesos_gpu.gpu.binding import code_of
from mesos_gpu.gpu.numbers import character_majors

PORTS = (5050, 5051, 8080)
"""Of a master, an agent and a Marathon, where flags do not say otherwise."""

CNI_FOLDERS = ("/usr/lib/cni", "/usr/libexec/cni", "/opt/cni/bin")
"""Where the plugins of container networks lie, of which portmap is one; a box looks there."""

_NVIDIA_VENDOR = "0x10de"
_DISPLAY_CLASSES = ("0x0300", "0x0302", "0x0380")
"""VGA controller, 3D controller, other display controller (PCI code and ID assignment specification)."""

_MODULES = frozenset({"nvidia", "nvidia_uvm", "nouveau", "overlay"})
_VERSION_S = 10.0
_MIXED = re.compile(r"\b(\d+\.\d+(?:\.\d+)?)\b")


def gather(
    *,
    agents: Sequence[RunningAgent] = (),
    root: Path = Path("/"),
    open_nvml: Callable[[], Nvml] | None = None,
    ports: Iterable[int] = PORTS,
) -> Facts:
    """Return what there is to know. `root` is where /proc, /sys and /dev are looked for; what is not there is not."""
    nvml = (open_nvml or ask_nvml)()
    version, controllers = _cgroups(root)
    programs = _programs()
    return Facts(
        root=os.geteuid() == 0,
        kernel=platform.release(),
        gpus=tuple(_pci_gpus(root)),
        modules=_modules(root),
        module_version=_module_version(root),
        nvml=nvml,
        majors=character_majors(_text(root / "proc/devices")),
        nodes=_nodes(root, nvml),
        programs=programs,
        runtime_versions={name: _first_line(programs[name]) for name in ("crun", "runc")},
        cgroup_version=version,
        controllers=controllers,
        overlay="overlay" in _text(root / "proc/filesystems").split(),
        user_namespaces=_number(root / "proc/sys/user/max_user_namespaces"),
        ports={port: _is_free(port) for port in ports},
        agents=tuple(agents),
        doors=(*find_doors(root), *kubernetes_doors(agents, root)),
        container=(root / ".dockerenv").exists() or (root / "run/.containerenv").exists(),
    )


def ask_nvml() -> Nvml:
    """Return what NVML says, or why it does not."""
    from mesos_gpu.gpu.nvml import NvmlDriver

    try:
        driver = NvmlDriver(mig_instances=True, load_uvm=lambda: None)
    except DeviceError as error:
        code = code_of(error.__cause__) if error.__cause__ is not None else None
        return Nvml(error=str(error), code=code)
    with closing(driver):
        try:
            gpus = tuple((gpu.minor, gpu.name) for gpu in driver.gpus())
        except DeviceError as error:
            return Nvml(driver.version, driver.cuda_version, error=str(error))
        return Nvml(driver.version, driver.cuda_version, tuple(dict.fromkeys(gpus)))


def _pci_gpus(root: Path) -> Iterable[PciGpu]:
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        if _text(device / "vendor").strip() != _NVIDIA_VENDOR:
            continue
        if _text(device / "class").strip()[:6] in _DISPLAY_CLASSES:
            driver = device / "driver"
            yield PciGpu(device.name, driver.resolve().name if driver.exists() else None)


def _modules(root: Path) -> frozenset[str]:
    loaded = {line.partition(" ")[0] for line in _text(root / "proc/modules").splitlines()}
    return frozenset(loaded & _MODULES)


def _module_version(root: Path) -> str | None:
    text = _text(root / "sys/module/nvidia/version").strip()
    if text:
        return text
    # `NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 ...`
    line = next((line for line in _text(root / "proc/driver/nvidia/version").splitlines() if "NVRM" in line), "")
    found = _MIXED.search(line)
    return found[1] if found else None


def _nodes(root: Path, nvml: Nvml) -> dict[str, Node | None]:
    names = ["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", *(f"nvidia{minor}" for minor, _ in nvml.gpus)]
    return {f"/dev/{name}": _node(root / "dev" / name) for name in names}


def _node(path: Path) -> Node | None:
    try:
        found = path.stat()
    except OSError:
        return None
    if not stat.S_ISCHR(found.st_mode):
        return Node(None, None, found.st_mode)
    return Node(os.major(found.st_rdev), os.minor(found.st_rdev), found.st_mode)


def _cgroups(root: Path) -> tuple[int | None, frozenset[str]]:
    """Return the version whose device rules count here, and the controllers there are."""
    unified: Path | None = None
    v1: set[str] = set()
    for line in _text(root / "proc/mounts").splitlines():
        fields = line.split()
        if len(fields) < 4:
            continue
        if fields[2] == "cgroup":
            v1.update(fields[3].split(","))
        elif fields[2] == "cgroup2":
            unified = unified or Path(fields[1])
    if "devices" in v1:
        return 1, frozenset(v1 & {"cpu", "memory", "devices"})
    if unified is None:
        return None, frozenset()
    controllers = _text(root / unified.relative_to("/") / "cgroup.controllers").split()
    return 2, frozenset(controllers) & {"cpu", "memory"}


def _programs() -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for name in ("crun", "runc", "nvidia-modprobe", "iptables", "unshare"):
        path = find_program(name)
        found[name] = None if path is None else str(path)
    for name, find in (("init", find_init), ("image-init", find_image_init)):
        try:
            found[name] = find()[0]
        except Unavailable:
            found[name] = None
    try:
        found["conmon"] = str(find_conmon())
    except Unavailable:
        found["conmon"] = None
    portmap = (Path(folder) / "portmap" for folder in CNI_FOLDERS)
    found["portmap"] = next((str(path) for path in portmap if path.is_file()), None)
    return found


def _first_line(program: str | None) -> str | None:
    if program is None:
        return None
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=_VERSION_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return next((line.strip() for line in done.stdout.splitlines() if line.strip()), None)


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdecimal() else None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
