"""Documents as an agent takes them: its format of resources, its resource version. Values to values.

Source: libprocess messages of Mesos src/messages/messages.proto; src/common/resources_utils.cpp for the formats.
"""

from __future__ import annotations

from collections.abc import Sequence

from mesos_gpu.master.model.model import Agent
from mesos_gpu.mesos.documents import ExecutorInfo, TaskInfo
from mesos_gpu.mesos.resource import Document, ResourceDocument
from mesos_gpu.mesos.resources import Resources

NO_PID = "@0.0.0.0:0"
"""Where nobody is: what a framework over HTTP has for a pid, and an update that is not to be acknowledged."""


def task_for(agent: Agent, task: TaskInfo) -> TaskInfo:
    """Return a TaskInfo with resources, its executor's too, in the format that the agent knows."""
    if "RESERVATION_REFINEMENT" in agent.capabilities:
        return task
    older: TaskInfo = {**task, "resources": _older(task.get("resources", []))}
    if "executor" in older:
        older["executor"] = executor_for(agent, older["executor"])
    return older


def executor_for(agent: Agent, executor: ExecutorInfo) -> ExecutorInfo:
    """Return an ExecutorInfo with resources in the format that the agent knows."""
    if "RESERVATION_REFINEMENT" in agent.capabilities:
        return executor
    return {**executor, "resources": _older(executor.get("resources", []))}


def _older(resources: Sequence[ResourceDocument]) -> list[ResourceDocument]:
    return Resources.from_json(resources).to_json()


def resource_version(agent: Agent) -> Document:
    """Return the fields by which an agent can tell that a launch was made of what it has now."""
    if agent.resource_version_uuid is None:
        return {}
    return {"resource_version_uuids": [{"uuid": {"value": agent.resource_version_uuid}}]}
