"""Whether a task group may be launched: all of it or nothing, the first failure counts for every task.

Source: Mesos src/master/validation.cpp, namespace task::group.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from mesos_gpu.master.model.model import Agent, Framework, add
from mesos_gpu.master.validation.validation import (
    SHARING_EXECUTOR,
    TASK_CHECKS,
    Launch,
    executor_problem,
    says_of_cgroups,
    shares_cgroups,
)
from mesos_gpu.mesos.documents import ExecutorInfo, TaskInfo
from mesos_gpu.mesos.resource import scalar_text
from mesos_gpu.mesos.resources import Resources, validate_gpus

MIN_CPUS_MILLI, MIN_MEM_MILLI = 10, 32_000
"""What an executor of a group has at least: 0.01 CPUs and 32 MB."""


class GroupLaunch(Struct, frozen=True):
    """A task group that wants to be launched; resources are in the refined format and allocated to the offer's role.

    `tasks` are as the scheduler sent them otherwise: an ExecutorInfo of their own is still theirs.
    """

    executor: ExecutorInfo
    tasks: Sequence[TaskInfo]
    framework: Framework
    agent: Agent
    available: Resources

    @property
    def new_executor(self) -> bool:
        """Return whether the group brings its executor; else the one that runs takes it."""
        return (self.framework.id, self.executor["executor_id"]["value"]) not in self.agent.executors

    @property
    def required(self) -> Resources:
        """Return what the group adds to the agent: its tasks, and its executor once."""
        tasks = add(Resources.from_json(task.get("resources", [])) for task in self.tasks)
        return tasks + self.executor_resources if self.new_executor else tasks

    @property
    def executor_resources(self) -> Resources:
        """Return what the executor itself holds."""
        return Resources.from_json(self.executor.get("resources", []))


def group_problem(group: GroupLaunch) -> str | None:
    """Return why every task of the group gets TASK_ERROR, or None."""
    return _tasks_problem(group) or _executor_problem(group) or _fit_problem(group) or _cgroups_problem(group)


def _tasks_problem(group: GroupLaunch) -> str | None:
    seen: set[str] = set()
    for task in group.tasks:
        task_id = task["task_id"]["value"]
        problem = f"Task has duplicate ID: {task_id}" if task_id in seen else _task_problem(group, task)
        if problem is not None:
            return f"Task '{task_id}' is invalid: {problem}"
        seen.add(task_id)
    return None


def _task_problem(group: GroupLaunch, task: TaskInfo) -> str | None:
    launch = Launch(task, group.framework, group.agent, group.available)
    for check in TASK_CHECKS:
        problem = check(launch)
        if problem is not None:
            return problem
    if "command" not in task:
        return "'TaskInfo.command' must be set for a task of a task group"
    container = task.get("container", {})
    if container.get("network_infos") and task.get("health_check", {}).get("type") in ("HTTP", "TCP"):
        return "HTTP and TCP health checks are not supported for nested containers not joining parent's network"
    if container.get("type") == "DOCKER":
        return "Docker ContainerInfo is not supported on the task"
    if task.get("limits") and shares_cgroups(task):
        return (
            "Resource limits may only be set for tasks within a task group when the 'share_cgroups' field is set to "
            "'false'."
        )
    return None


def _executor_problem(group: GroupLaunch) -> str | None:
    problem = executor_problem(group.executor, group.framework, group.agent)
    if problem is not None:
        return problem
    if "type" not in group.executor:
        return "'ExecutorInfo.type' must be set"
    if group.executor["type"] not in ("CUSTOM", "DEFAULT"):
        return "Unknown executor type"
    if group.executor.get("container", {}).get("type") == "DOCKER":
        return "Docker ContainerInfo is not supported on the executor"
    name, resources = group.executor["executor_id"]["value"], group.executor_resources
    for task in group.tasks:
        if "executor" in task and task["executor"] != group.executor:
            return f"The `ExecutorInfo` of task '{task['task_id']['value']}' is different from executor '{name}'"
    for resource, words, least in (("cpus", "CPUs", MIN_CPUS_MILLI), ("mem", "memory", MIN_MEM_MILLI)):
        if resources.milli(resource) < least:
            shown = scalar_text if resource == "cpus" else _bytes_text
            found = shown(resources.milli(resource)) if resource in resources.names() else "None"
            return f"Executor '{name}' uses less {words} ({found}) than the minimum required ({shown(least)})"
    return None if "disk" in resources.names() else f"Executor '{name}' uses no disk"


def _bytes_text(mib_milli: int) -> str:
    """Return thousandths of a MiB as Mesos prints bytes: in the largest unit that leaves nothing over."""
    amount = mib_milli * 2**20 // 1000
    for unit, size in (("TB", 2**40), ("GB", 2**30), ("MB", 2**20), ("KB", 2**10)):
        if amount and amount % size == 0:
            return f"{amount // size}{unit}"
    return f"{amount}B"


def _fit_problem(group: GroupLaunch) -> str | None:
    required = group.required
    problem = validate_gpus(required)
    if problem is not None:
        return f"Task group and executor use invalid resources: {problem}"
    if not group.available.contains(required.single()):
        return (
            f"Total resources {required} required by task group and its executor are more than "
            f"available {group.available}"
        )
    return None


def _cgroups_problem(group: GroupLaunch) -> str | None:
    if says_of_cgroups(group.executor):
        return SHARING_EXECUTOR
    if len({shares_cgroups(task) for task in group.tasks}) > 1:
        return (
            "If set, the value of 'share_cgroups' must be the same for all tasks in each task group and under a single "
            "executor"
        )
    return None
