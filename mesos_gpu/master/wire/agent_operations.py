"""Messages about operations on an agent's resources, both ways. Source: Mesos src/messages/messages.proto."""

from __future__ import annotations

from typing import Any

from typing_extensions import assert_never

from mesos_gpu.errors import ProtocolError
from mesos_gpu.master.events.agents import AgentUpdate, OperationStatus
from mesos_gpu.master.model.model import Agent
from mesos_gpu.master.state.actions import AboutOperations, AcknowledgeOperation, ApplyOperation, KeepResources
from mesos_gpu.master.state.actions import ReconcileOperations as Reconcile
from mesos_gpu.master.validation.operation_validation import resource_lists
from mesos_gpu.mesos.resource import Document, Resource
from mesos_gpu.mesos.uuids import uuid_in


def message_of(action: AboutOperations, agent: Agent) -> tuple[str, Document]:
    """Return name and document, with v1 parts, of the message that carries an action out."""
    match action:
        case ApplyOperation(_, operation_uuid, info, framework_id):
            document: Document = {
                "operation_info": _for_agent(agent, info),
                "operation_uuid": {"value": operation_uuid},
            }
            # Without a version an agent cannot have sent RESOURCE_PROVIDER, and gets the whole list instead.
            document["resource_version_uuid"] = {"uuid": {"value": agent.resource_version_uuid or ""}}
            if framework_id is not None:
                document["framework_id"] = {"value": framework_id}
            return "ApplyOperationMessage", document
        case AcknowledgeOperation(_, status_uuid, operation_uuid):
            document = {"status_uuid": {"value": status_uuid}, "operation_uuid": {"value": operation_uuid}}
            return "AcknowledgeOperationStatusMessage", document
        case Reconcile(_, uuids):
            asked = [{"operation_uuid": {"value": name}} for name in uuids]
            return "ReconcileOperationsMessage", {"operations": asked}
        case KeepResources():
            refined = "RESERVATION_REFINEMENT" in agent.capabilities
            return "CheckpointResourcesMessage", {"resources": agent.total.kept().to_json(refined=refined)}
        case _:
            assert_never(action)


def operation_status(document: Document, pid: str) -> OperationStatus:
    """Read an UpdateOperationStatusMessage. Raises ProtocolError when it does not say of what."""
    if "slave_id" not in document or "operation_uuid" not in document:
        raise ProtocolError("an operation status without an agent id or the operation's uuid")
    agent_id = document["slave_id"]["value"]
    operation_uuid = uuid_in(document["operation_uuid"]["value"], "an operation")
    return OperationStatus(agent_id, operation_uuid, document["status"])


def agent_update(document: Document, pid: str) -> AgentUpdate:
    """Read an UpdateSlaveMessage: the version that operations must name, and the operations there."""
    agent_id = document["slave_id"]["value"]
    version = document.get("resource_version_uuid", {}).get("value")
    listed: list[Any] | None = None
    if "operations" in document:
        listed = document["operations"].get("operations", [])
    return AgentUpdate(agent_id, pid, version, listed)


def _for_agent(agent: Agent, operation: Document) -> Document:
    """Return an operation with resources in the format that the agent knows."""
    if "RESERVATION_REFINEMENT" in agent.capabilities:
        return operation
    kind = str(operation["type"]).lower()
    body = dict(operation[kind])
    for field, many in resource_lists(operation):
        if field in body:
            older = [Resource.from_json(r).to_json() for r in (body[field] if many else [body[field]])]
            body[field] = older if many else older[0]
    return {**operation, kind: body}
