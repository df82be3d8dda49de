"""Task states as Mesos names them (mesos.proto, TaskState), and the labels of tasks that our agent heeds."""

from __future__ import annotations

DRIVER_LABEL = "com.nvidia.volumes.needed"
"""With it a task in an image gets the NVIDIA driver's files, whatever its image says (a label of nvidia-docker 1)."""
DRIVER_VALUE = "nvidia_driver"
COMMAND_LABEL, DOCKER_COMMAND = "MESOS_GPU_COMMAND", "docker"
"""With it the arguments of a task in an image without ENTRYPOINT are its program, as for `docker run IMAGE COMMAND`."""
DEVICES_LABEL = "MESOS_GPU_DEVICES"
"""CDI devices that a task asks for, `vendor.com/class=name` with commas between them."""

TERMINAL_STATES = frozenset(
    {
        "TASK_FINISHED",
        "TASK_FAILED",
        "TASK_KILLED",
        "TASK_ERROR",
        "TASK_LOST",
        "TASK_DROPPED",
        "TASK_GONE",
        "TASK_GONE_BY_OPERATOR",
    }
)
# What a framework without PARTITION_AWARE is told as TASK_LOST.
PARTITION_STATES = frozenset({"TASK_DROPPED", "TASK_UNREACHABLE", "TASK_GONE", "TASK_GONE_BY_OPERATOR", "TASK_UNKNOWN"})


def is_terminal(state: str) -> bool:
    """Return whether a task in this state has ended for good (TASK_GONE_BY_OPERATOR may come back)."""
    return state in TERMINAL_STATES


def seen_by(state: str, *, partition_aware: bool) -> str:
    """Return the state as a framework with or without PARTITION_AWARE is told it."""
    return "TASK_LOST" if state in PARTITION_STATES and not partition_aware else state
