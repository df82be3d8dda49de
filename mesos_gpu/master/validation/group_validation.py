"""Whether a task group may be launched: all of it or nothing, the first failure counts for every task.

Source: Mesos src/master/validation.cpp, namespace task::group.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from mesos_gpu.master.model.model import Agent, Framework, add
from mesos_gpu.master.validation.validation import TASK_CHECKS, Launch, executor_problem, shares_cgroups
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
    return _tasks_problem(group) or _executor_problem(group) or _fit_problem(group)


def _tasks_problem(group: GroupLaunch) -> str | None:
    seen: set[str] = set()
    for task in group.tasks:
        task_id = task["task_id"]["value"]
        problem = f"Task has duplicate ID: {task_id}" if task_id in seen else _task_problem(group, task)
        if problem is not None:
            return f"Task '{task_id}' is invalid: {problem}"
        seen.add(task_id)
    for task in group.tasks:
        if "executor" in task and task["executor"] != group.executor:
            return (
                f"The `ExecutorInfo` of task '{task['task_id']['value']}' is different from "
                f"executor '{group.executor['executor_id']['value']}'"
            )
    if len({shares_cgroups(task, by_default=True) for task in group.tasks}) > 1:
        return "Either all tasks of a task group share cgroups with their executor, or none"
    return None


def _task_problem(group: GroupLaunch, task: TaskInfo) -> str | None:
    launch = Launch(task, group.framework, group.agent, group.available)
    for check in TASK_CHECKS:
        problem = check(launch)
        if problem is not None:
            return problem
    if "command" not in task:
        return "'TaskInfo.command' must be set for a task of a task group"
    if task.get("container", {}).get("type") == "DOCKER":
        return "Docker ContainerInfo is not supported on the task"
    if shares_cgroups(task, by_default=True) and task.get("limits"):
        return "Resource limits may not be set for tasks which share cgroups with their executor"
    return None


def _executor_problem(group: GroupLaunch) -> str | None:
    problem = executor_problem(group.executor, group.framework, group.agent)
    if problem is not None:
        return problem
    name, resources = group.executor["executor_id"]["value"], group.executor_resources
    for resource, words, least in (("cpus", "CPUs", MIN_CPUS_MILLI), ("mem", "memory", MIN_MEM_MILLI)):
        if resources.milli(resource) < least:
            found = scalar_text(resources.milli(resource)) if resource in resources.names() else "None"
            minimum = scalar_text(least) if resource == "cpus" else "32MB"
            return f"Executor '{name}' uses less {words} ({found}) than the minimum required ({minimum})"
    return None if "disk" in resources.names() else f"Executor '{name}' uses no disk"


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
