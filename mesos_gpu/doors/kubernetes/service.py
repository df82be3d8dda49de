"""The program mesos-gpu-device-plugin: the GPUs of this machine's agent for the kubelet beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from mesos_gpu.doors.common.agent import Book, find_agent
from mesos_gpu.kubelet import require_grpc
from mesos_gpu.mesos.flags import Flag
from mesos_gpu.process.program import EXIT_OK, read_flags, run_program, write_ready_file

NAME = "mesos-gpu-device-plugin"
FLAGS: Sequence[Flag] = (
    Flag("agent", "text", None, "The agent's URL; default: what MESOS_GPU_AGENT or /etc/mesos-gpu/doors.json say."),
    Flag(
        "device_plugins_dir", "path", "/var/lib/kubelet/device-plugins", "Folder in which the kubelet has its socket."
    ),
    Flag("resource", "text", "nvidia.com/gpu", "The name under which pods ask for these GPUs."),
    Flag(
        "pod_resources",
        "path",
        "/var/lib/kubelet/pod-resources/kubelet.sock",
        "Socket at which the kubelet tells what pods have: GPUs that none has any more go back to the agent's book.",
    ),
    Flag(
        "pods_cgroup",
        "path",
        None,
        "The cgroup that all pods are in; while a process is in it, what pods have stays lent without this program. "
        "Default: kubepods.slice or kubepods below /sys/fs/cgroup, where it is there.",
    ),
    Flag("interval", "duration", 1.0, "How often the agent's GPUs, pods, and the kubelet's socket are looked at."),
)
CGROUPS = ("kubepods.slice", "kubepods", "devices/kubepods.slice", "devices/kubepods")


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM; return the exit status."""
    flags = read_flags(NAME, FLAGS, argv, prefix="MESOS_GPU_PLUGIN_")

    async def run(stop: asyncio.Event) -> int:
        # gRPC takes its time to import, and may be missing: --help needs none of it.
        require_grpc()
        from mesos_gpu.doors.kubernetes.plugin import GpuPlugin

        plugin = GpuPlugin(
            Book(find_agent(flags["agent"])),
            Path(flags["device_plugins_dir"]),
            resource=flags["resource"],
            pods=Path(flags["pod_resources"]),
            cgroup=flags["pods_cgroup"] or _pods_cgroup(),
            look_s=flags["interval"],
        )
        write_ready_file(flags["ready_file"], {"resource": flags["resource"]})
        await plugin.run(stop)
        return EXIT_OK

    return run_program(NAME, run)


def _pods_cgroup(root: Path = Path("/sys/fs/cgroup")) -> str:
    return next((str(root / name) for name in CGROUPS if (root / name).is_dir()), "")
