from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.errors import BadInput
from mesos_gpu.master.decisions import offering, subscriptions
from mesos_gpu.master.model.model import Framework
from mesos_gpu.master.state.actions import (
    Action,
    AwaitFailover,
    CloseStream,
    SendEvent,
    ShutdownFramework,
    UpdateFramework,
)
from mesos_gpu.master.state.settings import Settings
from mesos_gpu.master.state.state import MAX_COMPLETED_FRAMEWORKS, MasterState
from mesos_gpu.master.views import views
from mesos_gpu.mesos.resource import Document
from tests.support.master.build import (
    MASTER_ID,
    NOW,
    RULES,
    add_agent,
    add_framework,
    check_books,
    events,
    framework_info,
    later,
    launch,
    new_state,
    offers,
    recorded,
    task_info,
)


@pytest.fixture
def state() -> MasterState:
    return new_state()


def subscribe(state: MasterState, stream_id: str, info: Document, **body: Any) -> list[Action]:
    return subscriptions.subscribe(state, stream_id, {"framework_info": info, **body}, NOW)


def refusal(actions: list[Action]) -> str:
    event, close = actions
    assert isinstance(event, SendEvent)
    assert close == CloseStream(event.stream_id)
    return str(event.event["error"]["message"])


def again(framework: Framework, **changes: Any) -> Document:
    return {**framework_info(framework.name), "id": {"value": framework.id}, **changes}


def test_a_new_framework_is_welcomed_as_recorded(state: MasterState) -> None:
    add_agent(state)
    actions = subscribe(state, "s1", framework_info())
    subscribed, heartbeat = (action.event for action in actions if isinstance(action, SendEvent))
    assert len(actions) == 2, "agents hear of a framework with its first task"
    expected = recorded()["events"][0]
    assert set(subscribed["subscribed"]) == set(expected["subscribed"])
    assert set(subscribed["subscribed"]["master_info"]) == set(expected["subscribed"]["master_info"])
    assert subscribed["subscribed"]["master_info"]["ip"] == expected["subscribed"]["master_info"]["ip"]
    assert subscribed["subscribed"]["framework_id"] == {"value": f"{MASTER_ID}-0000"}
    assert heartbeat == {"type": "HEARTBEAT"}


def test_ids_count_up(state: MasterState) -> None:
    assert [add_framework(state, name).id[-5:] for name in "ab"] == ["-0000", "-0001"]


def test_a_refused_framework_hears_why_and_its_stream_ends(state: MasterState) -> None:
    words = refusal(subscribe(state, "s1", framework_info(role="a/")))
    assert words == "'FrameworkInfo.role' is not a valid role: Role 'a/' cannot end with a slash"
    assert not state.frameworks


def test_the_newest_subscription_wins(state: MasterState) -> None:
    agent, framework = add_agent(state), add_framework(state)
    [offer] = offers(state)
    actions = subscribe(state, "s2", again(framework, name="renamed"))
    error, close, subscribed, heartbeat, update = actions
    assert error == SendEvent("stream-test", {"type": "ERROR", "error": {"message": "Framework failed over"}})
    assert close == CloseStream("stream-test")
    assert isinstance(subscribed, SendEvent)
    assert subscribed.stream_id == "s2"
    assert heartbeat == SendEvent("s2", {"type": "HEARTBEAT"})
    assert update == UpdateFramework(agent.id, framework.info)
    assert framework.name == "renamed"
    assert offer.id not in framework.offers, "offers of the old stream are worth nothing, and nobody is told"
    assert framework.reregistered_s == NOW.wall_s
    check_books(state)


def test_the_end_of_the_old_stream_does_not_touch_the_new_one(state: MasterState) -> None:
    framework = add_framework(state)
    subscribe(state, "s2", again(framework))
    assert subscriptions.disconnected(state, "stream-test", NOW) == []
    assert framework.connected


def test_user_and_checkpoint_stay_and_another_principal_is_refused(state: MasterState) -> None:
    framework = add_framework(state, principal="p")
    subscribe(state, "s2", again(framework, principal="p", user="other", checkpoint=False))
    assert (framework.info["user"], framework.checkpoint) == ("root", True)
    assert "principal" in refusal(subscribe(state, "s3", again(framework, principal="q")))
    assert framework.stream_id == "s2"


def test_an_unknown_id_is_taken_as_after_a_restart_of_the_master(state: MasterState) -> None:
    subscribe(state, "s1", framework_info(id={"value": "from-before"}))
    assert state.frameworks["from-before"].connected


def test_a_framework_that_is_away_keeps_its_tasks_until_its_time_is_over(state: MasterState) -> None:
    agent, framework = add_agent(state), add_framework(state)
    [offer] = offers(state)
    launch(state, offer, task_info(agent))
    assert subscriptions.disconnected(state, "stream-test", NOW) == [AwaitFailover(framework.id, 1, 30.0)]
    assert "t" in framework.tasks
    assert not offers(state)
    assert subscriptions.failover_expired(state, framework.id, 1, later(30)) == [
        ShutdownFramework(agent.id, framework.id)
    ]
    assert state.completed[framework.id].completed[0].state == "TASK_KILLED"
    assert agent.free == agent.total


def test_a_timer_of_an_older_absence_does_nothing(state: MasterState) -> None:
    framework = add_framework(state)
    subscriptions.disconnected(state, "stream-test", NOW)
    subscribe(state, "s2", again(framework))
    subscriptions.disconnected(state, "s2", NOW)
    assert subscriptions.failover_expired(state, framework.id, 1, NOW) == []
    assert framework.id in state.frameworks
    assert subscriptions.failover_expired(state, framework.id, 2, NOW) == []
    assert framework.id in state.completed


def test_without_a_failover_timeout_leaving_is_the_end(state: MasterState) -> None:
    framework = add_framework(state, failover_timeout=0.0)
    subscriptions.disconnected(state, "stream-test", NOW)
    assert framework.id in state.completed


def test_a_removed_framework_cannot_come_back(state: MasterState) -> None:
    agent, framework = add_agent(state), add_framework(state)
    offers(state)
    actions = subscriptions.remove_framework(state, framework, NOW)
    assert actions == [ShutdownFramework(agent.id, framework.id), CloseStream("stream-test")]
    assert refusal(subscribe(state, "s2", again(framework))) == "Framework has been removed"
    assert not agent.offers
    check_books(state)


def test_so_many_removed_frameworks_are_remembered_and_no_more(state: MasterState) -> None:
    for number in range(MAX_COMPLETED_FRAMEWORKS + 2):
        subscriptions.remove_framework(state, add_framework(state, f"f{number}"), NOW)
    assert len(state.completed) == MAX_COMPLETED_FRAMEWORKS
    assert f"{MASTER_ID}-0000" not in state.completed


def test_suppressed_roles_get_no_offers_until_revived(state: MasterState) -> None:
    add_agent(state)
    framework = add_framework(state)
    subscriptions.suppress(state, framework, [])
    assert not offers(state)
    subscriptions.revive(state, framework, ["*"])
    assert len(offers(state)) == 1


def test_one_wrong_role_drops_the_whole_call(state: MasterState) -> None:
    framework = add_framework(state, capabilities="MULTI_ROLE", roles=["a", "b"])
    for wrong in ("c", "a/"):
        subscriptions.suppress(state, framework, ["a", wrong])
        assert not framework.suppressed
    subscriptions.suppress(state, framework, ["a"])
    subscriptions.revive(state, framework, ["a", "c"])
    assert framework.suppressed == {"a"}


def test_revive_forgets_refusals(state: MasterState) -> None:
    agent, framework = add_agent(state), add_framework(state)
    [offer] = offers(state)
    launch(state, offer, task_info(agent), refuse_s=3600)
    assert not offers(state)
    subscriptions.revive(state, framework, [])
    assert len(offers(state)) == 1


def test_roles_may_be_suppressed_from_the_start(state: MasterState) -> None:
    add_agent(state)
    subscribe(state, "s1", framework_info(), suppressed_roles=["*"])
    assert not offers(state)


def test_a_framework_may_change_its_roles_while_subscribed(state: MasterState) -> None:
    add_agent(state)
    framework = add_framework(state, capabilities="MULTI_ROLE GPU_RESOURCES", roles=["a"])
    offers(state)
    info = {**framework.info, "roles": ["b"]}
    actions = subscriptions.update_framework(state, framework, {"framework_info": info})
    assert len(events(actions, "RESCIND")) == 1
    assert [offer.role for offer in offers(state)] == ["b"]
    for wrong in ({"user": "x"}, {"checkpoint": False}, {"principal": "x"}, {"roles": ["-"]}):
        with pytest.raises(BadInput):
            subscriptions.update_framework(state, framework, {"framework_info": {**info, **wrong}})


def test_a_framework_may_change_its_roles_with_a_new_subscription_and_its_tasks_keep_theirs(
    state: MasterState,
) -> None:
    agent = add_agent(state)
    framework = add_framework(state, capabilities="MULTI_ROLE GPU_RESOURCES", roles=["a"])
    [offer] = offers(state)
    launch(state, offer, task_info(agent))
    offers(state)
    actions = subscribe(state, "second", {**framework.info, "roles": ["b"]}, suppressed_roles=[])
    assert not events(actions, "RESCIND"), "the new stream never saw those offers"
    assert any(isinstance(action, UpdateFramework) for action in actions)
    assert {offer.role for offer in offers(state)} == {"b"}
    assert {resource.allocation_role for resource in framework.tasks["t"].resources} == {"a"}
    assert {resource.allocation_role for resource in agent.used_total} == {"a"}
    shown = {role["name"]: role["frameworks"] for role in views.roles_view(state)["roles"]}
    assert shown == {"a": [framework.id], "b": [framework.id]}, "it still holds something in its old role"
    check_books(state)


MODEL = {"selector": {"attribute_name": "model"}, "predicate": {"exists": {}}}


def only(*constraints: dict[str, Any], role: str = "*") -> dict[str, Any]:
    return {"role_constraints": {role: {"groups": [{"attribute_constraints": list(constraints)}]}}}


def test_offer_constraints_keep_agents_out_until_they_are_changed(state: MasterState) -> None:
    add_agent(state)
    body = {"framework_info": framework_info(), "offer_constraints": only(MODEL)}
    subscriptions.subscribe(state, "s", body, NOW)
    [framework] = state.frameworks.values()
    assert not offers(state)
    new = {"framework_info": framework.info, "offer_constraints": {}}
    subscriptions.update_framework(state, framework, new)
    assert len(offers(state)) == 1


def test_a_framework_may_want_smaller_offers_than_the_flag_says(state: MasterState) -> None:
    add_agent(state, "cpus:0.005;mem:10")
    add_framework(state, "usual")
    assert not offers(state)
    small = {"quantities": [{"quantities": {"cpus": {"value": 0.001}}}]}
    filters = {"*": {"min_allocatable_resources": small}}
    modest = add_framework(state, "modest", offer_filters=filters)
    assert [offer.framework_id for offer in offers(state)] == [modest.id]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            {"offer_constraints": only(MODEL, role="web")},
            "Offer constraints specify `role_constraints` for a role 'web'",
        ),
        ({"offer_constraints": only({**MODEL, "predicate": {}})}, "Invalid offer constraints: A role * has an invalid"),
        (
            {"offer_filters": {"*": {"min_allocatable_resources": {"quantities": [{}]}}}},
            "Resource quantities must contain at least one quantity",
        ),
        (
            {
                "offer_filters": {
                    "*": {"min_allocatable_resources": {"quantities": [{"quantities": {"cpus": {"value": -1.0}}}]}}
                }
            },
            "Invalid resource quantity for 'cpus': Negative values not supported",
        ),
    ],
)
def test_wrong_wishes_for_offers_are_refused(state: MasterState, body: dict[str, Any], words: str) -> None:
    filters = {"offer_filters": body.pop("offer_filters")} if "offer_filters" in body else {}
    actions = subscriptions.subscribe(state, "s", {"framework_info": framework_info(**filters), **body}, NOW)
    [error] = events(actions, "ERROR")
    assert words in error["message"]


def test_without_root_submissions_root_may_not_subscribe() -> None:
    state = MasterState(new_state().master_info, Settings(RULES, root_submissions=False), NOW)
    info = framework_info()
    (event, _) = subscriptions.subscribe(state, "s", {"framework_info": info}, NOW)
    assert isinstance(event, SendEvent)
    words = "User 'root' is not allowed to run frameworks without --root_submissions set"
    assert event.event == {"type": "ERROR", "error": {"message": words}}
    subscriptions.subscribe(state, "t", {"framework_info": {**info, "user": "alice"}}, NOW)
    assert len(state.frameworks) == 1


def test_only_listed_roles_may_subscribe() -> None:
    state = MasterState(new_state().master_info, Settings(RULES, roles=frozenset({"ml", "*"})), NOW)
    add_framework(state, "listed", role="ml")
    info = framework_info(capabilities="MULTI_ROLE", roles=["ml", "web"])
    [error] = events(subscriptions.subscribe(state, "s", {"framework_info": info}, NOW), "ERROR")
    assert error["message"] == "Roles { web } are not present in the master's --roles"


def test_offers_time_out_when_that_is_asked_for() -> None:
    state = MasterState(new_state().master_info, Settings(RULES, offer_timeout_s=10.0), NOW)
    agent, framework = add_agent(state), add_framework(state)
    [offer] = offers(state)
    assert not events(offering.tick(state, later(9)))
    told = offering.tick(state, later(10))
    assert [event["type"] for event in events(told)] == ["RESCIND", "OFFERS"]
    assert offer.id not in framework.offers
    assert len(agent.offers) == 1
    check_books(state)
