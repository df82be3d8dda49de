from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mesos_gpu.errors import BadInput, NotFound
from mesos_gpu.master.decisions import subscriptions, updates
from mesos_gpu.master.decisions.registry_gc import collect, due
from mesos_gpu.master.engine.registry import Registry
from mesos_gpu.master.model.model import Agent, Framework, KnownAgent
from mesos_gpu.master.model.record import Record
from mesos_gpu.master.registry.operations import Admit, MarkUnreachable, Remove
from mesos_gpu.master.state.actions import (
    Action,
    AgentRegistered,
    AgentReregistered,
    DrainAgent,
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
from tests.support.master import build
from tests.support.master.at_once import agents, draining, readmission, stored
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
from tests.support.master.live import Scheduler, ScriptedAgent, live_master, until

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


DAY_S = 24 * 3600.0


def known(agent_id: str, since_s: float | None = None) -> KnownAgent:
    return KnownAgent(report(agent_id=agent_id).info, report().pid, since_s)


def one_after_the_other(since_s: list[float], now_s: float, max_age_s: float, max_count: int) -> list[int]:
    """As Mesos goes through them: it looks at each once, and counts down."""
    left, removed = len(since_s), []
    for number, since in enumerate(since_s):
        if left > max_count or now_s - since > max_age_s:
            removed.append(number)
            left -= 1
    return removed


@given(st.lists(st.integers(0, 9), max_size=8), st.integers(0, 9), st.integers(0, 9))
def test_the_oldest_of_too_many_go_and_all_that_are_too_old(since_s: list[int], age_s: int, count: int) -> None:
    found = due([(str(n), float(s)) for n, s in enumerate(since_s)], 10.0, max_age_s=age_s, max_count=count)
    assert list(found) == [str(n) for n in one_after_the_other([float(s) for s in since_s], 10.0, age_s, count)]


def test_an_agent_that_was_unreachable_for_two_weeks_is_forgotten_with_its_tasks() -> None:
    state = new_state()
    agent, framework = add_agent(state), add_framework(state, capabilities="GPU_RESOURCES PARTITION_AWARE")
    [offer] = offers(state)
    launch(state, offer, task_info(agent))
    agents.unreachable(state, agent.id, NOW)
    state.gone = {"gone": NOW.wall_s}
    state.deactivated[agent.id] = None
    assert collect(state, later(14 * DAY_S)) == []
    stored(state, collect(state, later(14 * DAY_S + 1)))
    assert (state.unreachable, state.gone, state.deactivated, framework.unreachable) == ({}, {}, {}, {})
    # It may come back all the same: it is admitted as one that was never known to be away.
    readmission.reregister(state, report(agent_id=agent.id), later(15 * DAY_S))
    assert list(state.agents) == [agent.id]


def test_the_newest_stay_where_there_are_too_many() -> None:
    state = new_state()
    state.settings = replace(state.settings, registry_max_agent_count=1)
    state.unreachable = {name: known(name, NOW.wall_s) for name in ("a", "b", "c")}
    state.gone = {"x": NOW.wall_s, "y": NOW.wall_s}
    record = state.record().copy()
    [prune] = collect(state, NOW)
    assert prune.operation.apply(record)  # type: ignore[union-attr]
    stored(state, [prune])
    assert (list(state.unreachable), list(state.gone)) == (["c"], ["y"])
    assert record == state.record()
    assert collect(state, NOW) == []


def test_one_that_is_back_before_it_is_forgotten_stays() -> None:
    state = MasterState({"id": "m"}, replace(new_state().settings, registry_max_agent_count=0), NOW)
    state.unreachable = {"a": known("a", 1.0)}
    back = readmission._module.reregister(state, report(agent_id="a"), NOW)
    prune = collect(state, NOW)
    stored(state, [*back, *prune])
    assert list(state.agents) == ["a"]


async def test_a_master_forgets_by_its_flags(tmp_path: Path) -> None:
    record = Record(unreachable={"old": known("old", 1.0), "new": known("new", 4e9)}, gone={"left": 1.0})
    Registry(tmp_path).save(record)
    flags = ("--registry_gc_interval=10ms", "--registry_max_agent_age=1days", "--check_invariants")
    async with live_master(tmp_path, *flags) as master:
        await until(lambda: list(master.engine.state.unreachable) == ["new"])
        assert not master.engine.state.gone
        assert not master.engine.failed.done()
    assert list(Registry(tmp_path).load().unreachable) == ["new"]


CAPABILITIES = (*build.CAPABILITIES, "AGENT_DRAINING")


@pytest.fixture
def agent(state: MasterState, monkeypatch: pytest.MonkeyPatch) -> Agent:
    monkeypatch.setattr(build, "CAPABILITIES", CAPABILITIES)
    return build.add_agent(state)


@pytest.fixture
def framework(state: MasterState) -> Framework:
    return add_framework(state, capabilities="GPU_RESOURCES PARTITION_AWARE")


def run(state: MasterState, agent: Agent, task_id: str = "t") -> None:
    [offer] = offers(state)
    launch(state, offer, task_info(agent, task_id))


def end(state: MasterState, agent: Agent, framework: Framework, task_id: str = "t") -> None:
    """The agent says that the task has ended, and the scheduler acknowledges."""
    update = status(agent, task_id, "TASK_KILLED")
    updates.status_update(state, agent.id, framework.id, update, "TASK_KILLED")
    body = {"agent_id": {"value": agent.id}, "task_id": {"value": task_id}, "uuid": UUID}
    updates.acknowledge(state, framework, body)


def test_a_deactivated_agent_is_not_offered_until_it_is_reactivated(
    state: MasterState, agent: Agent, framework: Framework
) -> None:
    [offer] = offers(state)
    actions = draining.deactivate(state, agent.id)
    assert events(actions, "RESCIND") == [{"offer_id": {"value": offer.id}}]
    assert isinstance(actions[0], Store), "it holds over a restart"
    assert not offers(state)
    assert (agent.active, agent.connected, agent.deactivated) == (False, True, True)
    assert draining.deactivate(state, agent.id) != [], "asked twice, done twice"
    draining.reactivate(state, agent.id)
    assert offers(state)
    check_books(state)


def test_a_drained_agent_has_ended_its_tasks_and_their_ends_are_acknowledged(
    state: MasterState, agent: Agent, framework: Framework
) -> None:
    run(state, agent)
    actions = draining.drain(state, agent.id, {"max_grace_period": {"seconds": 2, "nanos": 500}}, NOW)
    config = {"max_grace_period": {"nanoseconds": 2_000_000_500}, "mark_gone": False}
    assert DrainAgent(agent.id, config) in actions
    assert draining.settle(state, NOW) == []
    assert agent.drain is not None
    assert agent.drain.to_json() == {"state": "DRAINING", "config": config}
    with pytest.raises(BadInput, match="still in the DRAINING state"):
        draining.reactivate(state, agent.id)
    update = status(agent, "t", "TASK_KILLED", reason="REASON_AGENT_DRAINING")
    updates.status_update(state, agent.id, framework.id, update, "TASK_KILLED")
    assert draining.settle(state, NOW) == [], "the end is not acknowledged yet"
    body = {"agent_id": {"value": agent.id}, "task_id": {"value": "t"}, "uuid": UUID}
    updates.acknowledge(state, framework, body)
    [saved] = draining.settle(state, later(1))
    assert isinstance(saved, Store)
    assert agent.drain.to_json()["state"] == "DRAINED"
    assert not offers(state)
    draining.reactivate(state, agent.id)
    assert agent.drain is None
    assert offers(state)


def test_an_agent_drained_to_be_gone_is_gone_when_it_is_empty(
    state: MasterState, agent: Agent, framework: Framework
) -> None:
    run(state, agent)
    draining.drain(state, agent.id, {"mark_gone": True}, NOW)
    end(state, agent, framework)
    actions = draining.settle(state, NOW)
    assert ShutdownAgent(agent.pid, draining.GONE) in actions
    assert agent.id in state.gone
    assert not state.agents


def test_an_agent_that_comes_back_is_told_again_what_operators_want(state: MasterState, agent: Agent) -> None:
    agents.exited(state, agent.pid, NOW)
    actions = draining.drain(state, agent.id, {}, NOW)
    assert not any(isinstance(action, DrainAgent) for action in actions), "it is away"
    assert draining.settle(state, NOW) == [], "nobody knows what it runs"
    back = readmission.reregister(state, report(agent_id=agent.id), later(1))
    assert DrainAgent(agent.id, {"mark_gone": False}) in back
    draining.settle(state, later(1))
    assert agent.drain is not None
    assert agent.drain.done


def test_an_agent_marked_gone_is_shut_down_and_cannot_come_back(
    state: MasterState, agent: Agent, framework: Framework
) -> None:
    run(state, agent)
    actions = draining.mark_gone(state, agent.id, NOW)
    [told] = statuses(actions)
    assert told["state"] == "TASK_GONE_BY_OPERATOR"
    assert told["reason"] == "REASON_AGENT_REMOVED_BY_OPERATOR"
    assert events(actions, "FAILURE") == [{"agent_id": {"value": agent.id}}]
    assert [type(action) for action in actions if isinstance(action, (ShutdownAgent, ForgetAgent))] == [
        ShutdownAgent,
        ForgetAgent,
    ]
    assert isinstance(actions[0], Store)
    assert draining.mark_gone(state, agent.id, NOW) == []
    again = readmission.reregister(state, report(agent_id=agent.id), later(1))
    assert again == [ShutdownAgent(agent.pid, "Agent has been marked gone")]
    [answer] = statuses(
        updates.reconcile(
            state, framework, {"tasks": [{"task_id": {"value": "t"}, "agent_id": {"value": agent.id}}]}, NOW
        )
    )
    assert answer["state"] == "TASK_GONE_BY_OPERATOR"
    check_books(state)


@pytest.mark.parametrize("new", ["here", "unreachable", "not known yet"])
def test_who_has_the_address_of_an_agent_that_is_marked_gone_stays(state: MasterState, agent: Agent, new: str) -> None:
    agents.unreachable(state, agent.id, NOW)
    if new != "not known yet":
        newcomer = build.add_agent(state, now=later(1))
        assert (newcomer.pid, newcomer.id != agent.id) == (agent.pid, True)
        if new == "unreachable":
            agents.unreachable(state, newcomer.id, later(1))
    told = [action for action in draining.mark_gone(state, agent.id, later(2)) if isinstance(action, ShutdownAgent)]
    assert told == []


def test_tasks_of_an_unreachable_agent_that_is_given_up_end(
    state: MasterState, agent: Agent, framework: Framework
) -> None:
    run(state, agent)
    agents.unreachable(state, agent.id, NOW)
    assert list(framework.unreachable) == ["t"]
    [told] = statuses(draining.mark_gone(state, agent.id, later(1)))
    assert told["state"] == "TASK_GONE_BY_OPERATOR"
    assert not framework.unreachable
    assert [task.state for task in framework.completed] == ["TASK_GONE_BY_OPERATOR"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda state, id: draining.deactivate(state, "nobody"), "Unknown agent"),
        (lambda state, id: draining.drain(state, "nobody", {}, NOW), "Unknown agent"),
        (lambda state, id: draining.reactivate(state, "nobody"), "Agent is not deactivated"),
        (lambda state, id: draining.mark_gone(state, "nobody", NOW), "Agent 'nobody' not found"),
        (lambda state, id: draining.reactivate(state, id), "Agent is not deactivated"),
        (lambda state, id: draining.drain(state, id, {"max_grace_period": {"seconds": -1}}, NOW), "non-negative"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    state: MasterState, agent: Agent, call: object, words: str
) -> None:
    assert callable(call)
    with pytest.raises((BadInput, NotFound), match=words):
        call(state, agent.id)
    assert agent.active
    assert not state.gone
    assert not state.deactivated


def test_an_old_agent_cannot_be_drained(state: MasterState) -> None:
    old = build.add_agent(state)
    with pytest.raises(BadInput, match="not capable of draining"):
        draining.drain(state, old.id, {}, NOW)
    assert old.active


def test_what_operators_want_is_kept_in_the_registry(state: MasterState, agent: Agent, tmp_path: Path) -> None:
    draining.drain(state, agent.id, {"max_grace_period": {"seconds": 1}}, NOW)
    state.gone["other"] = NOW.wall_s
    Registry(tmp_path).save(state.record())
    again = MasterState({"id": "m2"}, state.settings, NOW, Registry(tmp_path).load())
    assert (again.deactivated, again.gone) == (state.deactivated, state.gone)
    back = readmission.reregister(again, report(agent_id=agent.id), later(1))
    assert any(isinstance(action, DrainAgent) for action in back)
    assert not again.agents[agent.id].active


async def test_drain_and_reactivate_over_the_wire(tmp_path: Path) -> None:
    async with live_master(tmp_path / "m") as master:
        agent, scheduler = ScriptedAgent(master.url), Scheduler(master.url)
        await agent.start()
        capabilities = [{"type": capability} for capability in CAPABILITIES]
        agent.introduce("RegisterSlaveMessage", agent_capabilities=capabilities)
        agent.id = (await agent.message("SlaveRegisteredMessage"))["slave_id"]["value"]
        await scheduler.subscribe()
        await scheduler.offer()
        agent_id = {"agent_id": {"value": agent.id}}
        drain: Document = {**agent_id, "max_grace_period": {"seconds": 2}}
        assert await scheduler.operate("DRAIN_AGENT", drain) == (200, "")
        sent = await agent.message("DrainSlaveMessage")
        assert sent["config"] == {"max_grace_period": {"nanoseconds": 2_000_000_000}, "mark_gone": False}
        await scheduler.event("RESCIND")
        assert await scheduler.operate("REACTIVATE_AGENT", agent_id) == (200, "")
        await scheduler.offer()
        assert await scheduler.operate("MARK_AGENT_GONE", agent_id) == (200, "")
        gone = await agent.message("ShutdownMessage")
        assert gone == {"message": "Agent has been marked gone"}
        assert await scheduler.operate("MARK_AGENT_GONE", agent_id) == (200, "")
        nobody = {"agent_id": {"value": "nosuch"}}
        assert await scheduler.operate("DEACTIVATE_AGENT", nobody) == (400, "Unknown agent")
        assert await scheduler.operate("REACTIVATE_AGENT", nobody) == (400, "Agent is not deactivated")
        assert await scheduler.operate("MARK_AGENT_GONE", nobody) == (404, "Agent 'nosuch' not found")
        await scheduler.close()
        await agent.stop()
