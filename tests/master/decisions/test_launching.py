from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.master.decisions import launching, offering
from mesos_gpu.master.state.actions import RunTask
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.resources import Resources
from tests.support.master.build import (
    NOW,
    add_agent,
    add_framework,
    check_books,
    events,
    later,
    launch,
    new_state,
    offers,
    recorded,
    resources_of,
    statuses,
    task_info,
)


@pytest.fixture
def state() -> MasterState:
    return new_state()


def test_a_launch_goes_to_the_agent_with_what_the_scheduler_left_out(state: MasterState) -> None:
    agent, framework = add_agent(state), add_framework(state, "f", capabilities="GPU_RESOURCES", role="ml")
    [offer] = offers(state)
    [action] = launch(state, offer, task_info(agent))
    assert isinstance(action, RunTask)
    assert action.framework_info == framework.info
    assert action.launch_executor
    assert [r["allocation_info"] for r in action.task["resources"]] == [{"role": "ml"}] * 3
    assert not any("role" in r for r in action.task["resources"]), "agents take the refined format"
    assert framework.tasks["t"].state == "TASK_STAGING"
    assert agent.used_total == Resources.parse("cpus:0.1;mem:32;gpus:1").allocated("ml")
    check_books(state)


def test_what_is_left_of_an_offer_is_refused_and_offered_again_later(state: MasterState) -> None:
    agent, _ = add_agent(state), add_framework(state)
    [offer] = offers(state)
    launch(state, offer, task_info(agent), refuse_s=0.1)
    assert not offers(state)
    offering.tick(state, later(0.9))
    assert not agent.offers
    actions = offering.tick(state, later(1.1))
    [offered] = events(actions, "OFFERS")[0]["offers"]
    assert Resources.from_json(offered["resources"]).gpus == 3


def test_a_bad_task_is_answered_and_its_siblings_run(state: MasterState) -> None:
    agent, framework = add_agent(state), add_framework(state, capabilities="PARTITION_AWARE GPU_RESOURCES")
    [offer] = offers(state)
    tasks = [task_info(agent, "half", "cpus:0.1;gpus:0.5"), task_info(agent, "dup"), task_info(agent, "dup")]
    actions = launch(state, offer, *tasks)
    assert [type(action).__name__ for action in actions] == ["SendEvent", "RunTask", "SendEvent"]
    assert [(s["task_id"]["value"], s["state"]) for s in statuses(actions)] == [
        ("half", "TASK_ERROR"),
        ("dup", "TASK_ERROR"),
    ]
    assert list(framework.tasks) == ["dup"]
    check_books(state)


def test_task_errors_look_as_recorded(state: MasterState) -> None:
    add_agent(state, "ports:[31000-32000];cpus:2;gpus:4;mem:23081;disk:252899")
    add_framework(state, capabilities="MULTI_ROLE GPU_RESOURCES PARTITION_AWARE", roles=["slave_public"])
    told = [event["update"]["status"] for event in recorded()["events"] if event["type"] == "UPDATE"]
    texts = {"bad-half": "0.5", "bad-neg": "-1", "bad-toomany": "9"}
    for task_id, gpus in texts.items():
        state.filters.forget_framework(next(iter(state.frameworks)))
        [offer] = offers(state)
        agent = state.agents[offer.agent_id]
        resources = [
            *resources_of("cpus:0.1;mem:32"),
            {"name": "gpus", "type": "SCALAR", "scalar": {"value": float(gpus)}},
        ]
        sent = [{**one, "allocation_info": {"role": "slave_public"}} for one in resources]  # as in the recording
        [answer] = statuses(launch(state, offer, task_info(agent, task_id) | {"resources": sent}))
        [expected] = [s for s in told if s["task_id"]["value"] == task_id]
        assert set(answer) == set(expected)
        for key in ("state", "message", "source", "reason", "task_id"):
            assert answer[key] == expected[key]


def test_tasks_of_one_accept_share_what_was_offered(state: MasterState) -> None:
    agent, framework = add_agent(state), add_framework(state)
    [offer] = offers(state)
    tasks = [task_info(agent, f"t{n}", "cpus:0.1;mem:32;gpus:3") for n in range(2)]
    [error] = statuses(launch(state, offer, *tasks))
    assert error["task_id"] == {"value": "t1"}
    assert "is more than available" in error["message"]
    assert list(framework.tasks) == ["t0"]
    check_books(state)


@pytest.mark.parametrize(("capabilities", "expected"), [("", "TASK_LOST"), ("PARTITION_AWARE", "TASK_DROPPED")])
def test_an_offer_that_is_gone_loses_its_tasks(state: MasterState, capabilities: str, expected: str) -> None:
    agent, _ = add_agent(state), add_framework(state, capabilities=f"GPU_RESOURCES {capabilities}")
    [offer] = offers(state)
    state.rescind(offer)
    [answer] = statuses(launch(state, offer, task_info(agent)))
    assert (answer["state"], answer["reason"]) == (expected, "REASON_INVALID_OFFERS")
    assert answer["message"] == f"Task launched with invalid offers: Offer {offer.id} is no longer valid"


def accept(state: MasterState, offer_ids: list[str], *operations: dict[str, Any]) -> list[Any]:
    [framework] = state.frameworks.values()
    body = {"offer_ids": [{"value": offer_id} for offer_id in offer_ids], "operations": list(operations)}
    return launching.accept(state, framework, body, NOW)


def test_offers_accepted_together_are_of_one_agent_and_each_named_once(state: MasterState) -> None:
    agent, _, _ = add_agent(state), add_agent(state, port=5052), add_framework(state)
    launch_one = {"type": "LAUNCH", "launch": {"task_infos": [task_info(agent)]}}
    for wrong, words in [([0, 1], "must belong to one single agent"), ([0, 0], "Duplicate offer"), ([], "No offers")]:
        state.filters.forget_framework(next(iter(state.frameworks)))
        ids = [offer.id for offer in offers(state)]
        assert len(ids) == 2
        [answer] = statuses(accept(state, [ids[index] for index in wrong], launch_one))
        assert words in answer["message"]
        check_books(state)


def test_two_offers_of_one_agent_add_up(state: MasterState) -> None:
    agent, framework = add_agent(state), add_framework(state)
    [first] = offers(state)
    launch(state, first, task_info(agent, "a", "cpus:1;mem:32;gpus:2"))
    state.filters.forget_framework(framework.id)
    [rest] = offers(state)
    state.drop_task(framework, framework.tasks["a"])
    both = [offer.id for offer in offers(state)]
    assert len(both) == 2
    operation = {"type": "LAUNCH", "launch": {"task_infos": [task_info(agent, "b", "cpus:2;mem:64;gpus:4")]}}
    [action] = accept(state, both, operation)
    assert isinstance(action, RunTask)
    assert rest.id in both
    check_books(state)


def test_operations_that_are_not_built_are_answered_not_dropped(state: MasterState) -> None:
    agent, _ = add_agent(state), add_framework(state)
    [offer] = offers(state)
    reserve = {"type": "RESERVE", "id": {"value": "op"}, "reserve": {"resources": []}}
    actions = accept(state, [offer.id], reserve)
    [operation] = events(actions, "UPDATE_OPERATION_STATUS")
    assert operation["status"]["state"] == "OPERATION_ERROR"
    assert not agent.tasks


def test_a_declined_offer_is_not_made_again_at_once(state: MasterState) -> None:
    _, framework = add_agent(state), add_framework(state)
    [offer] = offers(state)
    body = {"offer_ids": [{"value": offer.id}, {"value": "unknown"}], "filters": {"refuse_seconds": 2.0}}
    assert launching.decline(state, framework, body, NOW) == []
    assert not offers(state)
    offering.tick(state, later(1.9))
    assert not framework.offers
    assert events(offering.tick(state, later(2.0)), "OFFERS")


def test_declining_for_no_time_does_not_start_a_storm_of_offers(state: MasterState) -> None:
    _, framework = add_agent(state), add_framework(state)
    [offer] = offers(state)
    body = {"offer_ids": [{"value": offer.id}], "filters": {"refuse_seconds": 0.0}}
    launching.decline(state, framework, body, NOW)
    assert not offers(state)
    assert events(offering.tick(state, later(1.0)), "OFFERS")


def test_a_larger_offer_passes_a_refusal(state: MasterState) -> None:
    agent, framework = add_agent(state), add_framework(state)
    [offer] = offers(state)
    launch(state, offer, task_info(agent), refuse_s=3600)
    assert not offers(state)
    state.drop_task(framework, framework.tasks["t"])
    [offer] = offers(state)
    assert offer.resources.gpus == 4


@pytest.mark.parametrize(
    ("resource", "reservations"),
    [
        ({"name": "cpus", "role": "*"}, None),
        ({"name": "cpus"}, None),
        ({"name": "cpus", "role": "ml"}, [{"type": "STATIC", "role": "ml"}]),
        (
            {"name": "cpus", "role": "ml", "reservation": {"principal": "p"}},
            [{"type": "DYNAMIC", "role": "ml", "principal": "p"}],
        ),
        ({"name": "cpus", "reservations": [{"role": "x"}]}, [{"role": "x"}]),
    ],
)
def test_schedulers_may_write_reservations_in_either_way(
    resource: dict[str, Any], reservations: list[dict[str, Any]] | None
) -> None:
    document = launching.refined(resource, "ml")
    assert document.get("reservations") == reservations
    assert document["allocation_info"] == {"role": "ml"}
    assert not {"role", "reservation"} & set(document)


def test_an_executor_is_booked_once_and_named_in_later_offers(state: MasterState) -> None:
    agent, framework = add_agent(state), add_framework(state)
    executor = {
        "executor_id": {"value": "e"},
        "command": {"value": "run"},
        "resources": resources_of("cpus:0.5;mem:32"),
    }
    [offer] = offers(state)
    tasks = [task_info(agent, name, "cpus:0.1;mem:32", executor=executor) for name in "ab"]
    first, second = launch(state, offer, *tasks)
    assert (first.launch_executor, second.launch_executor) == (True, False)  # type: ignore[union-attr]
    assert agent.used_total.value("cpus") == 0.7
    state.filters.forget_framework(framework.id)
    [offer] = offers(state)
    assert offer.document["executor_ids"] == [{"value": "e"}]
    assert framework.tasks["a"].document["executor_id"] == {"value": "e"}
    check_books(state)


def test_a_health_check_without_a_type_gets_the_one_its_body_shows(state: MasterState) -> None:
    agent, _ = add_agent(state), add_framework(state)
    [offer] = offers(state)
    [action] = launch(state, offer, task_info(agent, health_check={"http": {"port": 80}}))
    assert isinstance(action, RunTask)
    assert action.task["health_check"]["type"] == "HTTP"


def test_offers_look_as_recorded(state: MasterState) -> None:
    agent = add_agent(state, "ports:[31000-32000];cpus:2;gpus:4;mem:23081;disk:252899")
    agent.info["attributes"] = [{"name": "rack", "type": "TEXT", "text": {"value": "r1"}}]
    add_framework(state, capabilities="MULTI_ROLE GPU_RESOURCES", roles=["slave_public"])
    [offer] = offers(state)
    [expected] = next(event["offers"]["offers"] for event in recorded()["events"] if event["type"] == "OFFERS")
    assert set(offer.document) == set(expected)
    for key in ("resources", "allocation_info", "url", "hostname"):
        assert offer.document[key] == expected[key]


def test_a_framework_of_one_role_is_not_told_of_allocations_and_what_it_launches_has_one(state: MasterState) -> None:
    agent = add_agent(state, "cpus(ml):1;gpus:1;mem:512")
    add_framework(state, capabilities="GPU_RESOURCES", role="ml")
    [offer] = offers(state)
    assert "allocation_info" not in offer.document
    assert not any("allocation_info" in resource for resource in offer.document["resources"])
    assert {(one["name"], one["role"]) for one in offer.document["resources"]} == {
        ("cpus", "ml"),
        ("gpus", "*"),
        ("mem", "*"),
    }
    [action] = launch(state, offer, {**task_info(agent), "resources": offer.document["resources"]})
    assert isinstance(action, RunTask)
    assert {resource["allocation_info"]["role"] for resource in action.task["resources"]} == {"ml"}
    check_books(state)


def test_a_framework_of_refined_reservations_is_offered_them_without_role(state: MasterState) -> None:
    add_agent(state)
    add_framework(state, capabilities="GPU_RESOURCES RESERVATION_REFINEMENT")
    [offer] = offers(state)
    assert not any("role" in resource for resource in offer.document["resources"])
