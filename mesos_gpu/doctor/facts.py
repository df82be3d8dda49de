"""What is known of one machine, as values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PciGpu:
    """An NVIDIA GPU on the PCI bus. `driver` is the kernel's that has it: nvidia, nouveau, vfio-pci; None for none."""

    address: str
    driver: str | None = None


@dataclass(frozen=True, slots=True)
class Nvml:
    """What NVML answered. `error` is its complaint and `code` the number of that, where it did not start."""

    version: str | None = None
    cuda: str | None = None
    gpus: tuple[tuple[int, str], ...] = ()
    """Minor number and name of each GPU that can be used."""
    error: str | None = None
    code: int | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """A device node: its numbers, None for both where the path is something else, and its mode bits."""

    major: int | None
    minor: int | None
    mode: int


@dataclass(frozen=True, slots=True)
class RunningAgent:
    """An agent that answers: ours, or Mesos' own. `flags` as its /flags shows them, `gpus` what it offers."""

    url: str
    flags: Mapping[str, str] = field(default_factory=dict)
    gpus: float = 0.0
    withdrawn: tuple[str, ...] = ()
    """GPUs that it does not offer for an illness, each with the reason; only ours tells."""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Door:
    """A way by which containers that Mesos did not start get GPUs, or Mesos gets devices of other programs.

    What it gives, where it is, what is wrong, and how that is mended (empty: as the others).
    """

    gives: str
    path: str
    problem: str = ""
    mend: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """One machine. Mappings have None for what was looked for and is not there."""

    root: bool = False
    kernel: str = ""
    gpus: tuple[PciGpu, ...] = ()
    modules: frozenset[str] = frozenset()
    """Loaded modules of the kernel, of those that matter: nvidia, nvidia_uvm, nouveau, overlay."""
    module_version: str | None = None
    """Of the loaded nvidia module."""
    nvml: Nvml = Nvml()
    majors: Mapping[str, int] = field(default_factory=dict)
    """Of /proc/devices' character devices, by name."""
    nodes: Mapping[str, Node | None] = field(default_factory=dict)
    programs: Mapping[str, str | None] = field(default_factory=dict)
    """Where programs lie: crun, runc, conmon, nvidia-modprobe, init, image-init, iptables, portmap."""
    runtime_versions: Mapping[str, str | None] = field(default_factory=dict)
    """What `crun --version` says first; None where it cannot be run."""
    cgroup_version: int | None = None
    """1 where the v1 devices controller is mounted, 2 where only cgroup2 is, None for neither."""
    controllers: frozenset[str] = frozenset()
    overlay: bool = False
    user_namespaces: int | None = None
    """How many the kernel lets there be; None where it has none."""
    ports: Mapping[int, bool] = field(default_factory=dict)
    """Whether each port is free on 127.0.0.1."""
    agents: tuple[RunningAgent, ...] = ()
    container: bool = False
    """Whether this is itself a container."""
    doors: tuple[Door, ...] = ()
