"""Documents as an agent takes them: its format of resources, its resource version. Values to values.

Source: libprocess messages of Mesos src/messages/messages.proto; src/common/resources_utils.cpp for the formats.
"""

from __future__ import annotations

from mesos_gpu.master.model.model import Agent
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.resources import Resources

NO_PID = "@0.0.0.0:0"
"""Where nobody is: what a framework over HTTP has for a pid, and an update that is not to be acknowledged."""


def task_for(agent: Agent, task: Document) -> Document:
    """Return a TaskInfo with resources, its executor's too, in the format that the agent knows."""
    older = resources_for(agent, task)
    return {**older, "executor": resources_for(agent, task["executor"])} if "executor" in task else older


def resources_for(agent: Agent, info: Document) -> Document:
    """Return a TaskInfo's or ExecutorInfo's document with resources in the format that the agent knows."""
    if "RESERVATION_REFINEMENT" in agent.capabilities:
        return info
    return {**info, "resources": Resources.from_json(info.get("resources", [])).to_json()}


def resource_version(agent: Agent) -> Document:
    """Return the fields by which an agent can tell that a launch was made of what it has now."""
    if agent.resource_version_uuid is None:
        return {}
    return {"resource_version_uuids": [{"uuid": {"value": agent.resource_version_uuid}}]}
