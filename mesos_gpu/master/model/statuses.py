"""TaskStatus documents that the master makes itself: never with a uuid, so nobody acknowledges them."""

from __future__ import annotations

from typing import Any, cast

from mesos_gpu.master.model.documents import Task
from mesos_gpu.master.model.model import Framework
from mesos_gpu.mesos.documents import TaskStatus
from mesos_gpu.mesos.ids import AgentId, ExecutorId, TaskId
from mesos_gpu.mesos.moment import Moment

_REPEATED = ("healthy", "check_status", "container_status")


def made_here(
    framework: Framework,
    state: str,
    now: Moment,
    *,
    task_id: TaskId,
    reason: str,
    message: str,
    agent_id: AgentId | None = None,
    executor_id: ExecutorId | None = None,
    **more: Any,
) -> TaskStatus:
    """Return a v1 TaskStatus of SOURCE_MASTER, its state as `framework` knows states."""
    made: TaskStatus = {
        "task_id": {"value": task_id},
        "state": framework.sees(state),
        "message": message,
        "source": "SOURCE_MASTER",
        "reason": reason,
    }
    # In the order of the message's fields, as Mesos writes them.
    if agent_id is not None:
        made["agent_id"] = {"value": agent_id}
    if executor_id is not None:
        made["executor_id"] = {"value": executor_id}
    made["timestamp"] = now.wall_s
    return cast(TaskStatus, {**made, **more})


def about(
    framework: Framework, task: Task, state: str, now: Moment, *, reason: str, message: str, **more: Any
) -> TaskStatus:
    """Return such a status about a task we know."""
    return made_here(
        framework,
        state,
        now,
        task_id=task.id,
        reason=reason,
        message=message,
        agent_id=task.agent_id,
        executor_id=task.executor_id,
        **more,
    )


def repeated(task: Task) -> dict[str, Any]:
    """Return what of a task's last status each one that is made here repeats: how its checks and its container are."""
    statuses = task.document.get("statuses", ())
    return {key: statuses[-1][key] for key in _REPEATED if statuses and key in statuses[-1]}


def record(task: Task, status: TaskStatus) -> None:
    """Keep a status in the task's history; one of the same state replaces the last, and `data` is not kept."""
    statuses = task.document.setdefault("statuses", [])
    if statuses and statuses[-1]["state"] == status["state"]:
        statuses.pop()
    statuses.append({key: value for key, value in status.items() if key != "data"})
