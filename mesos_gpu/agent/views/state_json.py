"""What the agent's endpoints show, as values; keys and order as recorded of Mesos 1.12 (src/slave/http.cpp)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from mesos_gpu.agent.decisions.permissions import sees_run, sees_task
from mesos_gpu.agent.decisions.state import AgentState
from mesos_gpu.agent.launching import launch
from mesos_gpu.agent.model.executors import Executor
from mesos_gpu.agent.model.frameworks import Framework
from mesos_gpu.agent.model.resources import attributes_summary
from mesos_gpu.agent.model.tasks import Phase, Task
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.messages import with_defaults
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.security.secrets import without_secrets
from mesos_gpu.mesos.security.viewing import EVERYBODY, Viewer

_SHOWN_OF_CONTAINER = ("container_id", "network_infos")


def total_resources(info: Document, kept: Resources) -> Resources:
    """Return the agent's resources with the reservations that the master made on them."""
    return Resources.from_json(info.get("resources", [])) - kept.base() + kept


def used_resources(state: AgentState) -> Resources:
    """Return what running executors and their tasks have, still saying whom it is allocated to."""
    executors = (executor for executor in state.frameworks.executors() if not executor.over)
    tasks = (task for task in state.frameworks.tasks() if task.phase is not Phase.OVER)
    own = (Resources.from_json(executor.info.get("resources", [])) for executor in executors)
    return sum(map(executor_total, tasks), sum(own, Resources()))


def used_by(state: AgentState, containers: Collection[ContainerId]) -> Resources:
    """Return what the tasks and executors of these containers have."""
    owners: list[Task | Executor] = [*state.frameworks.tasks(), *state.frameworks.executors()]
    return had_by([owner for owner in owners if owner.container_id in containers])


def had_by(owners: Iterable[Task | Executor]) -> Resources:
    """Return what these tasks and executors have."""
    return sum((Resources.from_json(owner.info.get("resources", [])) for owner in owners), Resources())


def executor_total(task: Task) -> Resources:
    """Return what a task has, and the agent's own executor of it."""
    own = [] if task.hosted else launch.executor_resources(task.info)
    return Resources.from_json(task.info.get("resources", [])) + Resources.from_json(own)


def resources_shown(total: Resources, used: Resources, viewer: Viewer = EVERYBODY) -> Document:
    """Return the many views of the resources that /state has, without those of roles that `viewer` may not see."""
    allocated = used.unallocated()
    reserved_roles = tuple(filter(viewer.role, total.reserved_roles()))
    return {
        "resources": total.summary(),
        "reserved_resources": {role: total.reserved(role).summary() for role in reserved_roles},
        "unreserved_resources": total.unreserved().summary(),
        "reserved_resources_full": {role: total.reserved(role).to_json(shown=True) for role in reserved_roles},
        "unreserved_resources_full": total.unreserved().to_json(shown=True),
        "reserved_resources_allocated": {
            role: allocated.reserved(role).summary() for role in filter(viewer.role, allocated.reserved_roles())
        },
        "unreserved_resources_allocated": allocated.unreserved().summary(),
    }


def attributes_shown(info: Document) -> Document:
    """Return the agent's attributes by name."""
    return attributes_summary(list(info.get("attributes", [])))


def frameworks_shown(frameworks: Iterable[Framework], viewer: Viewer = EVERYBODY) -> list[Document]:
    """Return frameworks with their executors and tasks, as far as `viewer` may see them."""
    return [_framework(framework, viewer) for framework in frameworks if viewer.framework(framework.info)]


def executor_line(task: Task | Executor) -> Document:
    """Return what names an executor, the agent's own of a task or a framework's, in /containers and statistics."""
    if isinstance(task, Executor):
        return {
            "executor_id": task.key.executor,
            "executor_name": task.info.get("name", ""),
            "framework_id": task.key.framework,
            "source": task.info.get("source", ""),
        }
    return {
        "executor_id": task.executor_id,
        "executor_name": launch.executor_name(task.info),
        "framework_id": task.key.framework,
        "source": task.executor_id,
    }


def _framework(framework: Framework, viewer: Viewer) -> Document:
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
    launched = [task for task in framework.tasks.values() if task.container_id is not None and not task.hosted]
    here: list[Task | Executor] = [*launched, *framework.executors.values()]
    runs = [run for run in here if sees_run(viewer, framework, run)]
    past = [run for run in framework.completed if sees_run(viewer, framework, run)]

    def sees(task: Task) -> bool:
        return sees_task(viewer, framework, task)

    return {
        **shown,
        "executors": [
            _host(run, framework.hosted_by(run), sees) if isinstance(run, Executor) else _executor(run, sees)
            for run in runs
        ],
        "completed_executors": [
            _host(run, [], sees) if isinstance(run, Executor) else _executor(run, sees, completed=True) for run in past
        ],
    }


def _host(executor: Executor, tasks: Sequence[Task], sees: Callable[[Task], bool]) -> Document:
    """Return a framework's own executor; what it has shrinks to its own when its tasks are over."""
    info = executor.info
    live = [task for task in tasks if task.phase is not Phase.OVER]
    resources = sum(map(executor_total, live), Resources.from_json(info.get("resources", [])))
    shown: Document = {
        "id": executor.key.executor,
        "name": info.get("name", ""),
        "source": info.get("source", ""),
        "container": executor.container_id,
        "directory": executor.sandbox,
        "resources": resources.summary(),
    }
    role = next(filter(None, (launch.role_of(one) for one in (info, *(task.info for task in tasks)))), None)
    if role is not None:
        shown["role"] = role
    shown["type"] = executor.kind
    labels = _labels(info)
    if labels is not None:
        shown["labels"] = labels
    queued = {task_id for parcel in executor.queue for task_id in parcel.tasks}
    return {
        **shown,
        "tasks": [_task(task) for task in tasks if task.key.task not in queued and sees(task)],
        "queued_tasks": [_task(task) for task in tasks if task.key.task in queued and sees(task)],
        "completed_tasks": [_task(task) for task in executor.completed if sees(task)],
    }


def _executor(task: Task, sees: Callable[[Task], bool], *, completed: bool = False) -> Document:
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
    tasks = [_task(task)] if sees(task) else []
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
        "executor_id": task.executor_id if task.hosted else "",
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
    named = (name for name in ("discovery", "container", "health_check") if name in info)
    return {**shown, **{name: without_secrets(info[name]) for name in named}}


def _status(status: Mapping[str, object]) -> Document:
    shown: Document = {"state": status["state"], "timestamp": status["timestamp"]}
    if "healthy" in status:
        shown["healthy"] = status["healthy"]
    container = status.get("container_status")
    if isinstance(container, dict):
        seen = {name: container[name] for name in _SHOWN_OF_CONTAINER if name in container}
        shown["container_status"] = with_defaults("mesos.v1.ContainerStatus", seen)
    return shown


def _labels(info: Mapping[str, Any]) -> list[Document] | None:
    labels = info.get("labels")
    return None if labels is None else list(labels.get("labels", []))
