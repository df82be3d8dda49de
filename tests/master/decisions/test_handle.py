"""Everything that can happen is a value, and one function knows what follows from it."""

from __future__ import annotations

import math
import typing
from collections.abc import Callable

import msgspec.structs
import pytest
from msgspec import Struct

from mesos_gpu.errors import BadInput
from mesos_gpu.master.decisions import draining
from mesos_gpu.master.decisions.handle import decide, handle
from mesos_gpu.master.decisions.offering import tick_due_s
from mesos_gpu.master.events import agents, operators, schedulers, stored, timers
from mesos_gpu.master.events.event import Event
from mesos_gpu.master.model.model import Agent, Drainage
from mesos_gpu.master.state.actions import Action, SendEvent, Store
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.messages import field_names
from tests.support.master.build import (
    NOW,
    add_agent,
    add_framework,
    check_books,
    events,
    later,
    new_state,
    offers,
    report,
    status,
)

KINDS = typing.get_args(Event)


@pytest.fixture
def state() -> MasterState:
    return new_state()


def test_events_and_actions_are_values() -> None:
    for kind in (*KINDS, *typing.get_args(Action)):
        assert issubclass(kind, Struct), kind
        assert (kind.__struct_config__.frozen, kind.__struct_config__.eq) == (True, True), kind


def test_every_event_has_a_name_of_its_own() -> None:
    names = [kind.__name__ for kind in KINDS]
    assert len(set(names)) == len(names) > 45


@pytest.mark.parametrize("kind", schedulers.CALLS)
def test_a_call_of_a_framework_that_is_gone_does_nothing(kind: str, state: MasterState) -> None:
    agent = add_agent(state)
    before = dict(state.counters)
    assert handle(state, schedulers.CALLS[kind]("nobody", {}), NOW) == []
    assert (dict(state.counters), agent.offers) == (before, {})


def test_every_call_that_mesos_has_is_an_event() -> None:
    bodies = {name.upper() for name in field_names("mesos.v1.scheduler.Call")} - {"FRAMEWORK_ID", "TYPE"}
    assert bodies - set(schedulers.CALLS) == {"SUBSCRIBE"}
    # Two have no body of their own.
    assert set(schedulers.CALLS) - bodies == {"TEARDOWN"}


def test_an_agent_registers_when_it_is_stored(state: MasterState) -> None:
    [store] = handle(state, agents.Register(report()), NOW)
    assert isinstance(store, Store)
    assert not state.agents
    assert isinstance(store.then, stored.AgentAdmitted)
    handle(state, store.then, later(1))
    assert list(state.agents) == [store.then.agent_id]
    check_books(state)


def test_a_stream_that_ends_takes_the_framework_along_after_its_time(state: MasterState) -> None:
    framework = add_framework(state)
    assert framework.stream_id is not None
    handle(state, schedulers.StreamClosed(framework.stream_id), NOW)
    assert framework.id in state.frameworks
    handle(state, timers.FailoverExpired(framework.id, framework.epoch - 1), later(31))
    assert framework.id in state.frameworks, "of an older absence"
    handle(state, timers.FailoverExpired(framework.id, framework.epoch), later(31))
    assert framework.id in state.completed


def test_what_operators_cannot_have_changes_nothing(state: MasterState) -> None:
    agent = add_agent(state)
    before = state.record()
    for event in (
        operators.DeactivateAgent("nobody"),
        operators.ReactivateAgent(agent.id),
        operators.RemoveQuota("prod"),
        operators.StopMaintenance([{"hostname": "127.0.0.1"}]),
        operators.UpdateWeights([{"role": "prod", "weight": -1.0}]),
    ):
        with pytest.raises(BadInput):
            handle(state, event, NOW)
    assert state.record() == before


def test_offers_follow_when_they_are_due_and_one_is_taken(state: MasterState) -> None:
    agent, framework = add_agent(state), add_framework(state)
    [told] = handle(state, timers.Allocate(), NOW)
    assert isinstance(told, SendEvent)
    [offer] = told.event["offers"]["offers"]
    body = {"offer_ids": [offer["id"]], "filters": {"refuse_seconds": 5.0}}
    handle(state, schedulers.Decline(framework.id, body), NOW)
    assert not agent.offers
    assert not handle(state, timers.Tick(), later(4))
    assert later(4).mono_s < tick_due_s(state) <= later(6).mono_s
    assert events(handle(state, timers.Tick(), later(6)), "OFFERS")


@pytest.mark.parametrize(
    "why",
    [
        lambda state, agent: state.ask_for_offers(),
        lambda state, agent: state.withheld.update({agent.id: False}),
        lambda state, agent: state.drainages.update({agent.id: Drainage()}),
        lambda state, agent: state.deactivated.update({agent.id: None}),
        lambda state, agent: state.offer_ends.append((NOW.mono_s, "o", "f")),
        lambda state, agent: state.filters.refuse("f", "r", agent.id, agent.total, 0.0, NOW.mono_s),
    ],
)
def test_a_tick_is_due_where_time_may_change_something(
    state: MasterState, why: Callable[[MasterState, Agent], object]
) -> None:
    agent = add_agent(state)
    handle(state, timers.Tick(), NOW)
    assert tick_due_s(state) == math.inf
    why(state, agent)
    assert tick_due_s(state) <= NOW.mono_s


def test_many_agents_are_offered_a_part_at_a_time_with_room_for_other_events_between() -> None:
    state = new_state()
    state.settings = msgspec.structs.replace(state.settings, agents_at_once=2)
    for number in range(5):
        add_agent(state, port=6000 + number)
    framework = add_framework(state)
    for expected in (2, 4, 5):
        assert state.allocation_due
        handle(state, timers.Allocate(), NOW)
        assert len(framework.offers) == expected
    assert not state.allocation_due


def test_an_agent_with_nothing_to_drain_is_drained_behind_any_event(state: MasterState) -> None:
    agent = add_agent(state)
    agent.capabilities = (*agent.capabilities, draining.CAPABILITY)
    [store] = handle(state, operators.DrainAgent(agent.id, {}), NOW)
    assert isinstance(store, Store)
    *_, drained = handle(state, store.then, NOW)
    assert isinstance(drained, Store)
    assert isinstance(drained.then, stored.AgentDrained)
    assert decide(state, drained.then, NOW) == []
    assert agent.drain is not None
    assert agent.drain.done


def test_a_status_of_nobodys_task_warns(state: MasterState) -> None:
    agent, framework = add_agent(state), add_framework(state)
    assert offers(state)
    update = agents.StatusUpdate("nobody", framework.id, status(agent, "t", "TASK_RUNNING"), "TASK_RUNNING")
    [warning] = handle(state, update, NOW)
    assert "nobody" in str(warning)
    assert state.counters["invalid_status_updates"] == 1
