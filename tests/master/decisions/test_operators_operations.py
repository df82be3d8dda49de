"""What operators reserve and free, what is shown and counted of it, and agents that are given up."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from mesos_gpu.errors import BadInput, Conflict
from mesos_gpu.master.decisions import operations
from mesos_gpu.master.decisions.operation_metrics import of_operations
from mesos_gpu.master.state.actions import (
    AcknowledgeOperation,
    Action,
    AgentReregistered,
    ApplyOperation,
    ShutdownAgent,
    Warn,
)
from mesos_gpu.master.views.views import slaves_view
from mesos_gpu.master.views.views_v1 import get_agents
from mesos_gpu.mesos.resource import Document, Reservation, Resource
from mesos_gpu.mesos.resources import Resources
from tests.support import places
from tests.support.master.at_once import agents, draining
from tests.support.master.build import (
    NOW,
    UUID,
    add_framework,
    check_books,
    events,
    new_state,
    offers,
    recorded,
    report,
    resources_of,
    statuses,
    task_info,
)
from tests.support.master.operations import ROLE, World, dynamic, operation, volume
from tests.support.master.shapes import differences


def operate(world: World, asked: Document) -> list[Action]:
    try:
        return operations.operate(world.state, world.agent, asked)
    finally:
        check_books(world.state)


def test_an_operator_takes_offers_back_that_stand_in_the_way_and_no_others(world: World) -> None:
    offer = world.offer()
    actions = operate(world, operation("RESERVE", dynamic("gpus", 2), name=None))
    assert [e["type"] for e in events(actions)] == ["RESCIND"]
    applied = actions[-1]
    assert isinstance(applied, ApplyOperation)
    assert applied.framework_id is None
    assert offer.id not in world.framework.offers
    assert world.report(applied) == [AcknowledgeOperation(world.agent.id, UUID, applied.uuid)]
    free = operate(world, operation("RESERVE", dynamic("gpus", 2), name=None))
    assert events(free) == [], "they were free"
    assert world.agent.total.reserved(ROLE).gpus == 4


def test_an_operator_takes_back_no_more_offers_than_needed() -> None:
    state = new_state()
    agents.register(state, report("cpus:2;mem:2048;gpus:1;gpus(web):1"))
    (agent,) = state.agents.values()
    for role in (ROLE, "web"):
        add_framework(state, capabilities="GPU_RESOURCES", role=role)
        offers(state)
    first, second = agent.offers
    actions = operations.operate(state, agent, operation("RESERVE", dynamic("gpus", 1), name=None))
    rescinded = [body["offer_id"]["value"] for body in events(actions, "RESCIND")]
    assert (rescinded, list(agent.offers)) == ([first], [second])
    check_books(state)


def test_an_operator_does_not_get_what_tasks_use(world: World) -> None:
    world.accept({"type": "LAUNCH", "launch": {"task_infos": [task_info(world.agent, "t")]}})
    offer = world.offer()
    before = world.agent.total
    with pytest.raises(Conflict, match="does not contain gpus:4"):
        operate(world, operation("RESERVE", dynamic("gpus", 4), name=None))
    assert world.agent.total == before
    assert offer.id in world.framework.offers, "and nobody loses an offer for it"


def test_an_operators_mistake_is_no_conflict(world: World) -> None:
    allocated = dynamic("gpus", 1, allocation_info={"role": ROLE})
    for asked in (operation("RESERVE", allocated, name=None), operation("DESTROY", volume(), name=None)):
        before = world.agent.total
        with pytest.raises(BadInput) as refusal:
            operate(world, asked)
        where = (
            f" on agent {world.agent.id} at slave(1)@127.0.0.1:5051 (127.0.0.1)" if asked["type"] == "RESERVE" else ""
        )
        assert str(refusal.value).startswith(f"Invalid {asked['type']} operation{where}: ")
        assert world.agent.total == before


def test_gpus_of_a_role_are_offered_to_it_alone() -> None:
    state = new_state()
    agents.register(state, report("cpus:2;mem:2048;gpus:1;gpus(slave_public):2;gpus(web):1"))
    add_framework(state, capabilities="GPU_RESOURCES", role=ROLE)
    (offer,) = offers(state)
    assert {(r.name, r.role): r.amount for r in offer.resources if r.name == "gpus"} == {
        ("gpus", "*"): 1000,
        ("gpus", ROLE): 2000,
    }
    check_books(state)


def test_an_agent_whose_reservations_are_not_of_its_resources_is_sent_away(world: World) -> None:
    actions = world.again(kept=[dynamic("gpus", 5)])
    (shutdown,) = actions
    assert isinstance(shutdown, ShutdownAgent)
    assert not any(isinstance(action, AgentReregistered) for action in actions)
    said = replace(report(port=5052), kept=[dynamic("gpus", 5)])
    (warning,) = agents.register(world.state, said)
    assert isinstance(warning, Warn)


def test_an_operation_on_an_agent_that_an_operator_gives_up_is_gone_with_it(world: World) -> None:
    world.accept(operation("RESERVE", dynamic("gpus", 1)))
    told = events(draining.mark_gone(world.state, world.agent.id, NOW), "UPDATE_OPERATION_STATUS")
    assert [e["status"]["state"] for e in told] == ["OPERATION_GONE_BY_OPERATOR"]


def test_what_is_kept_is_shown_as_recorded(world: World) -> None:
    world.done(operation("RESERVE", dynamic("gpus", 1), dynamic("disk", 64)))
    world.done(operation("CREATE", volume()))
    both = {"role": ROLE, "reservation": {}}
    (slave,) = slaves_view(world.state, None)["slaves"]
    assert slave["reserved_resources_full"] == {ROLE: [{**dynamic("gpus", 1.0), **both}, {**volume(), **both}]}
    (agent,) = get_agents(world.state)["agents"]
    assert {**volume(), **both} in agent["total_resources"]
    assert all("reservations" not in r for r in agent["agent_info"]["resources"])


def test_a_task_may_not_name_a_volume_twice(world: World) -> None:
    task = task_info(world.agent, "t") | {"resources": [*resources_of("cpus:0.1"), volume(), volume()]}
    (refused,) = statuses(world.accept({"type": "LAUNCH", "launch": {"task_infos": [task]}}))
    assert refused["message"] == "Task uses duplicate persistence ID: Persistence ID 'vol-1' is not unique"


def test_resources_of_two_offers_of_one_agent_make_one_reservation(world: World) -> None:
    ml = Resource("gpus", 4000, (Reservation(ROLE, "DYNAMIC"),))
    applied = world.done(operation("RESERVE", ml.to_json(refined=True)))
    assert len(applied) == 1
    assert world.agent.total.reserved(ROLE) == Resources([ml])
    assert world.offer().resources.gpus == 4


RECORDED = json.loads((places.RECORDED / "reservations.json").read_text())


def by_name_and_role(document: Any) -> Any:
    """Lists of resources as objects: two of one name are told apart by the role."""
    if isinstance(document, dict):
        return {key: by_name_and_role(value) for key, value in document.items()}
    if isinstance(document, list) and document and "type" in document[0] and "role" in document[0]:
        return {f"{item['name']} {item['role']}": item for item in document}
    return [by_name_and_role(item) for item in document] if isinstance(document, list) else document


def test_slaves_and_get_agents_have_the_shape_of_the_recorded_ones(world: World) -> None:
    attributes = [{"name": name, "type": "TEXT", "text": {"value": "x"}} for name in ("gpu_model", "rack")]
    world.agent.info["attributes"] = attributes
    world.done(operation("RESERVE", dynamic("cpus", 0.5), dynamic("gpus", 1), dynamic("disk", 64)))
    world.done(operation("CREATE", volume()))
    world.offer()
    ours, real = slaves_view(world.state, None), RECORDED["/slaves"]
    assert differences(by_name_and_role(ours), by_name_and_role(real)) == []
    mine, theirs = ours["slaves"][0], real["slaves"][0]
    assert mine["reserved_resources"] == theirs["reserved_resources"]
    assert mine["reserved_resources_full"] == theirs["reserved_resources_full"]
    for name in ("unreserved_resources", "offered_resources", "used_resources"):
        assert {n: mine[name][n] for n in ("gpus", "cpus")} == {n: theirs[name][n] for n in ("gpus", "cpus")}
    agents_real = RECORDED["GET_AGENTS"]["get_agents"]
    assert differences(by_name_and_role(get_agents(world.state)), by_name_and_role(agents_real)) == []


def test_operations_are_counted_under_the_recorded_names(world: World) -> None:
    world.done(operation("RESERVE", dynamic("gpus", 1)))
    world.refused(operation("UNRESERVE", dynamic("cpus", 99)))
    world.accept(operation("UNRESERVE", dynamic("gpus", 1)))
    shown = of_operations(world.state)
    real = recorded()["get"]["running"]["/metrics/snapshot"]["body"]
    assert set(shown) == {name for name in real if name.startswith("master/operations/")}
    assert {name: number for name, number in shown.items() if number} == {
        "master/operations/total": 2.0,
        "master/operations/finished": 1.0,
        "master/operations/error": 1.0,
        "master/operations/pending": 1.0,
        "master/operations/reserve/total": 1.0,
        "master/operations/reserve/finished": 1.0,
        "master/operations/unreserve/total": 1.0,
        "master/operations/unreserve/error": 1.0,
        "master/operations/unreserve/pending": 1.0,
    }
