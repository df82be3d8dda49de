"""What agents that come back say of operations, and what frameworks hear who ask."""

from __future__ import annotations

from mesos_gpu.master.decisions import operations
from mesos_gpu.master.state.actions import (
    AcknowledgeOperation,
    ApplyOperation,
    KeepResources,
    ReconcileOperations,
    Warn,
)
from mesos_gpu.master.views.views_v1 import get_operations
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.resources import Resources
from tests.support.master.at_once import agents
from tests.support.master.build import (
    NOW,
    UUID,
    events,
)
from tests.support.master.operations import CAPABLE, ROLE, World, dynamic, operation, volume


def test_an_agent_without_operations_is_told_the_whole_list() -> None:
    world = World(CAPABLE[:3])
    assert "does not have the required RESOURCE_PROVIDER capability" in world.refused(
        operation("RESERVE", dynamic("gpus", 1))
    )
    assert world.accept(operation("RESERVE", dynamic("gpus", 1), name=None)) == [KeepResources(world.agent.id)]
    assert world.agent.operations == {}
    actions = world.again()
    assert KeepResources(world.agent.id) in actions, "also when it comes back"
    assert world.agent.total.reserved(ROLE).gpus == 1, "it may not have heard"


def test_an_agent_that_comes_back_knows_best_what_it_keeps(world: World) -> None:
    world.accept(operation("RESERVE", dynamic("gpus", 2)))
    world.again(kept=[dynamic("gpus", 1), volume()])
    assert world.agent.total.reserved(ROLE).gpus == 1
    assert world.agent.total.reserved(ROLE).milli("disk") == 64000
    assert Resources.from_json(world.agent.info["resources"]).kept() == Resources(), "flags are flags"


def test_operations_that_an_agent_does_not_list_are_asked_for(world: World) -> None:
    (applied,) = world.accept(operation("RESERVE", dynamic("gpus", 1), name="op-1"))
    assert isinstance(applied, ApplyOperation)
    pid = world.agent.pid
    assert agents.updated(world.state, world.agent.id, pid, UUID) == []
    assert agents.updated(world.state, world.agent.id, pid, UUID, []) == [
        ReconcileOperations(world.agent.id, (applied.uuid,))
    ]
    (event,) = events(world.report(applied, "OPERATION_DROPPED", uuid=None), "UPDATE_OPERATION_STATUS")
    assert event["status"]["state"] == "OPERATION_DROPPED"
    assert world.agent.operations == {}, "nobody acknowledges that"


def test_a_new_master_learns_the_operations_from_the_agent(world: World) -> None:
    (applied,) = world.accept(operation("RESERVE", dynamic("gpus", 1), name="op-1"))
    assert isinstance(applied, ApplyOperation)
    (document,) = get_operations(world.state)["operations"]
    later = World()
    later.framework.id = world.framework.id
    later.state.frameworks = {world.framework.id: later.framework}
    listed = [{**document, "agent_id": {"value": later.agent.id}}]
    assert agents.updated(later.state, later.agent.id, later.agent.pid, UUID, listed) == []
    assert events(later.report(applied), "UPDATE_OPERATION_STATUS")
    assert later.acknowledge(applied) == [AcknowledgeOperation(later.agent.id, UUID, applied.uuid)]


def test_a_status_of_an_operation_nobody_knows_is_ignored(world: World) -> None:
    (warning,) = operations.status_update(world.state, world.agent.id, UUID, {"state": "OPERATION_FINISHED"})
    assert isinstance(warning, Warn)


def answer(world: World, agent_id: str | None, name: str = "op") -> Document:
    asked: Document = {"operation_id": {"value": name}}
    asked |= {} if agent_id is None else {"agent_id": {"value": agent_id}}
    (event,) = events(operations.reconcile(world.state, world.framework, {"operations": [asked]}))
    status: Document = event["update_operation_status"]["status"]
    return status


def test_reconciliation_says_what_is_known(world: World) -> None:
    here = world.agent.id
    (applied,) = world.accept(operation("RESERVE", dynamic("gpus", 1)))
    assert isinstance(applied, ApplyOperation)
    assert (answer(world, here)["state"], answer(world, None)["state"]) == ("OPERATION_PENDING", "OPERATION_PENDING")
    world.report(applied)
    assert answer(world, here) == {
        "operation_id": {"value": "op"},
        "state": "OPERATION_FINISHED",
        "message": "Reconciliation: Latest operation state",
        "agent_id": {"value": here},
    }
    every = events(operations.reconcile(world.state, world.framework, {}), "UPDATE_OPERATION_STATUS")
    assert [e["status"]["state"] for e in every] == ["OPERATION_FINISHED"]
    assert answer(world, here, "x")["message"] == "Reconciliation: Operation is unknown"
    assert answer(world, None, "x")["message"].endswith("no 'agent_id' was provided")
    assert answer(world, "nowhere")["message"] == "Reconciliation: Both operation and agent are unknown"
    told = events(agents.unreachable(world.state, here, NOW), "UPDATE_OPERATION_STATUS")
    assert [e["status"]["state"] for e in told] == ["OPERATION_UNREACHABLE"]
    assert answer(world, here)["state"] == "OPERATION_UNREACHABLE"
    world.state.gone[here] = NOW.wall_s
    assert answer(world, here)["state"] == "OPERATION_GONE_BY_OPERATOR"
    del world.state.gone[here]
    world.state.recovered[here] = world.state.unreachable.pop(here)
    assert answer(world, here)["state"] == "OPERATION_RECOVERING"
