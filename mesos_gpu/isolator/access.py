"""Which devices a container may open: nodes to rules, the same for cgroup v1 and v2. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from mesos_gpu.gpu.device import NVIDIA_MAJOR, DeviceNode, Gpu
from mesos_gpu.isolator.plan import DeviceRule

_ALL = "rwm"

BASE_RULES: tuple[DeviceRule, ...] = (
    # Any node may be made (by who has CAP_MKNOD), none of them thereby opened.
    DeviceRule("c", None, None, "m"),
    DeviceRule("b", None, None, "m"),
    DeviceRule("c", 136, None, _ALL),  # pts/*
    DeviceRule("c", 5, 2, _ALL),  # ptmx
    DeviceRule("c", 10, 200, _ALL),  # net/tun
    DeviceRule("c", 1, 3, _ALL),  # null
    DeviceRule("c", 1, 5, _ALL),  # zero
    DeviceRule("c", 1, 7, _ALL),  # full
    DeviceRule("c", 5, 0, _ALL),  # tty
    DeviceRule("c", 1, 9, _ALL),  # urandom
    DeviceRule("c", 1, 8, _ALL),  # random
)
"""What every container may do with devices, after everything was denied.

Source: Mesos src/slave/containerizer/mesos/isolators/cgroups/subsystems/devices.cpp,
DEFAULT_WHITELIST_ENTRIES; without /dev/console, tty0 and tty1, the machine's own screen and keyboard: who has
CAP_MKNOD, as root in a container has, could read and write them.
"""


def gpu_node(gpu: Gpu) -> DeviceNode:
    """Return the node of a GPU as its container sees it: under its minor number, as libcuda looks for it."""
    return DeviceNode(f"/dev/nvidia{gpu.minor}", NVIDIA_MAJOR, gpu.minor)


def gpu_names(gpus: Iterable[Gpu]) -> str:
    """Return GPUs as Mesos prints them: device numbers, lowest first."""
    return ", ".join(f"{NVIDIA_MAJOR}.{gpu.minor}" for gpu in sorted(gpus))


def gpu_nodes(gpus: Iterable[Gpu]) -> tuple[DeviceNode, ...]:
    """Return what opens these GPUs, each node once: two MIG instances may share the node of their GPU."""
    nodes: dict[DeviceNode, None] = {}
    for gpu in gpus:
        nodes[gpu_node(gpu)] = None
        if gpu.mig is not None:
            nodes.update(dict.fromkeys(gpu.mig.nodes))
    return tuple(nodes)


def own_nodes(gpu: Gpu) -> tuple[DeviceNode, ...]:
    """Return the nodes that only users of this GPU have open: not those that MIG instances share."""
    return gpu_nodes([gpu]) if gpu.mig is None else gpu.mig.nodes


def rule_for(node: DeviceNode) -> DeviceRule:
    """Return the rule that lets a container make, read and write `node`, and no other device."""
    return DeviceRule("c", node.major, node.minor, _ALL)
