from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from mesos_gpu.master.decisions import subscriptions, updates
from mesos_gpu.master.model.model import Agent, Framework, KnownAgent
from mesos_gpu.master.registry.operations import Admit, MarkUnreachable, Remove
from mesos_gpu.master.state.actions import (
    Action,
    AgentRegistered,
    AgentReregistered,
    ForgetAgent,
    KillTask,
    ObserveAgent,
    ShutdownAgent,
    ShutdownFramework,
    Store,
    UpdateFramework,
    Warn,
)
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.resource import Document
from mesos_gpu.mesos.resources import Resources
from tests.support.master.at_once import agents, readmission
from tests.support.master.build import (
    GPU_AGENT,
    MASTER_ID,
    NOW,
    OTHER_UUID,
    THIRD_UUID,
    UUID,
    add_agent,
    add_framework,
    check_books,
    events,
    framework_info,
    later,
    launch,
    new_state,
    offers,
    report,
    status,
    statuses,
    task_info,
)

ID = f"{MASTER_ID}-S0"
OF_BEFORE = framework_info(id={"value": "f"})
EXECUTOR: Document = {"executor_id": {"value": "e"}, "framework_id": {"value": "f"}, "command": {"value": "true"}}


@pytest.fixture
def state() -> MasterState:
    return new_state()


def kinds(actions: list[Action]) -> list[str]:
    return [type(action).__name__ for action in actions]


def task_document(framework_id: str, task_id: str = "t", state: str = "TASK_RUNNING", gpus: int = 1) -> Document:
    resources = Resources.parse(f"cpus:0.1;mem:32;gpus:{gpus}").allocated("*").to_json(refined=True)
    return {
        "name": task_id,
        "task_id": {"value": task_id},
        "framework_id": {"value": framework_id},
        "agent_id": {"value": ID},
        "state": state,
        "resources": resources,
    }


def with_task(state: MasterState, **info: Any) -> tuple[Agent, Framework]:
    agent, framework = add_agent(state), add_framework(state, **info)
    [offer] = offers(state)
    launch(state, offer, task_info(agent))
    return agent, framework


def back(state: MasterState, *tasks: Document, frameworks: list[Document] | None = None, **more: Any) -> list[Action]:
    infos = [framework.info for framework in state.frameworks.values()] if frameworks is None else frameworks
    again = report(agent_id=ID, tasks=tasks, frameworks=infos, **more)
    return readmission.reregister(state, again, later(1))


def test_an_agent_hears_its_id_after_it_is_on_disk(state: MasterState) -> None:
    actions = agents.register(state, report())
    assert kinds(actions) == ["Store", "ObserveAgent", "AgentRegistered"]
    assert actions[1:] == [ObserveAgent(ID), AgentRegistered(ID)]
    assert isinstance(actions[0], Store)
    assert actions[0].operation == Admit(ID, KnownAgent(state.agents[ID].info, state.agents[ID].pid))
    assert state.agents[ID].total == Resources.parse(GPU_AGENT)


def test_asked_again_while_it_is_being_stored_is_the_usual_course_of_things(state: MasterState) -> None:
    state.transitions.registering.add(report().pid)
    [told] = agents.register(state, report())
    assert isinstance(told, Warn)
    assert told.usual


def test_asked_again_before_our_answer_it_has_the_same_id(state: MasterState) -> None:
    add_agent(state)
    assert agents.register(state, report()) == [AgentRegistered(ID)]


@pytest.mark.parametrize("version", ["0.28.0", "", "new", "1"])
def test_agents_that_are_too_old_get_no_answer(state: MasterState, version: str) -> None:
    [warning] = agents.register(state, report(version=version))
    assert isinstance(warning, Warn)
    assert not state.agents


def test_an_agent_that_forgot_its_id_takes_the_place_of_the_old_one(state: MasterState) -> None:
    agent, _ = with_task(state)
    agents.exited(state, agent.pid, NOW)
    actions = agents.register(state, report())
    assert [s["state"] for s in statuses(actions)] == ["TASK_LOST"]
    assert list(state.agents) == [f"{MASTER_ID}-S1"]
    assert ForgetAgent(ID) in actions
    check_books(state)


def test_a_broken_link_takes_back_offers_and_keeps_checkpointed_tasks(state: MasterState) -> None:
    agent, framework = with_task(state)
    state.filters.forget_framework(framework.id)
    offers(state)
    actions = agents.exited(state, agent.pid, NOW)
    assert kinds(actions) == ["SendEvent"]
    assert len(events(actions, "RESCIND")) == 1
    assert "t" in framework.tasks
    assert not offers(state)
    check_books(state)


def test_a_broken_link_ends_the_tasks_of_frameworks_that_do_not_checkpoint(state: MasterState) -> None:
    agent, framework = with_task(state, checkpoint=False)
    [lost] = statuses(agents.exited(state, agent.pid, NOW))
    assert (lost["state"], lost["reason"]) == ("TASK_LOST", "REASON_AGENT_DISCONNECTED")
    assert not framework.tasks
    check_books(state)


def test_it_comes_back_with_its_tasks(state: MasterState) -> None:
    agent, framework = with_task(state)
    agents.exited(state, agent.pid, NOW)
    actions = back(state, task_document(framework.id))
    assert AgentReregistered(ID, []) in actions
    assert UpdateFramework(ID, framework.info) in actions
    assert "Store" not in kinds(actions), "the registry says so already"
    assert not statuses(actions)
    assert agent.connected
    assert framework.tasks["t"].state == "TASK_RUNNING"
    check_books(state)


def test_a_task_it_does_not_list_is_named_to_it(state: MasterState) -> None:
    agent, framework = with_task(state)
    agents.exited(state, agent.pid, NOW)
    [answer] = [action for action in back(state) if isinstance(action, AgentReregistered)]
    [missing] = answer.reconciliations
    assert missing["framework_id"] == {"value": framework.id}
    assert [s["task_id"]["value"] for s in missing["statuses"]] == ["t"]
    assert "t" in framework.tasks, "its answer ends the task"


def test_a_task_that_ended_meanwhile_frees_its_gpus_at_once(state: MasterState) -> None:
    agent, framework = with_task(state)
    agents.exited(state, agent.pid, NOW)
    back(state, task_document(framework.id, state="TASK_FINISHED"))
    assert agent.free == agent.total
    assert "t" in framework.tasks
    check_books(state)


def test_a_report_that_an_acknowledgement_has_passed_does_not_bring_the_task_back(state: MasterState) -> None:
    agent, framework = with_task(state)
    state.drop_task(framework, framework.tasks["t"])  # its end was acknowledged; its agent did not know that yet
    back(state, task_document(framework.id, state="TASK_FINISHED"))
    assert "t" not in framework.tasks
    assert not agent.tasks
    back(state, task_document(framework.id))
    assert framework.tasks["t"].state == "TASK_RUNNING", "one that runs is there, whatever we knew"
    check_books(state)


def test_kills_that_it_missed_are_repeated(state: MasterState) -> None:
    agent, framework = with_task(state)
    agents.exited(state, agent.pid, NOW)
    assert not updates.kill(state, framework, {"task_id": {"value": "t"}}, NOW)
    assert KillTask(ID, framework.id, "t", None) in back(state, task_document(framework.id))


def test_what_a_killed_process_of_an_agent_said_is_not_believed_once_another_has_registered(state: MasterState) -> None:
    """A network may have held it back; the version of the resources, which is each process's own, tells them apart."""
    agent = add_agent(state)
    assert agent.resource_version_uuid == UUID
    readmission.reregister(state, report(agent_id=agent.id, resource_version_uuid=OTHER_UUID), NOW)
    late = report(agent_id=agent.id, tasks=[task_document("f")], frameworks=[OF_BEFORE])
    (said,) = readmission.reregister(state, late, NOW)
    assert isinstance(said, Warn)
    (said,) = agents.updated(state, agent.id, agent.pid, UUID)
    assert isinstance(said, Warn)
    assert (agent.resource_version_uuid, agent.tasks) == (OTHER_UUID, {})
    assert agents.updated(state, agent.id, agent.pid, THIRD_UUID) == []
    assert agent.resource_version_uuid == THIRD_UUID


def test_offers_made_before_its_restart_are_taken_back(state: MasterState) -> None:
    agent = add_agent(state)
    add_framework(state)
    offers(state)
    actions = back(state, resource_version_uuid=OTHER_UUID)
    assert len(events(actions, "RESCIND")) == 1
    assert agent.resource_version_uuid == OTHER_UUID
    check_books(state)


def test_an_agent_that_is_connected_may_come_back_with_fewer_gpus_and_later_with_all(state: MasterState) -> None:
    agent = add_agent(state)
    add_framework(state)
    [before] = offers(state)
    assert before.resources.gpus == 4
    actions = back(state, resources="cpus:2;gpus:3;mem:2048;disk:1000;ports:[31000-32000]")
    assert len(events(actions, "RESCIND")) == 1
    assert AgentReregistered(ID, []) in actions
    assert agent.total.gpus == 3
    [after] = offers(state)
    assert after.resources.gpus == 3
    check_books(state)
    back(state)
    assert [offer.resources.gpus for offer in offers(state)] == [4]


def test_fewer_gpus_than_its_tasks_hold_are_none_to_offer(state: MasterState) -> None:
    agent, framework = with_task(state)
    state_updates = task_document(framework.id)
    back(state, state_updates, resources="cpus:2;mem:2048;disk:1000")
    assert (agent.total.gpus, agent.used_total.gpus, agent.free.gpus) == (0, 1, 0)
    assert all(offer.resources.gpus == 0 for offer in offers(state))
    back(state, task_document(framework.id, state="TASK_FINISHED"), resources="cpus:2;mem:2048;disk:1000")
    assert (agent.used_total.gpus, agent.free.gpus) == (0, 0)
    back(state)
    assert agent.free.gpus == 4


def test_another_machine_may_not_take_its_id(state: MasterState) -> None:
    add_agent(state)
    [refused] = back(state, hostname="elsewhere")
    assert isinstance(refused, ShutdownAgent)


def test_two_agents_do_not_live_at_one_address(state: MasterState) -> None:
    add_agent(state)
    other = report(agent_id=f"{MASTER_ID}-S9")
    actions = readmission.reregister(state, other, NOW)
    assert ForgetAgent(ID, silent=True) in actions
    assert list(state.agents) == [f"{MASTER_ID}-S9"]
    assert ID in state.unreachable


@pytest.mark.parametrize(
    "wrong",
    [
        {
            "tasks": [task_document("f") | {"agent_id": {"value": "S9"}}],
            "frameworks": [OF_BEFORE],
        },
        {"tasks": [task_document("f")], "frameworks": []},
        {"executors": [EXECUTOR], "frameworks": []},
        {"executors": [EXECUTOR, EXECUTOR], "frameworks": [OF_BEFORE]},
        {"executors": [EXECUTOR | {"resources": [{"name": "cpus"}]}], "frameworks": [OF_BEFORE]},
        {"tasks": [task_document("f") | {"executor_id": {"value": "other"}}], "frameworks": [OF_BEFORE]},
        {"frameworks": [OF_BEFORE, OF_BEFORE]},
        {"frameworks": [OF_BEFORE | {"roles": ["a", "a"]}]},
        {"tasks": [task_document("f"), task_document("f")], "frameworks": [OF_BEFORE]},
        {"tasks": [task_document("f") | {"task_id": {"value": "a/b"}}], "frameworks": [OF_BEFORE]},
        {
            "tasks": [task_document("f") | {"resources": [{"name": "cpus", "type": "SCALAR", "scalar": {"value": 1}}]}],
            "frameworks": [OF_BEFORE],
            "capabilities": ("MULTI_ROLE",),
        },
        {"capabilities": ("RESOURCE_PROVIDER",), "resource_version_uuid": None},
    ],
)
def test_reports_that_contradict_themselves_get_no_answer(state: MasterState, wrong: dict[str, Any]) -> None:
    [warning] = readmission.reregister(state, report(agent_id=ID, **wrong), NOW)
    assert isinstance(warning, Warn)
    assert not state.agents


@pytest.mark.parametrize(("capabilities", "expected"), [("", "TASK_LOST"), ("PARTITION_AWARE", "TASK_UNREACHABLE")])
def test_an_agent_that_does_not_answer_is_unreachable_and_may_return(
    state: MasterState, capabilities: str, expected: str
) -> None:
    agent, framework = with_task(state, capabilities=f"GPU_RESOURCES {capabilities}")
    state.filters.forget_framework(framework.id)
    offers(state)
    actions = agents.unreachable(state, agent.id, NOW)
    assert [event["type"] for event in events(actions)] == ["RESCIND", "UPDATE", "FAILURE"]
    assert kinds(actions).index("Store") < kinds(actions).index("ForgetAgent")
    [told] = statuses(actions)
    assert (told["state"], told["reason"]) == (expected, "REASON_AGENT_REMOVED")
    assert "uuid" not in told
    assert framework.unreachable["t"].state == expected
    [event] = events(actions, "FAILURE")
    assert event == {"agent_id": {"value": agent.id}}
    [told] = statuses(back(state, task_document(framework.id)))
    assert (told["state"], told["reason"]) == ("TASK_RUNNING", "REASON_AGENT_REREGISTERED")
    assert not framework.unreachable
    assert framework.tasks["t"].held
    check_books(state)


def test_how_a_task_was_found_is_known_when_its_agent_returns(state: MasterState) -> None:
    agent, framework = with_task(state)
    found = {"healthy": True, "check_status": {"type": "HTTP"}, "container_status": {"executor_pid": 7}}
    said = {"task_id": {"value": "t"}, "state": "TASK_RUNNING", "timestamp": 5.0, "uuid": "MQ==", **found}
    agents.unreachable(state, agent.id, NOW)
    [told] = statuses(back(state, {**task_document(framework.id), "statuses": [said]}))
    assert {key: told[key] for key in found} == found
    [answer] = statuses(updates.reconcile(state, framework, {"tasks": []}, later(5)))
    assert {key: answer[key] for key in found} == found
    assert framework.tasks["t"].document["statuses"] == [said]


def test_a_task_that_an_agent_brings_back_no_more_is_gone_for_who_asks(state: MasterState) -> None:
    agent, framework = with_task(state, capabilities="GPU_RESOURCES PARTITION_AWARE")
    agents.unreachable(state, agent.id, NOW)
    asked = {"tasks": [{"task_id": {"value": "t"}, "agent_id": {"value": agent.id}}]}
    [told] = statuses(updates.reconcile(state, framework, asked, NOW))
    assert told["state"] == "TASK_UNREACHABLE"
    assert statuses(back(state)) == []
    assert not framework.unreachable
    [told] = statuses(updates.reconcile(state, framework, asked, NOW))
    assert told["state"] == "TASK_GONE"
    check_books(state)


def test_tasks_of_a_framework_removed_meanwhile_are_shut_down(state: MasterState) -> None:
    agent, framework = with_task(state)
    agents.unreachable(state, agent.id, NOW)
    info = framework.info
    subscriptions.remove_framework(state, framework, NOW)
    actions = back(state, task_document(framework.id), frameworks=[info])
    assert ShutdownFramework(ID, framework.id) in actions
    assert not state.agents[ID].tasks
    check_books(state)


def test_after_a_restart_of_the_master_agents_bring_their_frameworks_and_tasks(state: MasterState) -> None:
    state.recovered = {ID: KnownAgent(report(agent_id=ID).info, "slave(1)@127.0.0.1:5051")}
    info = framework_info(id={"value": "before"})
    actions = back(state, task_document("before"), frameworks=[info])
    assert AgentReregistered(ID, []) in actions
    assert not state.recovered
    framework = state.frameworks["before"]
    assert framework.recovered
    assert framework.tasks["t"].state == "TASK_RUNNING"
    assert state.agents[ID].used_total.gpus == 1
    stolen = subscriptions.subscribe(state, "thief", {"framework_info": {**info, "principal": "eve"}}, NOW)
    assert "principal is not allowed" in events(stolen, "ERROR")[0]["message"]
    assert framework.recovered
    subscriptions.subscribe(state, "s", {"framework_info": info}, NOW)
    assert (framework.recovered, framework.connected) == (False, True)
    told = status(state.agents[ID], "t", "TASK_FINISHED")
    assert statuses(updates.status_update(state, ID, "before", told, "TASK_FINISHED")) == [told]
    check_books(state)


def test_what_an_older_agent_runs_is_allocated_to_the_role_of_its_framework(state: MasterState) -> None:
    """Agents without MULTI_ROLE know of no allocation."""
    info = framework_info(id={"value": "f"}, role="ml")
    bare = Resources.parse("cpus:0.5;gpus:1").to_json()
    task = task_document("f") | {"resources": bare, "executor_id": {"value": "e"}}
    again = report(agent_id=ID, tasks=[task], executors=[EXECUTOR | {"resources": bare}], frameworks=[info])
    readmission.reregister(state, replace(again, capabilities=()), NOW)
    agent = state.agents[ID]
    half = Resources.parse("cpus:0.5;gpus:1").allocated("ml")
    assert agent.tasks[("f", "t")].resources == agent.executors[("f", "e")].resources == half
    assert agent.used["f"] == half + half
    check_books(state)
    # One role is another framework's matter, and this agent's resources are not for frameworks of several.
    add_framework(state, capabilities="GPU_RESOURCES MULTI_ROLE", roles=["a", "b"])
    assert offers(state) == []
    one = add_framework(state, "one", role="ml")
    assert [offer.framework_id for offer in offers(state)] == [one.id]


def test_agents_that_never_come_back_after_a_restart_are_unreachable(state: MasterState) -> None:
    state.recovered = {ID: KnownAgent(report(agent_id=ID).info, "slave(1)@127.0.0.1:5051")}
    [save, forget] = agents.not_back(state, list(state.recovered), NOW)
    assert isinstance(save, Store)
    assert (save.operation, forget) == (MarkUnreachable(ID, NOW.wall_s), ForgetAgent(ID))
    assert state.unreachable[ID].since_s == NOW.wall_s
    assert agents.not_back(state, list(state.recovered), NOW) == []


def test_a_new_agent_at_a_known_address_ends_the_wait_for_the_old_one(state: MasterState) -> None:
    state.recovered = {"old": KnownAgent(report(agent_id="old").info, "slave(1)@127.0.0.1:5051")}
    actions = agents.register(state, report())
    assert not state.recovered
    # Else its pings, which call it disconnected, would have the new one register again for ever.
    assert ForgetAgent("old") in actions


def test_an_agent_may_leave_and_only_it_can_say_so(state: MasterState) -> None:
    agent, framework = with_task(state, capabilities="GPU_RESOURCES PARTITION_AWARE")
    [warning] = agents.unregister(state, agent.id, "slave(1)@127.0.0.1:9")
    assert isinstance(warning, Warn)
    actions = agents.unregister(state, agent.id, agent.pid)
    [gone] = statuses(actions)
    assert (gone["state"], gone["reason"]) == ("TASK_GONE", "REASON_AGENT_REMOVED")
    assert not state.agents
    assert not framework.tasks
    assert isinstance(actions[0], Store)
    assert actions[0].operation == Remove((agent.id,))


def test_an_agents_newer_resource_version_is_the_one_that_tasks_name(state: MasterState) -> None:
    agent = add_agent(state)
    agents.updated(state, agent.id, agent.pid, OTHER_UUID)
    agents.updated(state, agent.id, "slave(1)@127.0.0.1:9", "x")
    agents.updated(state, agent.id, agent.pid, None)
    assert agent.resource_version_uuid == OTHER_UUID
