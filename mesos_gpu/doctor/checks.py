"""What is wrong with a machine, and how to mend it. Pure.

Sources: what the agent of Mesos insists on at start (src/slave/containerizer/mesos/isolators/gpu/isolator.cpp and
allocator.cpp) and ours beside it; device nodes as NVIDIA's nvidia-modprobe makes them; what users of GPU
containers ran into (issues of NVIDIA/nvidia-docker and NVIDIA/nvidia-container-toolkit).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from mesos_gpu.doctor.agent_checks import agent_findings
from mesos_gpu.doctor.facts import Facts
from mesos_gpu.doctor.finding import Finding, Verdict
from mesos_gpu.doctor.fixes import fix_findings

__all__ = ["Finding", "Verdict", "examine"]

OLDEST_DRIVER = (340, 29)
_NVIDIA_MAJOR = 195
_LIBRARY_NOT_FOUND, _DRIVER_NOT_LOADED, _MISMATCH, _NO_PERMISSION = 12, 9, 18, 4
_MODPROBE = "run `nvidia-modprobe -u -c=0` as root (package nvidia-modprobe); at each boot nvidia-persistenced does it"
_FIRST_WITH_DEVICE_PROGRAMS, _FIRST_WITH_REPLACE = (4, 15), (5, 6)
_FIRST_WITH_MAPPED_LAYERS = (5, 19)
"""Linux that takes mapped folders for layers of overlayfs, which images in user namespaces need."""


def examine(facts: Facts) -> list[Finding]:
    """Return one finding for each check, in the order in which problems are best mended."""
    return [finding for check in _CHECKS for finding in check(facts)]


def _root(facts: Facts) -> Iterator[Finding]:
    if facts.root:
        yield Finding("root", Verdict.OK, "this is root")
    else:
        yield Finding(
            "root",
            Verdict.WARNING,
            "this is not root: an agent needs it for cgroups, mounts and device nodes, and some checks see less",
            "run `sudo mesos-gpu doctor`, and agents as root",
        )


def _hardware(facts: Facts) -> Iterator[Finding]:
    if facts.gpus:
        yield Finding("hardware", Verdict.OK, f"{_some(len(facts.gpus), 'NVIDIA GPU')} on the PCI bus")
    elif facts.nvml.gpus:
        yield Finding("hardware", Verdict.OK, f"{_some(len(facts.nvml.gpus), 'NVIDIA GPU')}, by NVML")
    else:
        yield Finding(
            "hardware",
            Verdict.NOTE,
            "no NVIDIA GPU is on the PCI bus",
            "`mesos-gpu up` simulates GPUs here; in a virtual machine, the host has to pass the GPU through",
        )


def _nouveau(facts: Facts) -> Iterator[Finding]:
    held = [gpu.address for gpu in facts.gpus if gpu.driver == "nouveau"]
    mend = (
        "write `blacklist nouveau` and `options nouveau modeset=0` to /etc/modprobe.d/nouveau.conf, then "
        "`update-initramfs -u` (Debian, Ubuntu) or `dracut --force` (Red Hat), and restart the machine"
    )
    if held:
        yield Finding("nouveau", Verdict.PROBLEM, f"the nouveau driver has {', '.join(held)}", mend)
    elif "nouveau" in facts.modules:
        yield Finding("nouveau", Verdict.WARNING, "the nouveau driver is loaded", mend)
    elif facts.gpus:
        yield Finding("nouveau", Verdict.OK, "not loaded")
    away = [f"{gpu.address} ({gpu.driver})" for gpu in facts.gpus if gpu.driver not in (None, "nvidia", "nouveau")]
    if away:
        yield Finding(
            "passed through",
            Verdict.WARNING,
            f"another driver has {', '.join(away)}: they cannot be used here",
            "take them out of the configuration that binds them, usually vfio-pci.ids on the kernel's command line",
        )


def _driver(facts: Facts) -> Iterator[Finding]:
    version = facts.module_version or facts.nvml.version
    if version is None:
        if facts.gpus:
            yield Finding(
                "driver",
                Verdict.PROBLEM,
                "the NVIDIA driver is not loaded" if "nvidia" not in facts.modules else "the driver tells no version",
                f"install NVIDIA's driver, {_dotted(OLDEST_DRIVER)} or later, then `modprobe nvidia`; where it is "
                "installed, `dmesg | grep -i nvidia` tells why it did not load (often Secure Boot: sign the module)",
            )
        return
    number = _version(version)
    if number is None or number < OLDEST_DRIVER:
        yield Finding(
            "driver",
            Verdict.PROBLEM,
            f"the driver is {version}; {_dotted(OLDEST_DRIVER)} is the oldest that serves",
            "install a newer driver of NVIDIA's",
        )
    elif facts.nvml.version and facts.module_version and facts.nvml.version != facts.module_version:
        yield Finding(
            "driver",
            Verdict.PROBLEM,
            f"the loaded driver is {facts.module_version}, its library {facts.nvml.version}",
            "restart the machine (the driver was upgraded while it was loaded)",
        )
    else:
        cuda = f", for CUDA up to {facts.nvml.cuda}" if facts.nvml.cuda else ""
        yield Finding("driver", Verdict.OK, f"{version}{cuda}")


def _nvml(facts: Facts) -> Iterator[Finding]:
    nvml = facts.nvml
    if nvml.error is None and nvml.version is not None:
        total = max(len(nvml.gpus), sum(gpu.driver == "nvidia" for gpu in facts.gpus))
        if len(nvml.gpus) < total:
            yield Finding(
                "NVML",
                Verdict.WARNING,
                f"{len(nvml.gpus)} of {total} GPUs can be used",
                "`nvidia-smi` and `dmesg | grep -i xid` tell which is lost; MIG mode needs --mig_strategy=single",
            )
        else:
            names = ", ".join(sorted({name for _, name in nvml.gpus}))
            yield Finding("NVML", Verdict.OK, f"{_some(total, 'GPU')}: {names}" if total else "it answers; no GPU")
        return
    if not facts.gpus and "nvidia" not in facts.modules and nvml.code in (None, _LIBRARY_NOT_FOUND, _DRIVER_NOT_LOADED):
        yield Finding("NVML", Verdict.NOTE, "not there, nor is a GPU")
        return
    mends = {
        _LIBRARY_NOT_FOUND: "install libnvidia-ml.so.1 (package libnvidia-compute-VERSION, or nvidia-driver-libs), of "
        "the driver's own version, and run `ldconfig`",
        _DRIVER_NOT_LOADED: "`modprobe nvidia`; `dmesg | grep -i nvidia` tells why it is not loaded",
        _MISMATCH: "restart the machine: the driver was upgraded while it was loaded",
        _NO_PERMISSION: "run this as root, or make /dev/nvidiactl readable and writable",
    }
    mend = mends.get(nvml.code or 0, "`nvidia-smi` should say the same; `dmesg | grep -i nvidia` may say more")
    yield Finding("NVML", Verdict.PROBLEM, nvml.error or "it does not answer", mend)


def _nodes(facts: Facts) -> Iterator[Finding]:
    if not _driver_is_here(facts):
        return
    wanted: list[tuple[str, int | None, int | None]] = [("/dev/nvidiactl", _NVIDIA_MAJOR, 255)]
    wanted.append(("/dev/nvidia-uvm", facts.majors.get("nvidia-uvm"), 0))
    wanted += [(f"/dev/nvidia{minor}", _NVIDIA_MAJOR, minor) for minor, _ in facts.nvml.gpus]
    bad = False
    for path, major, minor in dict.fromkeys(wanted):
        node = facts.nodes.get(path)
        if node is None:
            yield Finding(path, Verdict.PROBLEM, "it is not there", _MODPROBE)
        elif node.major is None:
            yield Finding(path, Verdict.PROBLEM, "it is not a device node", f"remove {path}, then {_MODPROBE}")
        elif (major is not None and node.major != major) or (minor is not None and node.minor != minor):
            yield Finding(
                path,
                Verdict.PROBLEM,
                f"its number is {node.major}:{node.minor}, and {major}:{minor} is the driver's",
                f"remove {path}, then {_MODPROBE}",
            )
        elif node.mode & 0o006 != 0o006:
            yield Finding(
                path,
                Verdict.WARNING,
                f"its mode is {node.mode & 0o777:04o}: tasks of other users than its owner cannot open it",
                "leave NVreg_DeviceFileMode at 0666 (/etc/modprobe.d), and run tasks as a user who may",
            )
        else:
            continue
        bad = True
    if "nvidia-uvm" not in facts.majors:
        yield Finding("nvidia-uvm", Verdict.PROBLEM, "the module is not loaded, and CUDA needs it", _MODPROBE)
    elif not bad:
        yield Finding("device nodes", Verdict.OK, f"nvidiactl, nvidia-uvm, and {_some(len(facts.nvml.gpus), 'GPU')}")


def _cgroups(facts: Facts) -> Iterator[Finding]:
    if facts.cgroup_version is None:
        yield Finding(
            "cgroups",
            Verdict.PROBLEM,
            "neither the v1 devices controller nor cgroup2 is mounted",
            "mount -t cgroup2 none /sys/fs/cgroup; systemd does it by itself"
            + (" (in a container, run it privileged)" if facts.container else ""),
        )
        return
    kernel = _version(facts.kernel)
    if facts.cgroup_version == 2 and kernel is not None and kernel < _FIRST_WITH_DEVICE_PROGRAMS:
        yield Finding(
            "cgroups",
            Verdict.PROBLEM,
            f"cgroup v2 without device programs: the kernel is {facts.kernel}",
            f"use Linux {_dotted(_FIRST_WITH_DEVICE_PROGRAMS)} or later, or cgroup v1",
        )
        return
    missing = sorted({"cpu", "memory"} - facts.controllers)
    if missing:
        where = "systemd.unified_cgroup_hierarchy" if facts.cgroup_version == 1 else "cgroup.subtree_control"
        yield Finding(
            "cgroups",
            Verdict.WARNING,
            f"v{facts.cgroup_version} cannot limit {' and '.join(missing)}: containers are not kept to theirs",
            f"enable the controllers ({where}; on some boards cgroup_enable=memory on the kernel's command line)",
        )
        return
    if facts.cgroup_version == 2 and kernel is not None and kernel < _FIRST_WITH_REPLACE:
        text = (
            f"v2; Linux {facts.kernel} cannot exchange a device program in place, so a change of GPUs takes two steps"
        )
        yield Finding("cgroups", Verdict.NOTE, text)
        return
    yield Finding("cgroups", Verdict.OK, f"v{facts.cgroup_version}, with cpu, memory and devices")


def _programs(facts: Facts) -> Iterator[Finding]:
    found = [name for name in ("crun", "runc") if facts.runtime_versions.get(name)]
    broken = [name for name in ("crun", "runc") if facts.programs.get(name) and name not in found]
    if found:
        yield Finding("OCI runtime", Verdict.OK, f"{facts.runtime_versions[found[0]]}")
    else:
        said = f"{' and '.join(broken)} cannot be run" if broken else "neither crun nor runc is installed"
        yield Finding("OCI runtime", Verdict.PROBLEM, said, "apt install crun, or dnf install crun")
    if facts.programs.get("conmon"):
        yield Finding("conmon", Verdict.OK, str(facts.programs["conmon"]))
    else:
        yield Finding("conmon", Verdict.PROBLEM, "it is not installed", "apt install conmon, or dnf install conmon")
    if not facts.programs.get("init"):
        yield Finding("init", Verdict.PROBLEM, "no small init for containers", "apt install tini, or dnf install tini")
    elif not facts.programs.get("image-init"):
        yield Finding(
            "init",
            Verdict.WARNING,
            "no statically linked init: tasks in images cannot run",
            "apt install tini (it has tini-static), or dnf install tini-static",
        )
    else:
        yield Finding("init", Verdict.OK, str(facts.programs["init"]))
    if facts.overlay:
        yield Finding("overlayfs", Verdict.OK, "the kernel has it")
    else:
        yield Finding(
            "overlayfs", Verdict.WARNING, "the kernel does not list it: tasks in images cannot run", "modprobe overlay"
        )


def _user_namespaces(facts: Facts) -> Iterator[Finding]:
    """Whether an agent may have --userns_remap here: nothing needs it."""
    kernel, lacks = _version(facts.kernel), ""
    if not facts.user_namespaces:
        lacks = "the kernel gives none (user.max_user_namespaces)"
    elif kernel is not None and kernel < _FIRST_WITH_MAPPED_LAYERS:
        lacks = f"Linux {facts.kernel} cannot map owners of an image's files, which takes 5.19"
    elif not facts.programs.get("unshare"):
        lacks = "the program unshare is missing (package util-linux)"
    if lacks:
        found = f"agents here cannot have --userns_remap: {lacks}"
        yield Finding("user namespaces", Verdict.NOTE, found, "root in containers is the host's, less what it may do")
    else:
        yield Finding("user namespaces", Verdict.OK, "agents here may have --userns_remap")


def _ports(facts: Facts) -> Iterator[Finding]:
    # An agent that answers has its port for a good reason.
    ours = {int(match[1]) for agent in facts.agents if (match := re.search(r":(\d+)$", agent.url))}
    taken = [port for port, free in facts.ports.items() if not free and port not in ours]
    if taken:
        listed = ", ".join(str(port) for port in taken)
        yield Finding(
            "ports",
            Verdict.NOTE if facts.agents else Verdict.WARNING,
            f"{listed} on 127.0.0.1 {'is' if len(taken) == 1 else 'are'} in use",
            "`ss -ltnp` tells by whom; `mesos-gpu up` takes others by --master_port, --agent_port, --marathon_port",
        )
    elif facts.ports:
        yield Finding("ports", Verdict.OK, f"{', '.join(str(port) for port in facts.ports)} are free, or our agent's")


def _agents(facts: Facts) -> Iterator[Finding]:
    for agent in facts.agents:
        yield from agent_findings(agent, len(facts.nvml.gpus) if facts.nvml.version else None)


def _networks(facts: Facts) -> Iterator[Finding]:
    packages = {"portmap": "containernetworking-plugins", "iptables": "iptables"}
    missing = [package for program, package in packages.items() if not facts.programs.get(program)]
    if missing:
        text = "tasks have the machine's network; those that ask for another (container/bridge) fail"
        yield Finding("container networks", Verdict.NOTE, text, f"apt install {' '.join(missing)}, or dnf install them")
    else:
        yield Finding("container networks", Verdict.OK, f"by CNI plugins, such as {facts.programs['portmap']}")


def _doors(facts: Facts) -> Iterator[Finding]:
    for door in facts.doors:
        if door.problem:
            usual = "mesos-gpu door install, or --cdi_spec_dir of the agent, sets it up again; see docs/do/doors.md"
            mend = door.mend or usual
            yield Finding("door", Verdict.PROBLEM, f"{door.gives} ({door.path}): {door.problem}", mend)
        else:
            yield Finding("door", Verdict.OK, f"{door.gives} ({door.path})")


_CHECKS: Sequence[Callable[[Facts], Iterator[Finding]]] = (
    _root,
    _hardware,
    _nouveau,
    _driver,
    _nvml,
    _nodes,
    _cgroups,
    _programs,
    fix_findings,
    _user_namespaces,
    _networks,
    _ports,
    _agents,
    _doors,
)


def _driver_is_here(facts: Facts) -> bool:
    return facts.module_version is not None or facts.nvml.version is not None or "nvidia" in facts.modules


def _version(text: str) -> tuple[int, int] | None:
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _some(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
