"""Whether a task may be launched: Mesos' checks in Mesos' order, with Mesos' messages; the first failure counts.

Source: Mesos src/master/validation.cpp, namespace task; src/common/validation.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct

from mesos_gpu.errors import BadResources
from mesos_gpu.master.model.model import Agent, Framework
from mesos_gpu.master.validation.infos import check_problem, command_problem, container_problem, health_check_problem
from mesos_gpu.master.validation.operation_asked import disk_problem
from mesos_gpu.master.validation.volume_validation import persistence_problem
from mesos_gpu.mesos.documents import TaskInfo
from mesos_gpu.mesos.ids import id_problem
from mesos_gpu.mesos.resource import Resource
from mesos_gpu.mesos.resources import Resources, read_each, validate_gpus

SHARING_EXECUTOR = "The 'share_cgroups' field cannot be set to 'true' on executor containers"
LIMITABLE = frozenset({"cpus", "mem"})
_REQUESTS = {"cpus": ("CPU", "cpu"), "mem": ("memory", "memory")}
"""How Mesos calls a limit and its request, at the beginning of a sentence and in it."""


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
    if task_id in launch.framework.tasks:
        return f"Task has duplicate ID: {task_id}"
    if task_id in launch.framework.unreachable:
        return f"Task reuses the ID of an unreachable task: {task_id}"
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
    return "Task's `max_completion_time` must be non-negative" if limit.get("nanoseconds", 0) < 0 else None


def _check(launch: Launch) -> str | None:
    problem = check_problem(launch.task["check"]) if "check" in launch.task else None
    return None if problem is None else f"Task uses invalid check: {problem}"


def _health_check(launch: Launch) -> str | None:
    problem = health_check_problem(launch.task["health_check"]) if "health_check" in launch.task else None
    return None if problem is None else f"Task uses invalid health check: {problem}"


def _resources(launch: Launch) -> str | None:
    documents = launch.task.get("resources", [])
    if not documents:
        return "Task uses no resources"
    try:
        return resources_problem(launch.each, documents, "Task", "task")
    except BadResources as error:
        return str(error)


def resources_problem(
    each: Sequence[Resource], documents: Sequence[Mapping[str, Any]], who: str, of: str
) -> str | None:
    """Return what is wrong with what a task or an executor asks for, as that is written in documents and read."""
    resources = Resources(each)
    problem = validate_gpus(resources)
    if problem is None:
        problem = disk_problem(documents)
        problem = problem and f"Invalid DiskInfo: {problem}"
    if problem is not None:
        return f"{who} uses invalid resources: {problem}"
    problem = persistence_problem(each)
    if problem is not None:
        return f"{who} uses duplicate persistence ID: {problem}"
    problem = _roles_problem(each)
    if problem is not None:
        return f"Invalid {of} resources: {problem}"
    problem = _mix_problem(resources)
    return None if problem is None else f"{who} mixes revocable and non-revocable resources: {problem}"


def _roles_problem(each: Sequence[Resource]) -> str | None:
    roles = dict.fromkeys(resource.allocation_role for resource in each)
    if len(roles) < 2:
        return None
    first, other, *_ = roles
    names = f"('{other}' and '{first}')"
    return f"The resources have multiple allocation roles {names} but only one allocation role is allowed"


def _mix_problem(resources: Resources) -> str | None:
    for name in resources.names():
        if len({resource.revocable for resource in resources if resource.name == name}) > 1:
            return f"Cannot use both revocable and non-revocable '{name}' at the same time"
    return None


def _environment(launch: Launch) -> str | None:
    problem = command_problem(launch.task.get("command", {}))
    return None if problem is None else f"Task's `CommandInfo` is invalid: {problem}"


def _container(launch: Launch) -> str | None:
    problem = container_problem(launch.task["container"]) if "container" in launch.task else None
    return None if problem is None else f"Task's `ContainerInfo` is invalid: {problem}"


def _limits(launch: Launch) -> str | None:
    limits = launch.task.get("limits", {})
    if limits and "TASK_RESOURCE_LIMITS" not in launch.agent.capabilities:
        return "Agent is not capable of handling task resource limits"
    if limits.keys() - LIMITABLE:
        return "Only cpus and mem may be included in a task's resource limits"
    for name, (begins, called) in _REQUESTS.items():
        if name not in limits:
            continue
        if name not in launch.asked.names():
            return f"When a {begins} limit is specified, a {begins} request must also be specified"
        if float(limits[name]["value"]) < launch.asked.value(name):
            return f"The {called} limit must be greater than or equal to the {called} request"
    return None


def _command_or_executor(launch: Launch) -> str | None:
    if ("command" in launch.task) == ("executor" in launch.task):
        return "Task should have at least one (but not both) of CommandInfo or ExecutorInfo present"
    return None


def _executor(launch: Launch) -> str | None:
    executor = launch.task.get("executor")
    if executor is None:
        return None
    # A scheduler may leave the framework out here, not in a group.
    named = {"framework_id": {"value": launch.framework.id}, **executor}
    problem = executor_problem(named, launch.framework, launch.agent)
    if problem is not None:
        return problem
    if executor.get("type", "CUSTOM") != "CUSTOM":
        return "'ExecutorInfo.type' must be 'CUSTOM'"
    if "command" not in executor:
        return "'ExecutorInfo.command' must be set"
    if (resources := Resources.from_json(executor.get("resources", []))).shared():
        return f"Executor resources {resources} should not contain any shared resources"
    return SHARING_EXECUTOR if says_of_cgroups(executor) else None


def executor_problem(executor: Mapping[str, Any], framework: Framework, agent: Agent) -> str | None:
    """Return why an executor of either type is refused, or None. Source: namespace executor of the same file."""
    return (
        _executor_shape_problem(executor, framework)
        or _executor_resources_problem(executor)
        or _executor_differs_problem(executor, framework, agent)
    )


def _executor_shape_problem(executor: Mapping[str, Any], framework: Framework) -> str | None:
    problem = _executor_type_problem(executor) or id_problem(executor["executor_id"]["value"])
    if problem is not None:
        return problem
    if executor.get("shutdown_grace_period", {}).get("nanoseconds", 0) < 0:
        return "ExecutorInfo's 'shutdown_grace_period' must be non-negative"
    problem = command_problem(executor.get("command", {}))
    if problem is not None:
        return f"Executor's `CommandInfo` is invalid: {problem}"
    problem = container_problem(executor["container"]) if "container" in executor else None
    if problem is not None:
        return f"Executor's `ContainerInfo` is invalid: {problem}"
    if "framework_id" not in executor:
        return "'ExecutorInfo.framework_id' must be set"
    framework_id = executor["framework_id"]["value"]
    if framework_id != framework.id:
        return f"ExecutorInfo has an invalid FrameworkID (Actual: {framework_id} vs Expected: {framework.id})"
    return None


def _executor_type_problem(executor: Mapping[str, Any]) -> str | None:
    kind = executor.get("type", "CUSTOM")
    if kind == "CUSTOM":
        return None if "command" in executor else "'ExecutorInfo.command' must be set for 'CUSTOM' executor"
    if kind != "DEFAULT":
        return None  # of a later Mesos; whoever launches it says whether it may be
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
    try:
        return resources_problem(read_each(documents), documents, "Executor", "executor")
    except BadResources as error:
        return f"Executor uses invalid resources: Invalid resources: {error}"


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


def says_of_cgroups(info: Mapping[str, Any]) -> bool | None:
    """Return what a task or an executor says of `share_cgroups`, None when it says nothing."""
    said: bool | None = info.get("container", {}).get("linux_info", {}).get("share_cgroups")
    return said


def shares_cgroups(task: Mapping[str, Any]) -> bool:
    """Return whether a task of a group has the cgroups of its executor: unless it says no."""
    return says_of_cgroups(task) is not False


def _share_cgroups(launch: Launch) -> str | None:
    if says_of_cgroups(launch.task) is False:
        return "Only tasks in a task group may have 'share_cgroups' set to 'false'"
    return None


def _fits(launch: Launch) -> str | None:
    required = launch.asked + executor_resources(launch)
    problem = validate_gpus(required)
    if problem is not None:
        return f"Task and its executor use invalid resources: {problem}"
    together = [*launch.each, *read_each(launch.task.get("executor", {}).get("resources", []))]
    problem = persistence_problem(together)
    if problem is not None:
        return f"Task and its executor use duplicate persistence ID: {problem}"
    problem = _mix_problem(Resources(together))
    if problem is not None:
        return f"Task and its executor mix revocable and non-revocable resources: {problem}"
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
