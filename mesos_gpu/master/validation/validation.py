"""Whether a task may be launched: Mesos' checks in Mesos' order, with Mesos' messages; the first failure counts.

Source: Mesos src/master/validation.cpp, namespace task; src/common/validation.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct

from mesos_gpu.errors import BadResources
from mesos_gpu.master.model.model import Agent, Framework
from mesos_gpu.master.validation.operation_asked import disk_problem
from mesos_gpu.master.validation.volume_validation import persistence_problem
from mesos_gpu.mesos.documents import TaskInfo
from mesos_gpu.mesos.ids import id_problem
from mesos_gpu.mesos.resource import Resource
from mesos_gpu.mesos.resources import Resources, read_each, validate, validate_gpus

LIMITABLE = frozenset({"cpus", "mem"})
_CHECK_BODIES = {"COMMAND": "command", "HTTP": "http", "TCP": "tcp"}
_NOT_NEGATIVE = ("delay_seconds", "interval_seconds", "timeout_seconds", "grace_period_seconds")


class Launch(Struct, frozen=True, dict=True):
    """A task that wants to be launched: resources already in the refined format and allocated to the offer's role."""

    task: TaskInfo
    framework: Framework
    agent: Agent
    available: Resources
    """What is left of the accepted offers."""

    @cached_property
    def each(self) -> list[Resource]:
        """Return what the task asks for, one by one, read once: every check looks at it. Raises BadResources."""
        return read_each(self.task.get("resources", []))

    @cached_property
    def asked(self) -> Resources:
        """Return what the task asks for. Raises BadResources."""
        return Resources(self.each)


def task_problem(launch: Launch) -> str | None:
    """Return why the task gets TASK_ERROR, or None."""
    for check in _CHECKS:
        problem = check(launch)
        if problem is not None:
            return problem
    return None


def executor_resources(launch: Launch) -> Resources:
    """Return what a new executor of this task adds; nothing when it has none, or one that runs already."""
    executor = launch.task.get("executor")
    if executor is None or (launch.framework.id, executor["executor_id"]["value"]) in launch.agent.executors:
        return Resources()
    return Resources.from_json(executor.get("resources", []))


def _id(launch: Launch) -> str | None:
    return id_problem(launch.task["task_id"]["value"])


def _unique(launch: Launch) -> str | None:
    task_id = launch.task["task_id"]["value"]
    if task_id in launch.framework.tasks or task_id in launch.framework.unreachable:
        return f"Task has duplicate ID: {task_id}"
    return None


def _agent(launch: Launch) -> str | None:
    used = launch.task["agent_id"]["value"]
    if used != launch.agent.id:
        return f"Task uses invalid agent {used} while agent {launch.agent.id} is expected"
    return None


def _kill_policy(launch: Launch) -> str | None:
    grace = launch.task.get("kill_policy", {}).get("grace_period", {})
    return "Task's 'kill_policy.grace_period' must be non-negative" if grace.get("nanoseconds", 0) < 0 else None


def _max_completion_time(launch: Launch) -> str | None:
    limit = launch.task.get("max_completion_time", {})
    return "Task's 'max_completion_time' must be non-negative" if limit.get("nanoseconds", 0) < 0 else None


def _check(launch: Launch) -> str | None:
    problem = _check_problem(launch.task.get("check"), "CheckInfo")
    return None if problem is None else f"Task uses invalid check: {problem}"


def _health_check(launch: Launch) -> str | None:
    problem = _check_problem(launch.task.get("health_check"), "HealthCheck")
    return None if problem is None else f"Task uses invalid health check: {problem}"


def _check_problem(check: Mapping[str, Any] | None, kind: str) -> str | None:
    if check is None:
        return None
    if check.get("type", "UNKNOWN") not in _CHECK_BODIES:
        return f"'{kind}' must specify 'type'"
    body = _CHECK_BODIES[check["type"]]
    if body not in check:
        return f"Expecting '{body}' to be set for {check['type']} {'check' if kind == 'CheckInfo' else 'health check'}"
    for name in _NOT_NEGATIVE:
        if check.get(name, 0.0) < 0:
            return f"Expecting '{name}' to be non-negative"
    return None


def _resources(launch: Launch) -> str | None:
    documents = launch.task.get("resources", [])
    if not documents:
        return "Task uses no resources"
    try:
        resources = launch.asked
    except BadResources as error:
        return str(error)
    problem = validate_gpus(resources) or disk_problem(documents)
    problem = problem or persistence_problem(launch.each) or _mix_problem(resources)
    return None if problem is None else f"Task uses invalid resources: {problem}"


def _mix_problem(resources: Resources) -> str | None:
    roles = {resource.allocation_role for resource in resources}
    if len(roles) > 1:
        names = " and ".join(f"'{role}'" for role in sorted(map(str, roles)))
        return f"The resources have multiple allocation roles ({names}) but only one allocation role is allowed"
    for name in resources.names():
        if len({resource.revocable for resource in resources if resource.name == name}) > 1:
            return f"Cannot use both revocable and non-revocable '{name}' at the same time"
    return None


def _environment(launch: Launch) -> str | None:
    command = launch.task.get("command", {})
    problem = _environment_problem(command)
    return None if problem is None else f"Task's `CommandInfo` is invalid: {problem}"


def _environment_problem(command: Mapping[str, Any]) -> str | None:
    for variable in command.get("environment", {}).get("variables", []):
        kind = variable.get("type", "VALUE")
        if kind == "VALUE" and "value" not in variable:
            return f"Environment variable '{variable['name']}' of type 'VALUE' must have a value set"
        if kind == "SECRET" and "secret" not in variable:
            return f"Environment variable '{variable['name']}' of type 'SECRET' must have a secret set"
    return None


def _container(launch: Launch) -> str | None:
    container = launch.task.get("container")
    if container is not None and container["type"] == "DOCKER" and "docker" not in container:
        return "Task's `ContainerInfo` is invalid: DockerInfo 'docker' is not set for DOCKER typed ContainerInfo"
    return None


def _limits(launch: Launch) -> str | None:
    limits = launch.task.get("limits", {})
    if limits and "TASK_RESOURCE_LIMITS" not in launch.agent.capabilities:
        return f"Agent {launch.agent.id} is not capable of running tasks with resource limits"
    strange = sorted(set(limits) - LIMITABLE)
    if strange:
        return f"Resource limits can only be set for cpus and mem, not for '{strange[0]}'"
    for name, scalar in limits.items():
        if float(scalar["value"]) < launch.asked.value(name):
            return f"The {name} limit is less than the {name} request"
    return None


def _command_or_executor(launch: Launch) -> str | None:
    if ("command" in launch.task) == ("executor" in launch.task):
        return "Task should have at least one (but not both) of CommandInfo or ExecutorInfo present"
    return None


def _executor(launch: Launch) -> str | None:
    executor = launch.task.get("executor")
    if executor is None:
        return None
    if executor.get("type", "CUSTOM") == "DEFAULT":
        return "'ExecutorInfo.type' must be 'CUSTOM' for a task that is launched with LAUNCH; use LAUNCH_GROUP"
    # A scheduler may leave the framework out here, not in a group.
    named = {"framework_id": {"value": launch.framework.id}, **executor}
    problem = executor_problem(named, launch.framework, launch.agent)
    if problem is None and (resources := Resources.from_json(executor.get("resources", []))).shared():
        return f"Executor resources {resources} should not contain any shared resources"
    return problem


def executor_problem(executor: Mapping[str, Any], framework: Framework, agent: Agent) -> str | None:
    """Return why an executor of either type is refused, or None. Source: namespace executor of the same file."""
    return (
        _executor_shape_problem(executor, framework)
        or _executor_resources_problem(executor)
        or _executor_differs_problem(executor, framework, agent)
    )


def _executor_shape_problem(executor: Mapping[str, Any], framework: Framework) -> str | None:
    executor_id = executor["executor_id"]["value"]
    problem = id_problem(executor_id)
    if problem is not None:
        return f"Executor ID is invalid: {problem}"
    problem = _executor_type_problem(executor)
    if problem is not None:
        return problem
    framework_id = executor.get("framework_id", {}).get("value", "")
    if framework_id != framework.id:
        return f"ExecutorInfo has an invalid FrameworkID (Actual: {framework_id} vs Expected: {framework.id})"
    if executor.get("shutdown_grace_period", {}).get("nanoseconds", 0) < 0:
        return "ExecutorInfo's 'shutdown_grace_period' must be non-negative"
    problem = _environment_problem(executor.get("command", {}))
    return None if problem is None else f"Executor's `CommandInfo` is invalid: {problem}"


def _executor_type_problem(executor: Mapping[str, Any]) -> str | None:
    kind = executor.get("type", "CUSTOM")
    if kind == "CUSTOM":
        return None if "command" in executor else "'ExecutorInfo.command' must be set for 'CUSTOM' executor"
    if kind != "DEFAULT":
        return "Unknown executor type"
    if "command" in executor:
        return "'ExecutorInfo.command' must not be set for 'DEFAULT' executor"
    container = executor.get("container", {"type": "MESOS"})
    if container.get("type") != "MESOS":
        return "'ExecutorInfo.container.type' must be 'MESOS' for 'DEFAULT' executor"
    if "image" in container.get("mesos", {}):
        return "'ExecutorInfo.container.mesos.image' must not be set for 'DEFAULT' executor"
    return None


def _executor_resources_problem(executor: Mapping[str, Any]) -> str | None:
    documents = executor.get("resources", [])
    problem = validate(documents)
    if problem is None:
        resources = Resources.from_json(documents)
        problem = validate_gpus(resources) or _mix_problem(resources)
    return None if problem is None else f"Executor uses invalid resources: {problem}"


def _executor_differs_problem(executor: Mapping[str, Any], framework: Framework, agent: Agent) -> str | None:
    running = agent.executors.get((framework.id, executor["executor_id"]["value"]))
    if running is not None and not _same(running.info, executor):
        return (
            "ExecutorInfo is not compatible with existing ExecutorInfo with same ExecutorID "
            f"'{executor['executor_id']['value']}' on agent {agent.id}"
        )
    return None


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two ExecutorInfos of one framework are equal; resources may be written in any order and format."""
    apart = ("resources", "framework_id")
    rest = [{key: value for key, value in info.items() if key not in apart} for info in (one, other)]
    resources = [Resources.from_json(info.get("resources", [])) for info in (one, other)]
    return rest[0] == rest[1] and resources[0] == resources[1]


def shares_cgroups(task: Mapping[str, Any], *, by_default: bool = False) -> bool:
    """Return whether a task asks for the cgroups of its executor; those of a group share them unless they say no."""
    return bool(task.get("container", {}).get("linux_info", {}).get("share_cgroups", by_default))


def _share_cgroups(launch: Launch) -> str | None:
    return "Only tasks of a task group may share cgroups with their executor" if shares_cgroups(launch.task) else None


def _fits(launch: Launch) -> str | None:
    required = launch.asked + executor_resources(launch)
    problem = validate_gpus(required)
    if problem is not None:
        return f"Task and its executor use invalid resources: {problem}"
    if not launch.available.contains(required):
        return f"Total resources {required} required by task and its executor is more than available {launch.available}"
    return None


TASK_CHECKS: tuple[Callable[[Launch], str | None], ...] = (
    _id,
    _unique,
    _agent,
    _kill_policy,
    _max_completion_time,
    _check,
    _health_check,
    _resources,
    _environment,
    _container,
    _limits,
)
"""What holds for any task, alone or in a group."""
_CHECKS = (*TASK_CHECKS, _command_or_executor, _executor, _fits, _share_cgroups)
