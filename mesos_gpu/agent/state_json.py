"""What the agent's endpoints show, as values; keys and order as recorded of Mesos 1.12 (src/slave/http.cpp)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mesos_gpu.agent import launch
from mesos_gpu.agent.resources import attributes_summary
from mesos_gpu.agent.state import AgentState
from mesos_gpu.agent.tasks import Framework, Phase, Task
from mesos_gpu.mesos.messages import with_defaults
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.resources import Resources

_SHOWN_OF_CONTAINER = ("container_id", "network_infos")


def total_resources(info: Document, kept: Resources) -> Resources:
    """Return the agent's resources with the reservations that the master made on them."""
    return Resources.from_json(info.get("resources", [])) - kept.base() + kept


def used_resources(state: AgentState) -> Resources:
    """Return what running executors and their tasks have, still saying whom it is allocated to."""
    return sum((executor_total(task) for task in state.tasks() if task.phase is not Phase.OVER), Resources())


def executor_total(task: Task) -> Resources:
    """Return what the executor of a task has in all: the task's and its own."""
    return Resources.from_json(task.info.get("resources", [])) + Resources.from_json(
        launch.executor_resources(task.info)
    )


def resources_shown(total: Resources, used: Resources) -> Document:
    """Return the many views of the resources that /state has."""
    allocated = used.unallocated()
    reserved_roles = total.reserved_roles()
    return {
        "resources": total.summary(),
        "reserved_resources": {role: total.reserved(role).summary() for role in reserved_roles},
        "unreserved_resources": total.unreserved().summary(),
        "reserved_resources_full": {role: total.reserved(role).to_json(shown=True) for role in reserved_roles},
        "unreserved_resources_full": total.unreserved().to_json(shown=True),
        "reserved_resources_allocated": {
            role: allocated.reserved(role).summary() for role in allocated.reserved_roles()
        },
        "unreserved_resources_allocated": allocated.unreserved().summary(),
    }


def attributes_shown(info: Document) -> Document:
    """Return the agent's attributes by name."""
    return attributes_summary(list(info.get("attributes", [])))


def frameworks_shown(frameworks: Iterable[Framework]) -> list[Document]:
    """Return frameworks with their executors and tasks."""
    return [_framework(framework) for framework in frameworks]


def executor_line(task: Task) -> Document:
    """Return what names the executor of a task in /containers and /monitor/statistics."""
    return {
        "executor_id": task.executor_id,
        "executor_name": launch.executor_name(task.info),
        "framework_id": task.key.framework,
        "source": task.executor_id,
    }


def _framework(framework: Framework) -> Document:
    info = framework.info
    shown: Document = {
        "id": framework.id,
        "name": info["name"],
        "user": info["user"],
        "failover_timeout": float(info.get("failover_timeout", 0.0)),
        "checkpoint": framework.checkpoint,
        "hostname": info.get("hostname", ""),
    }
    if "principal" in info:
        shown["principal"] = info["principal"]
    if framework.can("MULTI_ROLE"):
        shown["roles"] = info.get("roles", [])
    else:
        shown["role"] = info.get("role", "*")
    # A task that was refused before it had a container has no executor here.
    launched = [task for task in framework.tasks.values() if task.container_id is not None]
    return {
        **shown,
        "executors": [_executor(task) for task in launched],
        "completed_executors": [_executor(task, completed=True) for task in framework.completed],
    }


def _executor(task: Task, *, completed: bool = False) -> Document:
    queued = task.state == "TASK_STAGING"
    resources = Resources.from_json(launch.executor_resources(task.info)) if completed else executor_total(task)
    shown: Document = {
        "id": task.executor_id,
        "name": launch.executor_name(task.info),
        "source": task.executor_id,
        "container": task.container_id,
        "directory": task.sandbox,
        "resources": resources.summary(),
    }
    role = launch.role_of(task.info)
    if role is not None:
        shown["role"] = role
    labels = _labels(task.info)
    if labels is not None:
        shown["labels"] = labels
    tasks = [_task(task)]
    return {
        **shown,
        "tasks": [] if completed or queued else tasks,
        "queued_tasks": tasks if queued and not completed else [],
        "completed_tasks": tasks if completed else [],
    }


def _task(task: Task) -> Document:
    info = task.info
    shown: Document = {
        "id": task.key.task,
        "name": info["name"],
        "framework_id": task.key.framework,
        "executor_id": "" if task.executor_id == task.key.task else task.executor_id,
        "slave_id": info["agent_id"]["value"],
        "state": task.state,
        "resources": Resources.from_json(info.get("resources", [])).summary(),
    }
    role = launch.role_of(info)
    if role is not None:
        shown["role"] = role
    user = (info.get("command") or {}).get("user")
    if user is not None:
        shown["user"] = user
    shown["statuses"] = [_status(status) for status in task.statuses]
    labels = _labels(info)
    if labels is not None:
        shown["labels"] = labels
    return {**shown, **{name: info[name] for name in ("discovery", "container", "health_check") if name in info}}


def _status(status: Mapping[str, object]) -> Document:
    shown: Document = {"state": status["state"], "timestamp": status["timestamp"]}
    if "healthy" in status:
        shown["healthy"] = status["healthy"]
    container = status.get("container_status")
    if isinstance(container, dict):
        seen = {name: container[name] for name in _SHOWN_OF_CONTAINER if name in container}
        shown["container_status"] = with_defaults("mesos.v1.ContainerStatus", seen)
    return shown


def _labels(info: Document) -> list[Document] | None:
    labels = info.get("labels")
    return None if labels is None else list(labels.get("labels", []))
