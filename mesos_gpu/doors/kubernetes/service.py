"""The program mesos-gpu-device-plugin: the GPUs of this machine's agent for the kubelet beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from mesos_gpu.doors.common.agent import Book, find_agent
from mesos_gpu.kubelet import require_grpc
from mesos_gpu.mesos.flags import CommandLine, Duration, PathText, ProgramFlags, flag
from mesos_gpu.process.program import EXIT_OK, read_flags, run_program, write_ready_file

CGROUPS = ("kubepods.slice", "kubepods", "devices/kubepods.slice", "devices/kubepods")


class PluginFlags(ProgramFlags):
    """The flags of mesos-gpu-device-plugin."""

    agent: str | None = flag(None, "The agent's URL; default: what MESOS_GPU_AGENT or /etc/mesos-gpu/doors.json say.")
    device_plugins_dir: PathText = flag(
        "/var/lib/kubelet/device-plugins", "Folder in which the kubelet has its socket."
    )
    resource: str = flag("nvidia.com/gpu", "The name under which pods ask for these GPUs.")
    pod_resources: PathText = flag(
        "/var/lib/kubelet/pod-resources/kubelet.sock",
        "Socket at which the kubelet tells what pods have: GPUs that none has any more go back to the agent's book.",
    )
    pods_cgroup: PathText | None = flag(
        None,
        "The cgroup that all pods are in; while a process is in it, what pods have stays lent without this program. "
        "Default: kubepods.slice or kubepods below /sys/fs/cgroup, where it is there.",
    )
    interval: Duration = flag(1.0, "How often the agent's GPUs, pods, and the kubelet's socket are looked at.", above=0)


COMMAND_LINE = CommandLine("mesos-gpu-device-plugin", "MESOS_GPU_PLUGIN_", PluginFlags)


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM; return the exit status."""
    flags, _ = read_flags(COMMAND_LINE, argv)

    async def run(stop: asyncio.Event) -> int:
        # gRPC takes its time to import, and may be missing: --help needs none of it.
        require_grpc()
        from mesos_gpu.doors.kubernetes.plugin import GpuPlugin

        plugin = GpuPlugin(
            Book(find_agent(flags.agent)),
            Path(flags.device_plugins_dir),
            resource=flags.resource,
            pods=Path(flags.pod_resources),
            cgroup=flags.pods_cgroup or _pods_cgroup(),
            look_s=flags.interval,
        )
        write_ready_file(flags.ready_file, {"resource": flags.resource})
        await plugin.run(stop)
        return EXIT_OK

    return run_program(COMMAND_LINE.program, run, max_log_bytes=flags.max_log_size)


def _pods_cgroup(root: Path = Path("/sys/fs/cgroup")) -> str:
    return next((str(root / name) for name in CGROUPS if (root / name).is_dir()), "")
