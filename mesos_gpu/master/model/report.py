"""What an agent says of itself when it registers or comes back, and whether that can be.

Source: Mesos src/master/validation.cpp, namespace master::message.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from mesos_gpu.errors import BadResources, ProtocolError
from mesos_gpu.mesos.conversions import with_kept
from mesos_gpu.mesos.documents import AgentInfo, ExecutorInfo, FrameworkInfo
from mesos_gpu.mesos.ids import AgentId, id_problem
from mesos_gpu.mesos.libprocess import Pid
from mesos_gpu.mesos.resource import Document, ResourceDocument
from mesos_gpu.mesos.resources import Resources, validate

_VERSION = re.compile(r"^(\d+)\.(\d+)\.(\d+)")


class Report(Struct, frozen=True):
    """What an agent says of itself when it (re-)registers; `info` is a v1 AgentInfo."""

    pid: str
    info: AgentInfo
    version: str
    capabilities: tuple[str, ...] = ()
    checkpoint: bool = False
    resource_version_uuid: str | None = None
    kept: Sequence[ResourceDocument] = ()
    """What is reserved and created there, beside what its flags say."""
    tasks: Sequence[Document] = ()
    """v1 Tasks that run there, or have ended but are not acknowledged."""
    executors: Sequence[ExecutorInfo] = ()
    frameworks: Sequence[FrameworkInfo] = ()
    """FrameworkInfos of those."""


def report_problem(report: Report) -> str | None:
    """Return why an agent is refused (without an answer, as in Mesos), or None."""
    match = _VERSION.match(report.version)
    if match is None or int(match[1]) < 1:
        return f"version '{report.version}' is not 1.0.0 or later"
    problem = validate(report.info.get("resources", [])) or validate(report.kept)
    if problem is not None:
        return problem
    if "id" not in report.info:
        problem = kept_problem(report)
        if problem is not None:
            return problem
        if report.kept and not report.checkpoint:
            return "it keeps resources without checkpointing"
    elif (problem := id_problem(report.info["id"]["value"])) is not None:
        return f"its id: {problem}"
    if "RESOURCE_PROVIDER" in report.capabilities and not report.resource_version_uuid:
        # The first operation on it would end Mesos' master.
        return "it has the capability RESOURCE_PROVIDER and names no version of its resources (resource_version_uuid)"
    if not report.info.get("hostname"):
        return "it has no hostname"
    try:
        Pid.parse(report.pid)
    except ProtocolError as error:
        return str(error)
    return None


def kept_problem(report: Report) -> str | None:
    """Return why what an agent keeps cannot be its own, or None."""
    try:
        with_kept(Resources.from_json(report.info.get("resources", [])), Resources.from_json(report.kept))
    except BadResources as error:
        return f"what it keeps is not part of its resources: {error}"
    return None


def tasks_problem(report: Report) -> str | None:
    """Return what is wrong with what an agent says it runs, or None."""
    agent_id = report.info.get("id", {}).get("value")
    if not agent_id:
        return "it has no id"
    frameworks = [info.get("id", {}).get("value") for info in report.frameworks]
    if len(set(frameworks)) != len(frameworks):
        return "it lists a framework twice"
    executors = [(e.get("framework_id", {}).get("value"), e["executor_id"]["value"]) for e in report.executors]
    for (framework_id, executor_id), info in zip(executors, report.executors, strict=True):
        if framework_id not in frameworks:
            return f"its executor '{executor_id}' is of framework {framework_id}, which it does not list"
        problem = validate(info.get("resources", []))
        if problem is not None:
            return f"its executor '{executor_id}': {problem}"
    if len(set(executors)) != len(executors):
        return "it lists an executor twice"
    listed = [(task["framework_id"]["value"], task["task_id"]["value"]) for task in report.tasks]
    if len(set(listed)) != len(listed):
        return "it lists a task twice"
    for task in report.tasks:
        task_id = task["task_id"]["value"]
        problem = id_problem(task_id)
        if problem is not None:
            return f"its task '{task_id}': {problem}"
        if "MULTI_ROLE" in report.capabilities and any("allocation_info" not in r for r in task.get("resources", ())):
            return f"its task '{task_id}' has resources that are allocated to no role"
        if task["agent_id"]["value"] != agent_id:
            return f"its task '{task_id}' is of agent {task['agent_id']['value']}"
        if task["framework_id"]["value"] not in frameworks:
            return f"its task '{task_id}' is of framework {task['framework_id']['value']}, which it does not list"
        by = task.get("executor_id", {}).get("value")
        if by is not None and task["state"] == "TASK_RUNNING" and (task["framework_id"]["value"], by) not in executors:
            return f"its task '{task_id}' runs by executor '{by}', which it does not list"
        problem = validate(task.get("resources", []))
        if problem is not None:
            return f"its task '{task_id}': {problem}"
    return None


def described(report: Report, agent_id: AgentId, kept: Resources | None = None) -> tuple[AgentInfo, Resources]:
    """Return the AgentInfo to keep, and the agent's total with what it keeps: `kept`, or else what it reports.

    The info has what the agent's flags say, and the total what became of it.
    """
    flags = Resources.from_json(report.info.get("resources", []))
    info: AgentInfo = {**report.info, "id": {"value": agent_id}, "resources": flags.to_json(refined=True)}
    if kept is not None and flags.contains(kept.base()):
        return info, with_kept(flags, kept)
    return info, with_kept(flags, Resources.from_json(report.kept))
