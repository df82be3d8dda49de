"""Operations on an agent's resources: done here first, then by the agent, and reported until acknowledged.

Reservations and volumes of an agent's own resources are speculative in Mesos' words: the master's books change at once.
Source: Mesos src/master/master.cpp (_accept, _apply, updateOperationStatus, reconcileOperations, updateSlave).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from mesos_gpu.errors import BadInput, BadResources, Conflict, Forbidden
from mesos_gpu.master.decisions import permissions
from mesos_gpu.master.decisions.operation_metrics import count
from mesos_gpu.master.model.documents import Operation
from mesos_gpu.master.model.model import Agent, Framework
from mesos_gpu.master.model.shared_volumes import uses
from mesos_gpu.master.state.actions import (
    AcknowledgeOperation,
    Action,
    ApplyOperation,
    KeepResources,
    ReconcileOperations,
    Warn,
)
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.master.validation.operation_asked import Asked
from mesos_gpu.master.validation.operation_validation import named, operation_problem, resource_lists
from mesos_gpu.mesos.conversions import Conversion, applied, conversions, unallocated
from mesos_gpu.mesos.ids import AgentId, FrameworkId, Role
from mesos_gpu.mesos.resource import Document, ResourceDocument
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.security.authorization import Principal

LATEST = "Reconciliation: Latest operation state"


def perform(
    state: MasterState, framework: Framework, agent: Agent, role: Role, operation: Document, remaining: Resources
) -> tuple[list[Action], Resources]:
    """An operation of an ACCEPT, on what is left of its offers. Returns what to do and what is left then."""
    prepared = prepare(operation, role)
    problem = operation_problem(Asked(prepared, agent, framework))
    problem = problem or permissions.operation_refusal(state, framework, prepared)
    if problem is None:
        try:
            changes = conversions(prepared)
            after = applied(remaining, changes)
            actions = _withdraw(state, agent, changes)
            return actions + _apply(state, agent, prepared, changes, framework.id), after
        except BadResources as error:
            problem = str(error)
    count(state, str(operation.get("type")), "OPERATION_ERROR")
    return failed(state, framework, operation, problem), remaining


def operate(state: MasterState, agent: Agent, operation: Document, principal: Principal | None = None) -> list[Action]:
    """An operator's operation: offers that stand in its way are taken back, tasks are not.

    Raises BadInput for one that cannot be, Forbidden when `principal` may not, Conflict when resources are not there.
    """
    prepared = prepare(operation, None)
    problem = operation_problem(Asked(prepared, agent, principal=None if principal is None else principal.value))
    if problem is not None:
        raise BadInput(f"{_invalid(agent, operation)}: {problem}")
    if not permissions.may_operate(state, principal, prepared):
        raise Forbidden
    try:
        changes = conversions(prepared)
    except BadResources as error:
        raise BadInput(f"{_invalid(agent, operation)}: {error}") from None
    reach = agent.free + agent.offered.unallocated().nonshared()
    try:
        applied(reach, changes)
    except BadResources as error:
        raise Conflict(str(error)) from None
    actions = _withdraw(state, agent, changes)
    for offer in list(agent.offers.values()):
        if _possible(agent.free, changes):
            break
        if any(resource.key == wanted.key for resource in offer.resources.unallocated() for wanted in _wanted(changes)):
            actions += state.rescind(offer)
    return [*actions, *_apply(state, agent, prepared, changes, None)]


def failed(state: MasterState, framework: Framework, operation: Document, problem: str) -> list[Action]:
    """Answer an operation that has an id; one without is dropped, as in Mesos."""
    if "id" not in operation:
        return []
    status = {"operation_id": operation["id"], "state": "OPERATION_ERROR", "message": problem}
    return state.tell(framework, "UPDATE_OPERATION_STATUS", {"status": status})


def status_update(state: MasterState, agent_id: AgentId, operation_uuid: str, status: Document) -> list[Action]:
    """An agent reports an operation (v1 status). Frameworks acknowledge what they asked to hear of, else we do."""
    agent = state.agents.get(agent_id)
    operation = None if agent is None else agent.operations.get(operation_uuid)
    if agent is None or operation is None:
        state.counters["invalid_operation_status_updates"] += 1
        return [Warn(f"ignoring the status of an operation that agent {agent_id} is not known to have")]
    state.counters["valid_operation_status_updates"] += 1
    if not operation.ended:
        count(state, operation.kind, str(status["state"]))
    operation.note(status)
    framework = None if operation.framework_id is None else state.frameworks.get(operation.framework_id)
    if operation.id is not None and framework is not None:
        told = {"operation_id": {"value": operation.id}, **status, "agent_id": {"value": agent_id}}
        actions = state.tell(framework, "UPDATE_OPERATION_STATUS", {"status": told})
        if "uuid" not in status:
            del agent.operations[operation_uuid]
        return actions
    if operation.ended:
        del agent.operations[operation_uuid]
    if "uuid" not in status:
        return []
    return [AcknowledgeOperation(agent_id, status["uuid"]["value"], operation_uuid)]


def acknowledge(state: MasterState, framework: Framework, body: Mapping[str, Any]) -> list[Action]:
    """ACKNOWLEDGE_OPERATION_STATUS: pass it on; that of a terminal status is the end of the operation."""
    agent = state.agents.get(body.get("agent_id", {}).get("value", ""))
    asked = body["operation_id"]["value"]
    operation = None if agent is None else find(agent, framework.id, asked)
    if agent is None or operation is None or not agent.connected or body["uuid"] not in operation.status_uuids:
        state.counters["invalid_operation_status_update_acknowledgements"] += 1
        return []
    state.counters["valid_operation_status_update_acknowledgements"] += 1
    if operation.ended:
        del agent.operations[operation.uuid]
    return [AcknowledgeOperation(agent.id, body["uuid"], operation.uuid)]


def reconcile(state: MasterState, framework: Framework, body: Mapping[str, Any]) -> list[Action]:
    """RECONCILE_OPERATIONS: the latest state of those asked for, of all with an id when none is named."""
    asked = body.get("operations", ())
    if not asked:
        mine = [(a, o) for a in state.agents.values() for o in a.operations.values() if o.framework_id == framework.id]
        asked = [{"operation_id": {"value": o.id}, "agent_id": {"value": a.id}} for a, o in mine if o.id is not None]
    return [action for one in asked for action in _reconciled(state, framework, one)]


def reported(state: MasterState, agent: Agent, listed: Sequence[Document]) -> list[Action]:
    """UpdateSlaveMessage: what the agent lists and we do not know is entered; it has to answer for the rest."""
    named = {str(document["uuid"]["value"]): document for document in listed}
    for name, document in named.items():
        if name not in agent.operations:
            agent.operations[name] = Operation(document)
    missing = tuple(name for name in agent.operations if name not in named)
    return [ReconcileOperations(agent.id, missing)] if missing else []


def lost(state: MasterState, agent: Agent, end: str, message: str) -> list[Action]:
    """The agent is out of reach, or gone for good: frameworks hear what became of their operations there."""
    actions: list[Action] = []
    for operation in agent.operations.values():
        count(state, operation.kind, end)
        framework = None if operation.framework_id is None else state.frameworks.get(operation.framework_id)
        if framework is not None and operation.id is not None:
            status = {"operation_id": {"value": operation.id}, "state": end, "message": message}
            status["agent_id"] = {"value": agent.id}
            actions += state.tell(framework, "UPDATE_OPERATION_STATUS", {"status": status})
    agent.operations.clear()
    return actions


def find(agent: Agent, framework_id: FrameworkId, operation_id: str) -> Operation | None:
    """Return a framework's operation by the id it gave it, the latest if it gave it twice."""
    mine = (o for o in agent.operations.values() if o.framework_id == framework_id and o.id == operation_id)
    return next(reversed(list(mine)), None)


def prepare(operation: Mapping[str, Any], role: Role | None) -> Document:
    """Return an operation with its resources in the refined format, allocated to `role` (None: to nobody)."""
    kind = str(operation.get("type")).lower()
    body = dict(operation.get(kind, {}))
    for field, many in resource_lists(operation):
        if field in body:
            body[field] = [refined(r, role) for r in body[field]] if many else refined(body[field], role)
    return {**operation, kind: body} if kind in operation else dict(operation)


def refined(resource: Mapping[str, Any], role: Role | None) -> ResourceDocument:
    """Return a scheduler's Resource in the format that the master keeps: reservations stacked, allocated to `role`.

    An allocation that the scheduler states itself is kept; validation compares it. Values stay as they were written.
    """
    document = {key: value for key, value in resource.items() if key not in ("role", "reservation")}
    reserved_for = resource.get("role", "*")
    if not document.get("reservations") and reserved_for != "*":
        dynamic = resource.get("reservation")
        kind = "STATIC" if dynamic is None else "DYNAMIC"
        document["reservations"] = [{"type": kind, "role": reserved_for, **(dynamic or {})}]
    if role is not None:
        document.setdefault("allocation_info", {"role": role})
    return cast(ResourceDocument, document)


def _apply(
    state: MasterState,
    agent: Agent,
    operation: Document,
    changes: Sequence[Conversion],
    framework_id: FrameworkId | None,
) -> list[Action]:
    agent.total = applied(agent.total, unallocated(changes))
    state.touch(agent)
    kind = str(operation["type"])
    count(state, kind, "total")
    if "RESOURCE_PROVIDER" not in agent.capabilities:
        count(state, kind, "OPERATION_FINISHED")
        return [KeepResources(agent.id)]
    name = state.ids.operation()
    document: Document = {"agent_id": {"value": agent.id}, "info": operation, "uuid": {"value": name}}
    document["latest_status"] = {"state": "OPERATION_PENDING"}
    if "id" in operation:
        document["latest_status"]["operation_id"] = operation["id"]
    if framework_id is not None:
        document["framework_id"] = {"value": framework_id}
    agent.operations[name] = Operation(document)
    return [ApplyOperation(agent.id, name, operation, framework_id)]


def _invalid(agent: Agent, operation: Mapping[str, Any]) -> str:
    """Return how the answer to an operator begins: of what takes away, Mesos does not say where."""
    where = "" if operation["type"] in ("UNRESERVE", "DESTROY") else f" on agent {named(agent)}"
    return f"Invalid {operation['type']} operation{where}"


def _withdraw(state: MasterState, agent: Agent, changes: Sequence[Conversion]) -> list[Action]:
    """Take back the offers of shared volumes that are about to vanish; others may be offered them, too."""
    shared = [volume for change in changes if change.last for volume in change.consumed if volume.shared]
    if not shared:
        return []
    holding = [offer for offer in agent.offers.values() if uses(offer.resources, shared)]
    return [action for offer in holding for action in state.rescind(offer)]


def _possible(free: Resources, changes: Sequence[Conversion]) -> bool:
    try:
        applied(free, changes)
    except BadResources:
        return False
    return True


def _wanted(changes: Sequence[Conversion]) -> Resources:
    return Resources(resource for change in changes for resource in change.consumed)


def _reconciled(state: MasterState, framework: Framework, asked: Mapping[str, Any]) -> list[Action]:
    agent_id = asked.get("agent_id", {}).get("value")
    agents = [state.agents[agent_id]] if agent_id in state.agents else []
    if agent_id is None:
        agents = list(state.agents.values())
    found = next(filter(None, (find(agent, framework.id, asked["operation_id"]["value"]) for agent in agents)), None)
    if found is not None:
        answer, message, agent_id = found.state, LATEST, found.agent_id
    elif agent_id is None:
        answer, message = "OPERATION_UNKNOWN", "Reconciliation: Operation is unknown and no 'agent_id' was provided"
    elif agent_id in state.recovered:
        answer = "OPERATION_RECOVERING"
        message = "Reconciliation: Agent is recovered but has not re-registered"
    elif agent_id in state.agents:
        answer, message = "OPERATION_UNKNOWN", "Reconciliation: Operation is unknown"
    elif agent_id in state.gone:
        answer, message = "OPERATION_GONE_BY_OPERATOR", "Reconciliation: Agent marked gone by operator"
    elif agent_id in state.unreachable:
        answer, message = "OPERATION_UNREACHABLE", "Reconciliation: Agent is unreachable"
    else:
        answer, message = "OPERATION_UNKNOWN", "Reconciliation: Both operation and agent are unknown"
    status: Document = {"operation_id": asked["operation_id"], "state": answer, "message": message}
    if agent_id is not None:
        status["agent_id"] = {"value": agent_id}
    return state.tell(framework, "UPDATE_OPERATION_STATUS", {"status": status})
