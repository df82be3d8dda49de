"""The operator API's answers, as somebody sees them who may not see everything."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mesos_gpu.master.decisions import launching, subscriptions
from mesos_gpu.master.model.documents import Operation
from mesos_gpu.master.model.model import Agent, Framework
from mesos_gpu.master.state.state import MasterState, News
from mesos_gpu.master.views import operator_events, views_v1
from mesos_gpu.master.views.agent_pages import AT_ONCE, AgentPages
from mesos_gpu.master.views.views import slaves_view
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.security.authorization import Principal, read_acls
from mesos_gpu.mesos.security.viewing import EVERYBODY, Viewer
from mesos_gpu.process.http import to_json
from tests.support.master.build import (
    NOW,
    UUID,
    add_agent,
    add_framework,
    later,
    new_state,
    offers,
    task_info,
)

ML = {"name": "cpus", "type": "SCALAR", "scalar": {"value": 1.0}, "reservations": [{"type": "DYNAMIC", "role": "ml"}]}
HR = {**ML, "reservations": [{"type": "DYNAMIC", "role": "hr"}]}
RESOURCES = "cpus:2;gpus:2;mem:1024;cpus(ml):1;cpus(hr):1;ports:[31000-31009]"


def viewer(action: str, objects: str, *values: str) -> Viewer:
    """Return an `eve` who may do something about these objects only."""
    lists = [{"principals": {"values": ["eve"]}, objects: {"values": list(values)}}] if values else []
    none = {"principals": {"values": ["eve"]}, objects: {"type": "NONE"}}
    return Viewer(read_acls("acls", json.dumps({action: [*lists, none]})), Principal("eve"))


@pytest.fixture
def state() -> MasterState:
    return new_state()


@pytest.fixture
def agent(state: MasterState) -> Agent:
    return add_agent(state, RESOURCES)


@pytest.fixture
def framework(state: MasterState, agent: Agent) -> Framework:
    """One whose own executor runs a task as alice."""
    made = add_framework(state, user="root")
    [offer] = offers(state)
    executor = {
        "executor_id": {"value": "e"},
        "framework_id": {"value": made.id},
        "command": {"value": "./e", "user": "alice"},
        "resources": [{"name": "cpus", "type": "SCALAR", "scalar": {"value": 0.1}}],
    }
    task = task_info(agent, "t", executor=executor)
    operation = {"type": "LAUNCH", "launch": {"task_infos": [task]}}
    launching.accept(state, made, {"offer_ids": [{"value": offer.id}], "operations": [operation]}, NOW)
    assert set(made.tasks) == {"t"}
    return made


def operation(kind: str, **body: Any) -> Operation:
    info = {"type": kind, kind.lower(): body}
    return Operation({"uuid": {"value": kind}, "info": info, "latest_status": {"state": "OPERATION_PENDING"}})


def test_without_operations_there_is_no_list_of_them(state: MasterState, agent: Agent) -> None:
    assert views_v1.get_operations(state) == {}


def test_an_operation_is_shown_to_whom_all_its_resources_are(state: MasterState, agent: Agent) -> None:
    mine = [operation("RESERVE", resources=[ML]), operation("GROW_VOLUME", volume=ML, addition=ML)]
    theirs = [operation("CREATE", volumes=[ML, HR]), operation("SHRINK_VOLUME", volume=HR)]
    agent.operations = {one.uuid: one for one in (*mine, *theirs)}
    eve = viewer("view_roles", "roles", "ml")
    assert views_v1.get_operations(state, eve) == {"operations": [one.document for one in mine]}
    assert len(views_v1.get_operations(state)["operations"]) == 4
    agent.operations = {one.uuid: one for one in theirs}
    assert views_v1.get_operations(state, eve) == {}


def test_agents_are_shown_with_resources_of_roles_that_somebody_may_see(state: MasterState, agent: Agent) -> None:
    eve = viewer("view_roles", "roles", "ml", "*")
    [shown] = views_v1.get_agents(state, eve)["agents"]
    for found in (shown["agent_info"]["resources"], shown["total_resources"]):
        roles = {one["reservations"][0]["role"] for one in found if one.get("reservations")}
        assert roles == {"ml"}
    [whole] = views_v1.get_agents(state)["agents"]
    assert "hr" in json.dumps(whole["agent_info"]["resources"])
    assert "reregistered_time" not in shown
    agent.reregistered_s = 7.5
    assert views_v1.get_agents(state)["agents"][0]["reregistered_time"] == {"nanoseconds": 7_500_000_000}


def test_an_executor_is_seen_with_its_framework_and_of_a_lost_one_by_who_sees_all(
    state: MasterState, framework: Framework
) -> None:
    def seen(who: Viewer) -> list[str]:
        return [one["executor_info"]["executor_id"]["value"] for one in views_v1.get_executors(state, who)["executors"]]

    assert seen(EVERYBODY) == ["e"]
    assert seen(viewer("view_executors", "users", "alice")) == ["e"]
    assert seen(viewer("view_executors", "users", "bob")) == []
    assert seen(viewer("view_frameworks", "users", "bob")) == []
    del state.frameworks[framework.id]
    assert seen(EVERYBODY) == ["e"]
    assert seen(viewer("view_executors", "users", "alice")) == [], "nobody knows whose it is"


def test_a_framework_that_has_ended_is_shown_with_when(state: MasterState, framework: Framework) -> None:
    framework.unregistered_s = 12.0
    [shown] = views_v1.get_frameworks(state)["frameworks"]
    assert shown["unregistered_time"] == {"nanoseconds": 12_000_000_000}
    assert shown["reregistered_time"] == shown["registered_time"]
    framework.reregistered_s = 13.0
    assert views_v1.get_frameworks(state)["frameworks"][0]["reregistered_time"] == {"nanoseconds": 13_000_000_000}


def test_a_role_is_shown_with_what_its_frameworks_hold(state: MasterState, framework: Framework) -> None:
    [shown] = [one for one in views_v1.get_roles(state)["roles"] if one["name"] == "*"]
    assert shown["frameworks"] == [{"value": framework.id}]
    assert {one["name"]: one["scalar"]["value"] for one in shown["resources"]}["gpus"] == 1.0
    assert views_v1.get_roles(state, viewer("view_roles", "roles", "none")) == {}


def happened(state: MasterState) -> dict[str, Document]:
    return {event["type"]: event for event in operator_events.take(state)}


def test_events_are_told_to_who_may_see_what_they_are_about(state: MasterState) -> None:
    state.watched = True
    agent = add_agent(state, RESOURCES)
    framework = add_framework(state, user="root")
    [offer] = offers(state)
    command = {"value": "true", "user": "alice"}
    operation = {"type": "LAUNCH", "launch": {"task_infos": [task_info(agent, "t", command=command)]}}
    launching.accept(state, framework, {"offer_ids": [{"value": offer.id}], "operations": [operation]}, NOW)
    status = {"task_id": {"value": "t"}, "state": "TASK_RUNNING", "uuid": UUID}
    state.announce_status(framework.tasks["t"], status)
    events = happened(state)
    assert set(events) >= {"AGENT_ADDED", "FRAMEWORK_ADDED", "TASK_ADDED", "TASK_UPDATED"}

    def seen(kind: str, who: Viewer) -> Document | None:
        return operator_events.seen(state, events[kind], who)

    nobody = viewer("view_tasks", "users", "nobody")
    alice = viewer("view_tasks", "users", "alice")
    for kind in ("TASK_ADDED", "TASK_UPDATED"):
        assert seen(kind, EVERYBODY) == events[kind]
        assert seen(kind, alice) == events[kind]
        assert seen(kind, nobody) is None
    stranger = viewer("view_frameworks", "users", "bob")
    assert [seen(kind, stranger) for kind in ("FRAMEWORK_ADDED", "TASK_ADDED", "TASK_UPDATED")] == [None, None, None]
    ml = viewer("view_roles", "roles", "ml")
    for kind, field in (("AGENT_ADDED", "agent"), ("FRAMEWORK_ADDED", "framework")):
        shown = seen(kind, ml)
        assert shown is not None
        assert "hr" not in json.dumps(shown[kind.lower()][field])
    subscriptions.remove_framework(state, framework, later(1))
    events = happened(state)
    assert seen("FRAMEWORK_REMOVED", ml) == events["FRAMEWORK_REMOVED"]
    assert seen("FRAMEWORK_REMOVED", stranger) is None


def test_a_status_of_a_task_that_nobody_knows_any_more_is_for_who_sees_all(
    state: MasterState, framework: Framework
) -> None:
    body = {"framework_id": {"value": framework.id}, "status": {"task_id": {"value": "old"}}, "state": "TASK_LOST"}
    event = {"type": "TASK_UPDATED", "task_updated": body}
    assert operator_events.seen(state, event, EVERYBODY) == event
    assert operator_events.seen(state, event, viewer("view_tasks", "users", "alice")) is None
    assert operator_events.seen(state, {"type": "HEARTBEAT"}, viewer("view_tasks", "users")) == {"type": "HEARTBEAT"}


def test_news_of_a_kind_that_is_none_is_a_mistake_of_ours(state: MasterState) -> None:
    state.watched = True
    state.news.append(News("TASK_ADDED", add_agent(state)))
    with pytest.raises(ValueError, match=r"\bTASK_ADDED\b.*\bAgent\b"):
        operator_events.take(state)


def test_a_large_cluster_is_written_in_lots_and_others_may_change_it_in_between() -> None:
    state, pages = new_state(), AgentPages()
    agents = [add_agent(state, port=5051 + number) for number in range(2 * AT_ONCE + 1)]
    lots = 0
    for _ in pages.refresh(state):
        lots += 1
        agents[0].deactivated = lots % 2 == 1
        state.agents.pop(agents[-lots].id)
    assert lots == 2
    assert pages.page(state) == to_json(slaves_view(state, None))


def test_what_it_says_of_an_agent_that_is_as_it_was_is_not_written_again() -> None:
    state, pages = new_state(), AgentPages()
    agents = [add_agent(state, port=5051 + number) for number in range(AT_ONCE)]
    assert len(list(pages.refresh(state))) == 1
    assert not list(pages.refresh(state))
    agents[0].deactivated = True
    assert not list(pages.refresh(state))
    assert pages.page(state) == to_json(slaves_view(state, None))
