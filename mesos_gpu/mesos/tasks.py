"""Task states as Mesos names them (mesos.proto, TaskState)."""

from __future__ import annotations

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
    """Tell whether a task in this state has ended for good (TASK_GONE_BY_OPERATOR may come back)."""
    return state in TERMINAL_STATES


def seen_by(state: str, *, partition_aware: bool) -> str:
    """Return the state as a framework with or without PARTITION_AWARE is told it."""
    return "TASK_LOST" if state in PARTITION_STATES and not partition_aware else state
