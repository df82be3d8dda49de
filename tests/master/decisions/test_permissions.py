from __future__ import annotations

import json
from typing import Any

import pytest

from mesos_gpu.errors import BadInput, Forbidden
from mesos_gpu.master.decisions import operations, permissions, subscriptions
from mesos_gpu.master.state.actions import CloseStream, RunTask
from mesos_gpu.master.state.settings import Settings
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.master.views import operator_events, views, views_v1
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.security.authorization import Acls, Principal, read_acls
from mesos_gpu.mesos.security.viewing import EVERYBODY, Viewer
from tests.support.master.build import (
    NOW,
    RULES,
    add_agent,
    add_framework,
    events,
    framework_info,
    launch,
    new_state,
    offers,
    statuses,
    task_info,
)

ANY = {"type": "ANY"}
OPS, EVE = Principal("ops"), Principal("eve")
RESERVED: Document = {
    "name": "cpus",
    "type": "SCALAR",
    "scalar": {"value": 1.0},
    "reservations": [{"type": "DYNAMIC", "role": "prod", "principal": "ops"}],
}
VOLUME: Document = {
    **RESERVED,
    "name": "disk",
    "disk": {
        "persistence": {"id": "v", "principal": "ops"},
        "volume": {"container_path": "v", "mode": "RW"},
    },
}


def acls(**lists: list[dict[str, Any]]) -> Acls:
    return read_acls("acls", json.dumps(lists))


def only(who: str, objects: str, *values: str) -> list[dict[str, Any]]:
    """A list that lets `who`, and nobody else, do an action to these objects (to any, when none is named)."""
    allowed = {"values": list(values)} if values else ANY
    return [
        {"principals": {"values": [who]}, objects: allowed},
        {"principals": {"type": "NONE"}, objects: allowed},
    ]


def state_with(judged: Acls) -> MasterState:
    state = new_state()
    state.settings = Settings(RULES, acls=judged)
    return state


CALLS: list[tuple[str, str, Document, str, tuple[str, ...]]] = [
    ("update_weights", "UPDATE_WEIGHTS", {"weight_infos": [{"role": "prod", "weight": 2.0}]}, "roles", ("prod",)),
    ("update_quotas", "UPDATE_QUOTA", {"quota_configs": [{"role": "prod"}]}, "roles", ("prod",)),
    ("update_quotas", "SET_QUOTA", {"quota_request": {"role": "prod"}}, "roles", ("prod",)),
    ("update_quotas", "REMOVE_QUOTA", {"role": "prod"}, "roles", ("prod",)),
    ("update_maintenance_schedules", "UPDATE_MAINTENANCE_SCHEDULE", {"schedule": {}}, "machines", ()),
    ("start_maintenances", "START_MAINTENANCE", {"machines": []}, "machines", ()),
    ("stop_maintenances", "STOP_MAINTENANCE", {"machines": []}, "machines", ()),
    ("drain_agents", "DRAIN_AGENT", {"agent_id": {"value": "a"}}, "agents", ()),
    ("mark_agents_gone", "DRAIN_AGENT", {"agent_id": {"value": "a"}, "mark_gone": True}, "agents", ()),
    ("deactivate_agents", "DEACTIVATE_AGENT", {"agent_id": {"value": "a"}}, "agents", ()),
    ("reactivate_agents", "REACTIVATE_AGENT", {"agent_id": {"value": "a"}}, "agents", ()),
    ("mark_agents_gone", "MARK_AGENT_GONE", {"agent_id": {"value": "a"}}, "agents", ()),
    ("set_log_level", "SET_LOGGING_LEVEL", {"level": 1}, "level", ()),
]


@pytest.mark.parametrize(("action", "kind", "body", "objects", "values"), CALLS)
def test_each_call_of_an_operator_needs_leave_for_its_own_action(
    action: str, kind: str, body: Document, objects: str, values: tuple[str, ...]
) -> None:
    state = state_with(acls(**{action: only("ops", objects, *values)}))
    assert permissions.may(state, OPS, kind, body)
    assert not permissions.may(state, EVE, kind, body)
    assert not permissions.may(state, None, kind, body)
    assert permissions.may(new_state(), None, kind, body)


def test_who_may_end_a_framework_depends_on_whose_it_is() -> None:
    state = state_with(acls(teardown_frameworks=only("ops", "framework_principals", "spark")))
    spark, other = add_framework(state, "a", principal="spark"), add_framework(state, "b")
    for framework, eve_may in ((spark, False), (other, True)):
        body = {"framework_id": {"value": framework.id}}
        assert permissions.may(state, OPS, "TEARDOWN", body)
        assert permissions.may(state, EVE, "TEARDOWN", body) is eve_may


OPERATIONS: list[tuple[str, str, str, Document]] = [
    ("reserve_resources", "roles", "prod", {"type": "RESERVE", "reserve": {"resources": [RESERVED]}}),
    (
        "unreserve_resources",
        "reserver_principals",
        "ops",
        {"type": "UNRESERVE", "unreserve": {"resources": [RESERVED]}},
    ),
    ("create_volumes", "roles", "prod", {"type": "CREATE", "create": {"volumes": [VOLUME]}}),
    ("destroy_volumes", "creator_principals", "ops", {"type": "DESTROY", "destroy": {"volumes": [VOLUME]}}),
    (
        "resize_volumes",
        "roles",
        "prod",
        {"type": "GROW_VOLUME", "grow_volume": {"volume": VOLUME, "addition": RESERVED}},
    ),
    ("resize_volumes", "roles", "prod", {"type": "SHRINK_VOLUME", "shrink_volume": {"volume": VOLUME}}),
]


@pytest.mark.parametrize(("action", "objects", "value", "operation"), OPERATIONS)
def test_operations_need_leave_for_the_role_or_for_whose_they_undo(
    action: str, objects: str, value: str, operation: Document
) -> None:
    state = state_with(acls(**{action: only("ops", objects, value)}))
    assert permissions.may_operate(state, OPS, operation)
    assert not permissions.may_operate(state, EVE, operation)
    framework = add_framework(state, principal="eve")
    name = action.upper().replace("VOLUMES", "VOLUME")
    words = f"Principal 'eve' no authorized to perform action {name} on object "
    assert permissions.operation_refusal(state, framework, operation) == words + json.dumps({"value": value}).replace(
        " ", ""
    )


def test_a_reservation_of_something_reserved_undoes_the_old_ones_first() -> None:
    judged = acls(
        unreserve_resources=only("ops", "reserver_principals", "alice"), reserve_resources=only("ops", "roles", "dev")
    )
    state = state_with(judged)
    source = {**RESERVED, "reservations": [{"type": "DYNAMIC", "role": "prod", "principal": "alice"}]}
    target = {**RESERVED, "reservations": [{"type": "DYNAMIC", "role": "dev", "principal": "eve"}]}
    for who, may in ((OPS, True), (EVE, False)):
        operation: Document = {"type": "RESERVE", "reserve": {"source": [source], "resources": [target]}}
        assert permissions.may_operate(state, who, operation) is may
    # What both have stays as it is: nobody is asked about it.
    deeper = {**RESERVED, "reservations": [*source["reservations"], {"type": "DYNAMIC", "role": "prod/x"}]}
    assert permissions.may_operate(
        state, EVE, {"type": "RESERVE", "reserve": {"source": [source], "resources": [deeper]}}
    )


def test_an_operator_without_leave_reserves_nothing_and_one_must_reserve_as_oneself() -> None:
    state = state_with(acls(reserve_resources=only("ops", "roles", "prod")))
    agent = add_agent(state)
    operation: Document = {"type": "RESERVE", "reserve": {"resources": [RESERVED]}}
    with pytest.raises(Forbidden):
        operations.operate(state, agent, operation, None)
    with pytest.raises(BadInput, match="attempted by authenticated principal 'eve'"):
        operations.operate(state, agent, operation, EVE)
    assert agent.total.reserved_roles() == ()
    assert operations.operate(state, agent, operation, OPS)
    assert agent.total.reserved_roles() == ("prod",)


def test_a_framework_subscribes_only_with_roles_that_its_principal_may_have() -> None:
    state = state_with(acls(register_frameworks=only("spark", "roles", "prod")))
    info = framework_info(capabilities="MULTI_ROLE", roles=["prod", "dev"], principal="eve")
    actions = subscriptions.subscribe(state, "s", {"framework_info": info}, NOW)
    [error] = events(actions, "ERROR")
    assert error["message"] == "Not authorized to register framework  with roles { dev, prod }"
    assert CloseStream("s") in actions
    assert not state.frameworks
    framework = add_framework(state, capabilities="MULTI_ROLE", roles=["dev"], principal="eve")
    with pytest.raises(Forbidden, match=f"register framework {framework.id} with roles {{ prod }}"):
        subscriptions.update_framework(state, framework, {"framework_info": {**framework.info, "roles": ["prod"]}})
    assert framework.roles == ("dev",)
    assert add_framework(state, "good", capabilities="MULTI_ROLE", roles=["prod"], principal="spark").roles == ("prod",)


def test_a_task_runs_only_as_a_user_that_its_framework_may_use() -> None:
    state = state_with(acls(run_tasks=only("spark", "users", "root")))
    agent = add_agent(state)
    framework = add_framework(state, principal="eve")
    [offer] = offers(state)
    good = task_info(agent, "good", command={"value": "true", "user": "nobody"})
    actions = launch(state, offer, task_info(agent, "bad"), good)
    [status] = statuses(actions)
    assert (status["state"], status["reason"]) == ("TASK_ERROR", "REASON_TASK_UNAUTHORIZED")
    words = f"Principal 'eve' no authorized to launch task bad of framework {framework.id} under user 'root'"
    assert status["message"] == words
    [run] = [action for action in actions if isinstance(action, RunTask)]
    assert run.task["task_id"] == {"value": "good"}


def test_an_agent_needs_leave_to_register_and_for_what_its_flags_reserve() -> None:
    info = {"resources": [{"name": "cpus", "type": "SCALAR", "scalar": {"value": 1.0}, "role": "prod"}]}
    state = state_with(acls(register_agents=only("agents", "agents")))
    assert permissions.registration_refusal(state, Principal("agents"), info) is None
    resources = "cpus(reservations: [(STATIC,prod)]):1"
    words = f"Not authorized to register agent providing resources '{resources}' without a principal"
    assert permissions.registration_refusal(state, None, info) == words
    state = state_with(acls(reserve_resources=only("agents", "roles", "prod")))
    refusal = permissions.registration_refusal(state, EVE, info)
    assert refusal is not None
    assert refusal.endswith("with principal 'eve'")
    assert permissions.registration_refusal(state, EVE, {"resources": [{**info["resources"][0], "role": "*"}]}) is None


# --- what is shown ---


@pytest.fixture
def shared() -> MasterState:
    """Alice's and bob's frameworks, a task of each, and one of alice's that runs as bob."""
    state = new_state()
    for number, name in enumerate(("alice", "bob")):
        agent = add_agent(state, f"cpus({name}):2;mem({name}):512", port=6000 + number)
        framework = add_framework(state, name, user=name, capabilities="MULTI_ROLE", roles=[name])
        offer = next(
            offer for offer in offers(state) if offer.agent_id == agent.id and offer.framework_id == framework.id
        )
        launch(state, offer, task_info(agent, f"of-{name}", f"cpus({name}):0.1;mem({name}):32"))
    return state


def viewer(**lists: list[dict[str, Any]]) -> Viewer:
    return Viewer(acls(**lists), Principal("alice"))


def names(document: Document, *path: str) -> list[str]:
    found: Any = document
    for key in path:
        found = found[key]
    return sorted(item.get("name") or item["framework_info"]["name"] for item in found)


SEES_FRAMEWORKS = {"view_frameworks": only("nobody", "users", "bob")}
SEES_TASKS = {"view_tasks": only("nobody", "users", "bob")}
SEES_ROLES = {"view_roles": only("nobody", "roles", "bob")}


def test_frameworks_of_others_are_shown_nowhere(shared: MasterState) -> None:
    alice = viewer(**SEES_FRAMEWORKS)
    for sees, expected in ((EVERYBODY, ["alice", "bob"]), (alice, ["alice"])):
        shown = [
            names(views.state_view(shared, {}, {}, None, sees), "frameworks"),
            names(views.summary_view(shared, None, sees), "frameworks"),
            names(views.frameworks_view(shared, None, sees), "frameworks"),
            names(views_v1.get_frameworks(shared, sees), "frameworks"),
            names(views_v1.get_state(shared, sees), "get_frameworks", "frameworks"),
        ]
        assert shown == [expected] * len(shown)
        tasks = [f"of-{name}" for name in expected]
        assert names(views.tasks_view(shared, viewer=sees), "tasks") == tasks
        assert names(views_v1.get_tasks(shared, sees), "tasks") == tasks


def test_tasks_of_others_are_left_out_of_their_frameworks(shared: MasterState) -> None:
    alice = viewer(**SEES_TASKS)
    frameworks = views.state_view(shared, {}, {}, None, alice)["frameworks"]
    assert {f["name"]: names(f, "tasks") for f in frameworks} == {"alice": ["of-alice"], "bob": []}
    assert names(views_v1.get_tasks(shared, alice), "tasks") == ["of-alice"]
    assert names(views.tasks_view(shared, viewer=alice), "tasks") == ["of-alice"]


def test_roles_of_others_are_left_out_with_what_is_reserved_for_them(shared: MasterState) -> None:
    alice = viewer(**SEES_ROLES)
    assert [role["name"] for role in views.roles_view(shared, alice)["roles"]] == ["alice"]
    assert [role["name"] for role in views_v1.get_roles(shared, alice)["roles"]] == ["alice"]
    for shown in (
        views.slaves_view(shared, None, alice),
        views.state_view(shared, {}, {}, None, alice)["slaves"],
        views_v1.get_agents(shared, alice),
    ):
        text = json.dumps(shown)
        assert '"alice"' in text
        assert '"bob"' not in text


def test_flags_are_shown_only_to_who_may_see_them(shared: MasterState) -> None:
    nobody = viewer(view_flags=only("ops", "flags"))
    for sees, shown in ((EVERYBODY, True), (nobody, False)):
        document = views.state_view(shared, {}, {"zk": "x"}, "a cluster", sees)
        assert ("flags" in document, "cluster" in document) == (shown, shown)


def test_events_about_what_somebody_may_not_see_do_not_reach_him(shared: MasterState) -> None:
    shared.watched = True
    agent = next(iter(shared.agents.values()))
    for framework in shared.frameworks.values():
        shared.announce("FRAMEWORK_UPDATED", framework)
    shared.announce("AGENT_ADDED", agent)
    happened = operator_events.take(shared)
    for name, framework in zip(("alice", "bob"), shared.frameworks.values(), strict=True):
        [task] = framework.tasks.values()
        happened.append({"type": "TASK_ADDED", "task_added": {"task": task.document}})
        update = {"framework_id": {"value": framework.id}, "status": {"task_id": {"value": f"of-{name}"}}}
        happened.append({"type": "TASK_UPDATED", "task_updated": update})
        happened.append({"type": "FRAMEWORK_REMOVED", "framework_removed": {"framework_info": framework.info}})

    def kinds(sees: Viewer) -> list[str]:
        found = [operator_events.seen(shared, event, sees) for event in happened]
        return sorted(event["type"] for event in found if event is not None)

    all_kinds = kinds(EVERYBODY)
    assert len(all_kinds) == 9
    assert kinds(viewer(**SEES_FRAMEWORKS)) == [
        "AGENT_ADDED",
        "FRAMEWORK_REMOVED",
        "FRAMEWORK_UPDATED",
        "TASK_ADDED",
        "TASK_UPDATED",
    ]
    assert kinds(viewer(**SEES_TASKS)).count("TASK_UPDATED") == 1
    seen = [operator_events.seen(shared, event, viewer(**SEES_ROLES)) for event in happened]
    [added] = [event for event in seen if event is not None and event["type"] == "AGENT_ADDED"]
    assert '"bob"' not in json.dumps(added)
