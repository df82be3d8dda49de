"""How the default executor tells its agent about a task. Pure."""

from __future__ import annotations

from typing import Any, cast

from mesos_gpu.executor.decisions import events as ev
from mesos_gpu.executor.decisions.events import Action
from mesos_gpu.executor.decisions.state import Container, ExecutorState
from mesos_gpu.mesos.checks import empty_status
from mesos_gpu.mesos.documents import TaskStatus
from mesos_gpu.mesos.moment import Moment


def report(state: ExecutorState, container: Container, task_state: str, at: Moment, **extra: Any) -> list[Action]:
    """Tell how a task is; what the agent does not acknowledge is told again when it is back."""
    container.state = task_state
    running = task_state == "TASK_RUNNING"
    made: TaskStatus = {
        "task_id": container.task["task_id"],
        "state": task_state,
        "source": "SOURCE_EXECUTOR",
        "executor_id": (state.agent.info.get("executor_info") or {})["executor_id"],
        "uuid": state.new_uuid(),
        "timestamp": at.wall_s,
        "container_status": {"container_id": state.nested_id(container.container_id)},
    }
    if container.task.get("check"):
        known = container.check_status if running else None
        made["check_status"] = known or empty_status(container.task["check"])
    if running and container.healthy is not None:
        made["healthy"] = container.healthy
    status = cast(TaskStatus, {**made, **extra})
    state.unacknowledged.updates[status["uuid"]] = {"status": status}
    return [ev.Update(status)] if state.agent.connected else []
