"""What the agent's v1 API answers to GET_* calls, as values; keys as recorded of Mesos 1.12 (src/slave/http.cpp)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mesos_gpu.agent.decisions.permissions import sees_run, sees_task
from mesos_gpu.agent.decisions.state import AgentState
from mesos_gpu.agent.launching import launch
from mesos_gpu.agent.model.executors import Executor
from mesos_gpu.agent.model.frameworks import Framework
from mesos_gpu.agent.model.tasks import Phase, Task
from mesos_gpu.mesos.ids import AgentId, FrameworkId
from mesos_gpu.mesos.messages import normalize, with_defaults
from mesos_gpu.mesos.resource import Document, Resource
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.security.viewing import EVERYBODY, Viewer

COMMAND_EXECUTOR = "mesos-executor"
_OF_OPERATIONS = ("resources", "source", "volumes", "volume", "addition")
"""Fields of an operation that hold Resources."""


def get_tasks(state: AgentState, viewer: Viewer = EVERYBODY) -> Document:
    """Return the answer to GET_TASKS, as far as `viewer` may see it."""
    shown: dict[str, list[Document]] = {
        name: [] for name in ("pending_tasks", "queued_tasks", "launched_tasks", "terminated_tasks", "completed_tasks")
    }
    for framework in seen(state.frameworks.active, viewer):
        for task in framework.tasks.values():
            host = framework.executors.get(task.executor_id) if task.hosted else None
            if sees_run(viewer, framework, host or task) and sees_task(viewer, framework, task):
                shown[_standing(task)].append(_task(task))
    for framework in (*seen(state.frameworks.active, viewer), *seen(state.frameworks.completed, viewer)):
        for run in (*framework.executors.values(), *framework.completed):
            if sees_run(viewer, framework, run):
                over = run.completed if isinstance(run, Executor) else [run]
                shown["completed_tasks"] += [_task(task) for task in over if sees_task(viewer, framework, task)]
    return dict(shown)


def get_executors(state: AgentState, viewer: Viewer = EVERYBODY) -> Document:
    """Return the answer to GET_EXECUTORS."""
    here, past = seen(state.frameworks.active, viewer), seen(state.frameworks.completed, viewer)
    executors = [_executor(run) for f in here for run in _runs(f) if sees_run(viewer, f, run)]
    completed = [_executor(run) for f in (*here, *past) for run in f.completed if sees_run(viewer, f, run)]
    return {"executors": executors, "completed_executors": completed}


def get_frameworks(state: AgentState, viewer: Viewer = EVERYBODY) -> Document:
    """Return the answer to GET_FRAMEWORKS."""
    return {
        "frameworks": _frameworks(seen(state.frameworks.active, viewer)),
        "completed_frameworks": _frameworks(seen(state.frameworks.completed, viewer)),
    }


def seen(frameworks: Mapping[FrameworkId, Framework], viewer: Viewer) -> list[Framework]:
    """Return the frameworks that `viewer` may see."""
    return [framework for framework in frameworks.values() if viewer.framework(framework.info)]


def get_state(state: AgentState, viewer: Viewer = EVERYBODY) -> Document:
    """Return the answer to GET_STATE."""
    return {
        "get_tasks": get_tasks(state, viewer),
        "get_executors": get_executors(state, viewer),
        "get_frameworks": get_frameworks(state, viewer),
    }


def get_operations(operations: Sequence[Document], viewer: Viewer = EVERYBODY) -> Document:
    """Return the answer to GET_OPERATIONS: those of which `viewer` may see all resources."""
    shown = [operation for operation in operations if viewer.sees_all or _sees_operation(operation, viewer)]
    return {"operations": shown} if shown else {}


def _sees_operation(operation: Document, viewer: Viewer) -> bool:
    info = operation.get("info", {})
    body = info.get(str(info.get("type")).lower(), {})
    lists = [body[name] if isinstance(body[name], list) else [body[name]] for name in _OF_OPERATIONS if name in body]
    return all(viewer.resource(Resource.from_json(document)) for documents in lists for document in documents)


def get_agent(info: Document, agent_id: AgentId | None) -> Document:
    """Return the answer to GET_AGENT."""
    known = {} if agent_id is None else {"id": {"value": agent_id}}
    resources = Resources.from_json(info.get("resources", [])).to_json(refined=True)
    shown = normalize("mesos.v1.AgentInfo", {**info, **known, "resources": resources})
    return {"agent_info": with_defaults("mesos.v1.AgentInfo", shown)}


def _standing(task: Task) -> str:
    if task.phase is Phase.OVER:
        return "terminated_tasks"
    return "queued_tasks" if task.state == "TASK_STAGING" else "launched_tasks"


def _runs(framework: Framework) -> list[Task | Executor]:
    """Return what has a container of its own; a task that was refused before it had one has no executor here."""
    tasks = [task for task in framework.tasks.values() if task.container_id is not None and not task.hosted]
    return [*tasks, *framework.executors.values()]


def _task(task: Task) -> Document:
    return with_defaults("mesos.v1.Task", task.to_message())


def _frameworks(frameworks: Iterable[Framework]) -> list[Document]:
    return [{"framework_info": with_defaults("mesos.v1.FrameworkInfo", framework.info)} for framework in frameworks]


def _executor(task: Task | Executor) -> Document:
    """Return an executor: a framework's own, or what Mesos' agent makes up for a task with a command."""
    if isinstance(task, Executor):
        return {"executor_info": with_defaults("mesos.v1.ExecutorInfo", normalize("mesos.v1.ExecutorInfo", task.info))}
    info: dict[str, Any] = {
        "executor_id": {"value": task.executor_id},
        "framework_id": {"value": task.key.framework},
        "command": {"shell": False, "value": COMMAND_EXECUTOR, "arguments": [COMMAND_EXECUTOR]},
        "resources": launch.executor_resources(task.info),
        "name": launch.executor_name(task.info),
        "source": task.executor_id,
    }
    if "labels" in task.info:
        info["labels"] = task.info["labels"]
    return {"executor_info": with_defaults("mesos.v1.ExecutorInfo", info)}
