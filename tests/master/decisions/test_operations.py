"""RESERVE, CREATE and their kin: recorded words, exact books, and every status heard."""

from __future__ import annotations

import base64
import copy
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import BadInput
from mesos_gpu.master.decisions import launching, operations, subscriptions, updates
from mesos_gpu.master.decisions.operations import operate
from mesos_gpu.master.state.actions import (
    AcknowledgeOperation,
    Action,
    ApplyOperation,
    KeepResources,
    ReconcileOperations,
    RunTask,
    Warn,
)
from mesos_gpu.master.views.views import slaves_view
from mesos_gpu.master.views.views_v1 import get_operations
from mesos_gpu.mesos import messages
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.resources import Resources
from tests.support.master.at_once import agents
from tests.support.master.build import (
    NOW,
    UUID,
    check_books,
    events,
    resources_of,
    status,
    task_info,
)
from tests.support.master.operations import CAPABLE, ROLE, World, dynamic, operation, volume

OTHER = "v0G8fQ3UQTWlVmX1PbUoWA=="


def test_the_recorded_session_of_a_framework_with_a_volume(world: World) -> None:
    gpu, disk = [dynamic("cpus", 0.5), dynamic("gpus", 1)], dynamic("disk", 64)
    whole = world.agent.total
    for asked, reserved in (
        (operation("RESERVE", *gpu), {"cpus": 0.5, "gpus": 1.0, "disk": 0.0}),
        (operation("RESERVE", disk), {"cpus": 0.5, "gpus": 1.0, "disk": 64.0}),
        (operation("CREATE", volume()), {"cpus": 0.5, "gpus": 1.0, "disk": 64.0}),
        (operation("DESTROY", volume()), {"cpus": 0.5, "gpus": 1.0, "disk": 64.0}),
        (operation("UNRESERVE", *gpu), {"cpus": 0.0, "gpus": 0.0, "disk": 64.0}),
        (operation("UNRESERVE", disk), None),
    ):
        world.done(asked)
        (shown,) = slaves_view(world.state, None)["slaves"]
        assert shown["resources"] == whole.summary(), "what there is does not change"
        if reserved is None:
            assert shown["reserved_resources"] == {}
        else:
            assert {**shown["reserved_resources"][ROLE], **reserved} == shown["reserved_resources"][ROLE]
            assert shown["unreserved_resources"]["gpus"] == 4.0 - reserved["gpus"]
    assert world.agent.total == whole


def test_the_status_goes_to_the_framework_as_recorded_and_its_acknowledgement_to_the_agent(world: World) -> None:
    (applied,) = world.accept(operation("RESERVE", dynamic("gpus", 1), name="op-1"))
    assert isinstance(applied, ApplyOperation)
    assert len(base64.b64decode(applied.uuid)) == 16
    assert applied.framework_id == world.framework.id
    assert get_operations(world.state)["operations"][0]["latest_status"]["state"] == "OPERATION_PENDING"
    (event,) = events(world.report(applied), "UPDATE_OPERATION_STATUS")
    assert event["status"] == {
        "operation_id": {"value": "op-1"},
        "state": "OPERATION_FINISHED",
        "agent_id": {"value": world.agent.id},
        "uuid": {"value": UUID},
    }
    assert world.acknowledge(applied, OTHER) == []
    assert world.acknowledge(applied) == [AcknowledgeOperation(world.agent.id, UUID, applied.uuid)]
    assert get_operations(world.state) == {}
    assert world.acknowledge(applied) == []


def test_an_operation_without_an_id_is_acknowledged_by_the_master(world: World) -> None:
    (applied,) = world.accept(operation("RESERVE", dynamic("gpus", 1), name=None))
    assert isinstance(applied, ApplyOperation)
    assert world.report(applied) == [AcknowledgeOperation(world.agent.id, UUID, applied.uuid)]
    assert world.agent.operations == {}


def test_so_is_one_whose_framework_is_gone(world: World) -> None:
    (applied,) = world.accept(operation("RESERVE", dynamic("gpus", 1)))
    subscriptions.remove_framework(world.state, world.framework, NOW)
    assert isinstance(applied, ApplyOperation)
    assert world.report(applied) == [AcknowledgeOperation(world.agent.id, UUID, applied.uuid)]
    assert world.agent.total.reserved(ROLE).gpus == 1, "the reservation outlives its framework"


def test_what_is_not_there_is_refused_in_the_recorded_form(world: World) -> None:
    message = world.refused(operation("UNRESERVE", dynamic("cpus", 99)))
    assert message.endswith(f"does not contain cpus(allocated: {ROLE})(reservations: [(DYNAMIC,{ROLE})]):99")
    assert message.startswith(f"cpus(allocated: {ROLE}):2; ")


def test_operations_and_launches_of_one_accept_see_what_was_done_before(world: World) -> None:
    resources = [*resources_of("cpus:0.1;mem:32"), dynamic("gpus", 1), volume()]
    task = task_info(world.agent, "t", resources="cpus:1") | {"resources": resources}
    actions = world.accept(
        operation("RESERVE", dynamic("gpus", 1), dynamic("disk", 64), name=None),
        operation("CREATE", volume(), name=None),
        {"type": "LAUNCH", "launch": {"task_infos": [task]}},
        operation("DESTROY", volume(), name="too-late"),
    )
    assert [type(a).__name__ for a in actions] == ["ApplyOperation", "ApplyOperation", "RunTask", "SendEvent"]
    (event,) = events(actions, "UPDATE_OPERATION_STATUS")
    where = f"{world.agent.id} at slave(1)@127.0.0.1:5051 (127.0.0.1)"
    assert event["status"]["message"] == f"Persistent volumes in use; on agent {where}"
    run = actions[2]
    assert isinstance(run, RunTask)
    assert Resources.from_json(run.task["resources"]).milli("disk") == 64000
    assert world.agent.free.reserved(ROLE) == Resources()
    assert world.offer().resources.gpus == 3


def test_a_volume_is_offered_again_when_its_task_has_ended(world: World) -> None:
    world.done(operation("RESERVE", dynamic("disk", 64)))
    world.done(operation("CREATE", volume()))
    disk = {"persistence": {"id": "vol-1"}, "volume": {"mode": "RO", "container_path": "/elsewhere"}}
    task = task_info(world.agent, "t") | {"resources": [*resources_of("cpus:0.1;mem:32"), {**volume(), "disk": disk}]}
    world.accept({"type": "LAUNCH", "launch": {"task_infos": [task]}})
    assert not [r for r in world.offer().resources if r.persistence_id]
    ended = status(world.agent, "t", "TASK_FINISHED")
    updates.status_update(world.state, world.agent.id, world.framework.id, ended, "TASK_FINISHED")
    (again,) = [r for r in world.offer().resources if r.persistence_id]
    assert again.disk["volume"]["container_path"] == "data", "as it was created"
    check_books(world.state)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (operation("RESERVE", {**dynamic("gpus", 1), "reservations": []}), "is not dynamically reserved"),
        (operation("RESERVE", dynamic("gpus", 0.5)), "must be an unsigned integer"),
        (operation("RESERVE", dynamic("gpus", 5)), "does not contain gpus(allocated: slave_public):5"),
        (
            operation("RESERVE", {**dynamic("gpus", 1), "reservations": [{"type": "DYNAMIC", "role": "else"}]}),
            "A reserve operation was attempted for a resource with role 'else', but the resource was allocated to role "
            "'slave_public'",
        ),
        (operation("RESERVE", volume()), "must already be reserved"),
        (operation("UNRESERVE", volume()), "cannot be unreserved directly. Please destroy the persistent volume first"),
        (operation("UNRESERVE", {**dynamic("gpus", 1), "reservations": []}), "is not dynamically reserved"),
        (operation("CREATE", dynamic("disk", 64)), "Not a persistent volume: Resource disk"),
        (
            operation("CREATE", volume(reservations=[])),
            "Persistent volumes cannot be created from unreserved resources",
        ),
        (operation("CREATE", volume(disk={"persistence": {"id": "v"}})), "Expecting 'volume' to be set"),
        (
            operation(
                "CREATE", volume(disk={"persistence": {"id": "v"}, "volume": {"mode": "RO", "container_path": "x"}})
            ),
            "Not a persistent volume: Read-only persistent volume not supported",
        ),
        (operation("CREATE", volume(name="../x")), "Invalid DiskInfo: Invalid persistence ID for persistent volume"),
        (operation("CREATE", volume(), volume()), "Persistence ID 'vol-1' is not unique"),
        (operation("CREATE", volume(shared={})), "no SHARED_RESOURCES capability"),
        (operation("CREATE", volume(disk={})), "DiskInfo is set but empty"),
        (operation("DESTROY", volume()), "Persistent volumes not found"),
        (operation("RESERVE", dynamic("gpus", 1, provider_id={"value": "p"})), "no resource providers"),
        (
            {"type": "CREATE_DISK", "id": {"value": "op"}, "create_disk": {"source": dynamic("disk", 1)}},
            "'source' is not managed by a resource provider",
        ),
        (
            {"type": "DESTROY_DISK", "id": {"value": "op"}, "destroy_disk": {"source": dynamic("disk", 1)}},
            "'source' is not managed by a resource provider",
        ),
        ({"type": "UNKNOWN", "id": {"value": "op"}}, "UNKNOWN is not supported by this master"),
    ],
)
def test_what_mesos_refuses_is_refused_in_its_words(world: World, asked: Document, words: str) -> None:
    assert words in world.refused(asked)


def test_a_persistence_id_is_taken_as_long_as_its_volume_lives(world: World) -> None:
    world.done(operation("RESERVE", dynamic("disk", 128)))
    world.done(operation("CREATE", volume()))
    assert world.refused(operation("CREATE", volume())).startswith("Persistence ID 'vol-1' is not unique; ")
    world.done(operation("DESTROY", volume()))
    world.done(operation("CREATE", volume()))


def test_a_volume_grows_and_shrinks_where_the_agent_can(world: World) -> None:
    world.done(operation("RESERVE", dynamic("disk", 128)))
    world.done(operation("CREATE", volume()))
    grow = {"type": "GROW_VOLUME", "grow_volume": {"volume": volume(), "addition": dynamic("disk", 64)}}
    world.done(grow)
    assert [r.amount for r in world.agent.total.kept()] == [128000]
    world.done({"type": "SHRINK_VOLUME", "shrink_volume": {"volume": volume(128.0), "subtract": {"value": 100.0}}})
    assert sorted(int(str(r.amount)) for r in world.agent.total.kept()) == [28000, 100000]
    world.agent.capabilities = tuple(c for c in CAPABLE if c != "RESIZE_VOLUME")
    assert "without RESIZE_VOLUME capability" in world.refused({**grow, "id": {"value": "x"}})


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"resources": []}, "Invalid resources: The resources have multiple resource providers: "),
        (
            {"resources": [dynamic("gpus", 1), dynamic("cpus", 1, reservations=[{"type": "STATIC", "role": ROLE}])]},
            "Invalid resources: Mixed reservations are not supported",
        ),
        (
            {"resources": [dynamic("gpus", 2)]},
            "Source and target resources should refer to identical resource quantities: gpus:1 vs. gpus:2",
        ),
        (
            {"resources": [dynamic("gpus", 1)], "source": [dynamic("gpus", 0.5)]},
            "Invalid source: Invalid 'gpus' resource",
        ),
    ],
)
def test_an_operators_reservation_takes_the_place_of_one_of_the_same_size(
    world: World, body: Document, words: str
) -> None:
    asked = {"type": "RESERVE", "reserve": {"source": [dynamic("gpus", 1)], **body}}
    with pytest.raises(BadInput) as refused:
        operate(world.state, world.agent, asked)
    assert words in str(refused.value)
    later = "Operation attempted with invalid resources: "
    later += "Reservation updates are not yet implemented for the scheduler API."
    of_framework = {**operation("RESERVE", dynamic("gpus", 1)), "id": {"value": "op"}}
    of_framework["reserve"]["source"] = [dynamic("gpus", 1)]
    assert world.refused(of_framework) == later


@pytest.mark.parametrize(
    ("kind", "body", "words"),
    [
        ("GROW", {"addition": dynamic("disk", 0)}, "The size of 'GrowVolume.addition' field must be greater than zero"),
        ("GROW", {"addition": dynamic("mem", 1)}, "Incompatible resources in the 'GrowVolume.volume' and"),
        (
            "GROW",
            {"volume": dynamic("disk", 1)},
            "Invalid persistent volume in the 'GrowVolume.volume' field: Resource",
        ),
        ("GROW", {"addition": dynamic("gpus", 0.1)}, "Invalid resource in the 'GrowVolume.addition' field: "),
        ("SHRINK", {"subtract": {"value": 0}}, "Value of 'ShrinkVolume.subtract' must be greater than zero"),
        ("SHRINK", {"subtract": {"value": 64}}, "must be smaller than the size of 'ShrinkVolume.volume'"),
        ("SHRINK", {"volume": volume(32.0), "subtract": {"value": 1}}, "Persistent volumes not found"),
    ],
)
def test_volumes_are_resized_as_far_as_mesos_lets_them(world: World, kind: str, body: Document, words: str) -> None:
    world.done(operation("RESERVE", dynamic("disk", 128)), operation("CREATE", volume(), name="c"))
    given = {"volume": volume(), "addition": dynamic("disk", 1), "subtract": {"value": 1}, **body}
    asked = {"type": f"{kind}_VOLUME", "id": {"value": "op"}, f"{kind.lower()}_volume": given}
    assert words in world.refused(asked)


def test_a_framework_names_itself_in_what_it_reserves() -> None:
    world = World()
    world.framework.info["principal"] = "alice"
    assert (
        "by principal 'alice', but there is a reserved resource in the request with no principal set"
        in world.refused(operation("RESERVE", dynamic("gpus", 1)))
    )
    bob = {**dynamic("gpus", 1), "reservations": [{"type": "DYNAMIC", "role": ROLE, "principal": "bob"}]}
    assert "does not match a reserved resource in the request with principal 'bob'" in world.refused(
        operation("RESERVE", bob)
    )
    alice = {**bob, "reservations": [{"type": "DYNAMIC", "role": ROLE, "principal": "alice"}]}
    world.done(operation("RESERVE", alice))


def test_a_reservation_of_a_reservation_needs_agent_and_framework_that_know_them() -> None:
    stack = [{"type": "DYNAMIC", "role": "slave"}, {"type": "DYNAMIC", "role": ROLE}]
    bad = operation("RESERVE", {**dynamic("gpus", 1), "reservations": stack})
    assert "role 'slave_public' is not a refinement of 'slave'" in World().refused(bad)
    below = [{"type": "STATIC", "role": "slave_public"}, {"type": "DYNAMIC", "role": "slave_public/a"}]
    refined = operation("RESERVE", {**dynamic("gpus", 1), "reservations": below})
    old_framework = World(framework="")
    old_framework.framework.info["roles"] = ["slave_public/a"]
    assert "by a framework without RESERVATION_REFINEMENT" in old_framework.refused(refined)
    old_agent = World([c for c in CAPABLE if c != "RESERVATION_REFINEMENT"])
    old_agent.framework.info["roles"] = ["slave_public/a"]
    assert "on an agent without RESERVATION_REFINEMENT" in old_agent.refused(refined)


def test_a_framework_of_the_older_format_reserves_in_it() -> None:
    world = World(framework="")
    old = {"name": "gpus", "type": "SCALAR", "scalar": {"value": 1.0}, "role": ROLE, "reservation": {}}
    world.done(operation("RESERVE", old))
    shown = [r for r in world.offer().document["resources"] if r["name"] == "gpus" and r["role"] == ROLE]
    assert shown == [{**old, "allocation_info": {"role": ROLE}}]
    world.done(operation("UNRESERVE", old))
    assert not world.agent.total.kept()


CALL = "mesos.v1.scheduler.Call"
STRANGE: list[Any] = [
    *(
        None,
        0,
        -1,
        1.5,
        1e308,
        True,
        "",
        "x",
        "..",
        "*",
        "a/b",
        "A" * 300,
        "RANGES",
        "SET",
        "DYNAMIC",
        "DOCKER",
        [],
        {},
    ),
    *({"value": "x"}, {"value": ""}, {"value": -1}, {"value": 0.0004}, {"value": 1e300}, {"nanoseconds": -5}),
    *({"range": [{"begin": 5, "end": 2}]}, [{"role": "x"}], [{"type": "DYNAMIC", "role": "slave_public"}, {}]),
]
VOLUME = volume(32.0, "there")
LIMITED: Document = {
    "command": {"value": "true", "environment": {"variables": [{"name": "A", "value": "b", "type": "VALUE"}]}},
    "container": {"type": "MESOS", "linux_info": {"share_cgroups": False}, "network_infos": [{"name": "x"}]},
    "kill_policy": {"grace_period": {"nanoseconds": 1}},
    "max_completion_time": {"nanoseconds": 10**10},
    "health_check": {"type": "COMMAND", "command": {"value": "true"}, "delay_seconds": 0},
    "check": {"type": "HTTP", "http": {"port": 80, "path": "/"}},
    "labels": {"labels": [{"key": "a", "value": "b"}]},
    "limits": {"mem": {"value": 64}},
}


def world_with_a_volume() -> World:
    """Return a master whose agent has a reservation and a volume."""
    made = World()
    made.accept(operation("RESERVE", dynamic("disk", 200.0), name=None), operation("CREATE", VOLUME, name=None))
    return made


def ordinary(made: World) -> list[Document]:
    task = {**task_info(made.agent, "t", "cpus:0.1;mem:32"), **LIMITED}
    executor: Document = {
        "type": "DEFAULT",
        "executor_id": {"value": "e"},
        "framework_id": {"value": made.framework.id},
        "resources": task_info(made.agent, "t", "cpus:0.1;mem:32;disk:8")["resources"],
    }
    custom = {**task, "executor": {**executor, "type": "CUSTOM", "command": {"value": "x"}}}
    del custom["command"], custom["limits"]
    free = {name: value for name, value in VOLUME.items() if name != "disk"}
    return [
        {"type": "LAUNCH", "launch": {"task_infos": [task]}},
        {"type": "LAUNCH", "launch": {"task_infos": [custom]}},
        {"type": "LAUNCH_GROUP", "launch_group": {"executor": executor, "task_group": {"tasks": [task]}}},
        operation("RESERVE", dynamic("cpus", 0.1)),
        operation("UNRESERVE", dynamic("disk", 1.0)),
        operation("CREATE", volume(5.0, "new")),
        operation("DESTROY", VOLUME),
        {"type": "GROW_VOLUME", "grow_volume": {"volume": VOLUME, "addition": free}},
        {"type": "SHRINK_VOLUME", "shrink_volume": {"volume": VOLUME, "subtract": {"value": 1}}},
    ]


def places(value: Any, so_far: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield (*so_far, key)
        yield from places(inner, (*so_far, key))


def damaged(document: Document, random: Random) -> Document:
    """Leave out or replace one to three things, anywhere."""
    made: Any = copy.deepcopy(document)
    for _ in range(random.choice((1, 1, 2, 3))):
        found = list(places(made))
        if not found:
            break
        *path, last = random.choice(found)
        around = made
        for key in path:
            around = around[key]
        if isinstance(around, dict) and random.random() < 0.35:
            del around[last]
        else:
            around[last] = copy.deepcopy(random.choice(STRANGE))
    return dict(made)


def accept(made: World, asked: Document) -> list[Action] | None:
    """Return what follows of a call with this operation, None when the call itself is refused."""
    body = {"offer_ids": [{"value": made.offer().id}], "operations": [asked]}
    call: Document = {"type": "ACCEPT", "framework_id": {"value": made.framework.id}, "accept": body}
    if messages.check(CALL, call) is not None:
        return None
    found = messages.normalize(CALL, call)["accept"]
    return launching.accept(made.state, made.framework, found, NOW)


@given(st.randoms(use_true_random=False))
def test_whatever_an_operation_looks_like_the_books_add_up(random: Random) -> None:
    made = world_with_a_volume()
    accept(made, damaged(random.choice(ordinary(made)), random))
    check_books(made.state)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"type": "GROW_VOLUME"}, "A GROW_VOLUME operation must have the Offer.Operation.grow_volume field set"),
        ({"type": "UNRESERVE"}, "An UNRESERVE offer operation must have the Offer.Operation.unreserve field set."),
        ({"type": "RESERVE", "reserve": {}}, "Invalid resources: The resources have multiple resource providers: ;"),
        (
            {"type": "SHRINK_VOLUME", "shrink_volume": {"volume": VOLUME, "subtract": {"value": 1e308}}},
            "'ShrinkVolume.subtract' is not an amount",
        ),
        (operation("RESERVE", dynamic("cpus", 1e308), name=None), "SCALAR"),
        (operation("RESERVE", {**dynamic("cpus", 1), "reservations": [{}]}, name=None), "Invalid reservation"),
    ],
)
def test_what_is_left_out_or_beyond_measure_is_refused_in_words(asked: Document, words: str) -> None:
    made = world_with_a_volume()
    actions = accept(made, {**asked, "id": {"value": "op"}})
    assert actions is not None
    (event,) = events(actions, "UPDATE_OPERATION_STATUS")
    assert words in event["status"]["message"]
    check_books(made.state)


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
