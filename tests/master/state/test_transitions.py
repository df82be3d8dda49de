"""Agents that come and go while the registry is being written: one change of an agent at a time."""

from __future__ import annotations

import pytest

from mesos_gpu.master.decisions import agents, draining, maintenance, readmission
from mesos_gpu.master.decisions.handle import decide
from mesos_gpu.master.model.model import Agent, KnownAgent
from mesos_gpu.master.registry.operations import Admit, MarkGone, MarkUnreachable, Remove
from mesos_gpu.master.state.actions import (
    Action,
    AgentRegistered,
    AgentReregistered,
    ForgetAgent,
    ShutdownAgent,
    Store,
    Warn,
)
from mesos_gpu.master.state.state import MasterState
from tests.support.master.at_once import maintenance as maintenance_at_once
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
    report,
    statuses,
    task_info,
)

FEWER = "cpus:2;gpus:3;mem:2048;disk:1000;ports:[31000-32000]"


@pytest.fixture
def state() -> MasterState:
    return new_state()


@pytest.fixture
def agent(state: MasterState) -> Agent:
    return add_agent(state)


def the_store(actions: list[Action]) -> Store:
    [store] = [action for action in actions if isinstance(action, Store)]
    return store


def is_passed_over(actions: list[Action]) -> bool:
    return len(actions) == 1 and isinstance(actions[0], Warn)


def test_a_second_registration_while_the_first_is_stored_is_passed_over(state: MasterState) -> None:
    [store] = agents.register(state, report())
    assert isinstance(store, Store)
    assert is_passed_over(agents.register(state, report()))
    assert not state.agents
    [*_, answer] = decide(state, store.then, NOW)
    assert answer == AgentRegistered(next(iter(state.agents)))
    assert agents.register(state, report()) == [answer]


def test_an_agent_that_is_being_given_up_is_as_it_was_until_that_is_stored(state: MasterState, agent: Agent) -> None:
    framework = add_framework(state)
    [offer] = offers(state)
    launch(state, offer, task_info(agent))
    [store] = agents.unreachable(state, agent.id, NOW)
    assert isinstance(store, Store)
    assert store.operation == MarkUnreachable(agent.id, NOW.wall_s)
    assert framework.tasks["t"].state == "TASK_STAGING"
    # Neither its word nor ours changes that now; it asks again, and is back then.
    assert is_passed_over(readmission.reregister(state, report(agent_id=agent.id), NOW))
    assert agents.unreachable(state, agent.id, NOW) == []
    assert agents.unregister(state, agent.id, agent.pid) == []
    actions = decide(state, store.then, later(3))
    [lost] = statuses(actions)
    assert (lost["state"], ForgetAgent(agent.id, silent=True) in actions) == ("TASK_LOST", True)
    assert state.unreachable[agent.id].since_s == NOW.wall_s, "of when it was decided"
    assert the_store(readmission.reregister(state, report(agent_id=agent.id), NOW)).operation == Admit(
        agent.id, KnownAgent(agent.info, agent.pid)
    )
    check_books(state)


def test_an_agent_that_is_about_to_be_back_is_not_given_up(state: MasterState, agent: Agent) -> None:
    add_framework(state)
    assert offers(state)
    actions = readmission.reregister(state, report(FEWER, agent_id=agent.id), NOW)
    assert len(events(actions, "RESCIND")) == 1, "nobody may have what it no longer has"
    assert offers(state) == []
    assert agents.unreachable(state, agent.id, NOW) == []
    back = decide(state, the_store(actions).then, NOW)
    assert AgentReregistered(agent.id, []) in back
    assert [offer.resources.gpus for offer in offers(state)] == [3]
    check_books(state)


def test_what_an_agent_said_last_counts(state: MasterState, agent: Agent) -> None:
    """It withdraws one more GPU while we store that it has withdrawn one."""
    first = the_store(readmission.reregister(state, report(FEWER, agent_id=agent.id), NOW))
    fewest = FEWER.replace("gpus:3", "gpus:2")
    assert readmission.reregister(state, report(fewest, agent_id=agent.id), NOW) == []
    second = the_store(decide(state, first.then, NOW))
    assert AgentReregistered(agent.id, []) in decide(state, second.then, NOW)
    assert agent.total.gpus == 2
    assert isinstance(second.operation, Admit)
    assert second.operation.known.info == agent.info


def test_what_it_runs_by_then_counts_too(state: MasterState, agent: Agent) -> None:
    agents.unreachable(state, agent.id, NOW)
    store = the_store(readmission.reregister(state, report(agent_id="other", port=5052), NOW))
    again = report(agent_id="other", port=5052, frameworks=[{"id": {"value": "f"}, "name": "f", "user": "u"}])
    assert readmission.reregister(state, again, NOW) == []
    decide(state, store.then, NOW)
    assert "f" in state.frameworks


def test_an_agent_with_an_id_and_one_without_do_not_meet_at_one_address(state: MasterState) -> None:
    new = the_store(agents.register(state, report()))
    assert is_passed_over(readmission.reregister(state, report(agent_id="old"), NOW))
    decide(state, new.then, NOW)
    other = the_store(readmission.reregister(state, report(agent_id="older", port=5052), NOW))
    assert is_passed_over(agents.register(state, report(port=5052)))
    decide(state, other.then, NOW)
    assert len({agent.pid for agent in state.agents.values()}) == len(state.agents) == 2


def test_an_agent_marked_gone_while_it_comes_back_stays_away(state: MasterState) -> None:
    state.unreachable["a"] = KnownAgent(report(agent_id="a").info, report().pid, 1.0)
    back = the_store(readmission.reregister(state, report(agent_id="a"), NOW))
    [gone] = draining.mark_gone(state, "a", NOW)
    assert isinstance(gone, Store)
    assert gone.operation == MarkGone("a", NOW.wall_s)
    [waits] = draining.mark_gone(state, "a", NOW)
    assert isinstance(waits, Store), "who asks again is answered when it is so, too"
    assert decide(state, back.then, NOW) == []
    assert is_passed_over(readmission.reregister(state, report(agent_id="a"), NOW))
    assert decide(state, gone.then, NOW) == [ForgetAgent("a")], "it is told when it asks again"
    assert decide(state, waits.then, NOW) == []
    assert readmission.reregister(state, report(agent_id="a"), NOW) == [ShutdownAgent(report().pid, draining.GONE)]
    assert not state.agents


def test_an_agent_admitted_while_its_machine_was_brought_down_is_sent_away(state: MasterState) -> None:
    machine = {"hostname": "127.0.0.1", "ip": "127.0.0.1"}
    store = the_store(agents.register(state, report()))
    schedule = {"windows": [{"machine_ids": [machine], "unavailability": {"start": {"nanoseconds": 0}}}]}
    maintenance_at_once.update_schedule(state, schedule)
    [down] = maintenance.start(state, [machine])
    assert isinstance(down, Store)
    assert decide(state, down.then, NOW) == []
    actions = decide(state, store.then, NOW)
    assert ShutdownAgent(report().pid, agents.MACHINE_DOWN) in actions
    removal = the_store(actions)
    assert removal.operation == Remove(tuple(state.agents))
    decide(state, removal.then, NOW)
    assert not state.agents


def test_an_agent_that_leaves_while_it_is_drained_leaves_nothing_behind(state: MasterState) -> None:
    agent = add_agent(state)
    state.deactivated[agent.id] = agent.drain = draining.Drain({"mark_gone": False}, 1.0)
    [drained] = draining.settle(state, NOW)
    assert draining.settle(state, NOW) == [], "once is enough"
    [removed] = agents.unregister(state, agent.id, agent.pid)
    assert isinstance(drained, Store)
    assert isinstance(removed, Store)
    decide(state, removed.then, NOW)
    decide(state, drained.then, NOW)
    assert not state.deactivated
    assert not state.agents
