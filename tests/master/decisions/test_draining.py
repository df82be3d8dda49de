"""Agents that operators deactivate, drain or give up."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesos_gpu.errors import BadInput, NotFound
from mesos_gpu.master.decisions import updates
from mesos_gpu.master.engine.registry import Registry
from mesos_gpu.master.model.model import Agent, Framework
from mesos_gpu.master.state.actions import DrainAgent, ForgetAgent, ShutdownAgent, Store
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.resource import Document
from tests.support.master import build
from tests.support.master.at_once import agents, draining, readmission
from tests.support.master.build import (
    NOW,
    UUID,
    add_framework,
    check_books,
    events,
    later,
    launch,
    new_state,
    offers,
    report,
    status,
    statuses,
    task_info,
)
from tests.support.master.live import Scheduler, ScriptedAgent, live_master

CAPABILITIES = (*build.CAPABILITIES, "AGENT_DRAINING")


@pytest.fixture
def state() -> MasterState:
    return new_state()


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
