"""Machines are to be maintained; the events are those of a real master in the same situation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mesos_gpu.errors import BadInput
from mesos_gpu.master.decisions import offering, subscriptions
from mesos_gpu.master.engine.registry import Registry
from mesos_gpu.master.model.model import Agent, Framework
from mesos_gpu.master.state.actions import ShutdownAgent, Store
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.resource import Document
from tests.support.master.at_once import agents, maintenance, readmission
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
from tests.support.master.live import Scheduler, ScriptedAgent, live_master, soon
from tests.support.master.operator import Operator, recorded
from tests.support.master.shapes import differences

MACHINE = {"hostname": "127.0.0.1", "ip": "127.0.0.1"}
OTHER = {"hostname": "elsewhere"}
START = {"start": {"nanoseconds": 1_795_260_964_616_922_112}}


def schedule(*machines: Document, **more: Any) -> Document:
    return {"windows": [{"machine_ids": list(machines), "unavailability": {**START, **more}}]}


@pytest.fixture
def state() -> MasterState:
    return new_state()


@pytest.fixture
def agent(state: MasterState) -> Agent:
    return add_agent(state)


@pytest.fixture
def framework(state: MasterState, agent: Agent) -> Framework:
    """A framework with a task, and an offer of the rest."""
    framework = add_framework(state)
    [offer] = offers(state)
    launch(state, offer, task_info(agent), refuse_s=0)
    state.filters.expire(NOW.mono_s)
    assert len(offers(state)) == 1
    return framework


def test_a_schedule_takes_offers_back_and_makes_new_ones_that_say_so(
    state: MasterState, agent: Agent, framework: Framework
) -> None:
    actions = maintenance.update_schedule(state, schedule(MACHINE))
    assert isinstance(actions[0], Store)
    assert [event["type"] for event in events(actions)] == ["RESCIND"]
    told = offering.offer_resources(state, NOW)
    assert [event["type"] for event in events(told)] == ["OFFERS", "INVERSE_OFFERS"]
    [offer] = events(told, "OFFERS")[0]["offers"]
    assert offer["unavailability"] == START
    [asked] = events(told, "INVERSE_OFFERS")[0]["inverse_offers"]
    assert asked == {
        "id": asked["id"],
        "url": offer["url"],
        "framework_id": {"value": framework.id},
        "agent_id": {"value": agent.id},
        "unavailability": START,
    }
    assert not events(offering.offer_resources(state, NOW), "INVERSE_OFFERS"), "asked once"
    back = maintenance.update_schedule(state, {})
    assert [event["type"] for event in events(back)] == ["RESCIND", "RESCIND_INVERSE_OFFER"]
    [offer] = events(offering.offer_resources(state, NOW), "OFFERS")[0]["offers"]
    assert "unavailability" not in offer
    assert not framework.inverse_offers
    check_books(state)


def ask(state: MasterState) -> str:
    """The id of the inverse offer that goes out."""
    [asked] = events(offering.offer_resources(state, NOW), "INVERSE_OFFERS")[0]["inverse_offers"]
    return str(asked["id"]["value"])


@pytest.mark.parametrize("verdict", ["ACCEPT", "DECLINE"])
def test_answers_are_shown_to_operators_and_asked_again_later(
    state: MasterState, agent: Agent, framework: Framework, verdict: str
) -> None:
    maintenance.update_schedule(state, schedule(MACHINE, OTHER))
    body = {"inverse_offer_ids": [{"value": ask(state)}, {"value": "unknown"}], "filters": {"refuse_seconds": 3.0}}
    maintenance.answer(state, framework, verdict, body, NOW)
    said = {
        "status": verdict,
        "framework_id": {"value": framework.id},
        "timestamp": {"nanoseconds": round(NOW.wall_s * 1e9)},
    }
    assert maintenance.status(state) == {"draining_machines": [{"id": MACHINE, "statuses": [said]}, {"id": OTHER}]}
    assert not events(offering.tick(state, later(2)), "INVERSE_OFFERS")
    assert len(events(offering.tick(state, later(3)), "INVERSE_OFFERS")) == 1
    assert maintenance.status(state)["draining_machines"][0]["statuses"] == [said], "the last answer stands"


def test_who_has_nothing_there_is_not_asked(state: MasterState, agent: Agent) -> None:
    maintenance.update_schedule(state, schedule(MACHINE))
    add_framework(state, capabilities="")
    assert not events(offering.offer_resources(state, NOW))


def test_a_machine_goes_down_and_comes_up(state: MasterState, agent: Agent, framework: Framework) -> None:
    maintenance.update_schedule(state, schedule(MACHINE, OTHER))
    offers(state)
    actions = maintenance.start(state, [MACHINE])
    assert ShutdownAgent(agent.pid, maintenance.DOWN) in actions
    assert [status["state"] for status in statuses(actions)] == ["TASK_LOST"]
    assert not state.agents
    assert maintenance.status(state) == {"draining_machines": [{"id": OTHER}], "down_machines": [MACHINE]}
    refused = [ShutdownAgent(agent.pid, agents.MACHINE_DOWN)]
    assert agents.register(state, report()) == refused
    assert readmission.reregister(state, report(agent_id=agent.id), NOW) == refused
    with pytest.raises(BadInput, match="is deactivated and cannot be removed from the schedule"):
        maintenance.update_schedule(state, schedule(OTHER))
    maintenance.stop(state, [MACHINE])
    assert state.policy.schedule == schedule(OTHER)
    assert add_agent(state).active
    check_books(state)


def test_an_agent_that_comes_later_is_to_be_maintained_too(state: MasterState) -> None:
    maintenance.update_schedule(state, schedule(MACHINE))
    framework = add_framework(state)
    add_agent(state)
    told = events(offering.offer_resources(state, NOW))
    assert [event["type"] for event in told] == ["OFFERS", "INVERSE_OFFERS"]
    subscriptions.disconnected(state, str(framework.stream_id), NOW)
    assert not framework.inverse_offers
    again = add_framework(state, id={"value": framework.id})
    assert again is framework
    assert [event["type"] for event in events(offering.offer_resources(state, NOW))] == ["OFFERS", "INVERSE_OFFERS"]


def test_inverse_offers_go_with_their_agent(state: MasterState, agent: Agent, framework: Framework) -> None:
    maintenance.update_schedule(state, schedule(MACHINE))
    ask(state)
    gone = agents.unreachable(state, agent.id, NOW)
    assert [event["type"] for event in events(gone)][:2] == ["RESCIND", "RESCIND_INVERSE_OFFER"]
    assert maintenance.status(state) == {"draining_machines": [{"id": MACHINE}]}
    assert not framework.inverse_offers


def text(machine: Document) -> str:
    return json.dumps(machine, separators=(",", ":"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"windows": [{"unavailability": START}]}, "List of machines in the maintenance window is empty"),
        (schedule({}), "Both 'hostname' and 'ip' for a machine are empty"),
        (schedule({"ip": "1.2.3"}), "Failed to parse IP '1.2.3'"),
        (schedule(MACHINE, MACHINE), f"Machine '{text(MACHINE)}' appears more than once in the schedule"),
        (schedule(MACHINE, duration={"nanoseconds": -1}), "Unavailability 'duration' is negative"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(state: MasterState, given: Document, words: str) -> None:
    with pytest.raises(BadInput) as refused:
        maintenance.update_schedule(state, given)
    assert str(refused.value) == words
    assert not state.policy.machines


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda state: maintenance.start(state, []), "List of machines is empty"),
        (lambda state: maintenance.start(state, [{"hostname": "x"}]), "is not part of a maintenance schedule"),
        (lambda state: maintenance.stop(state, [MACHINE]), "is not in DOWN mode and cannot be brought up"),
        (lambda state: maintenance.start(state, [MACHINE, MACHINE]), "appears more than once"),
    ],
)
def test_machines_that_cannot_change_are_refused(state: MasterState, change: Any, words: str) -> None:
    maintenance.update_schedule(state, schedule(MACHINE))
    with pytest.raises(BadInput, match=words):
        change(state)
    maintenance.start(state, [MACHINE])
    with pytest.raises(BadInput, match="is not in DRAINING mode and cannot be brought down"):
        maintenance.start(state, [MACHINE])


def test_a_restarted_master_knows_the_schedule_and_what_is_down(tmp_path: Path, state: MasterState) -> None:
    maintenance.update_schedule(state, schedule(MACHINE, OTHER))
    maintenance.start(state, [OTHER])
    Registry(tmp_path).save(state.record())
    again = new_state()
    again.recover(Registry(tmp_path).load())
    assert again.policy.schedule == schedule(MACHINE, OTHER)
    assert maintenance.status(again) == maintenance.status(state)


async def test_operators_and_schedulers_see_what_was_recorded(tmp_path: Path) -> None:
    async with live_master(tmp_path) as master, aiohttp.ClientSession() as session:
        operator, agent, scheduler = Operator(master.url, session), ScriptedAgent(master.url), Scheduler(master.url)
        await agent.start()
        try:
            await agent.register()
            await scheduler.subscribe()
            await scheduler.offer()
            for kind in ["UPDATE_MAINTENANCE_SCHEDULE", "GET_MAINTENANCE_SCHEDULE", "GET_MAINTENANCE_STATUS"]:
                await operator.repeat(recorded(kind))
            await scheduler.event("RESCIND")
            assert (await scheduler.offer())["unavailability"] == START
            [asked] = (await scheduler.event("INVERSE_OFFERS"))["inverse_offers"]
            assert asked["agent_id"]["value"] == agent.id
            await scheduler.call("DECLINE_INVERSE_OFFERS", {"inverse_offer_ids": [asked["id"]]})
            status, shown = await operator.say("GET", "/maintenance/status")
            assert (status, shown["draining_machines"][0]["statuses"][0]["status"]) == (200, "DECLINE")
            status, shown = await operator.say("GET", "/maintenance/schedule")
            assert differences(shown, schedule(MACHINE)) == []
            assert await operator.say("POST", "/machine/down", [MACHINE]) == (200, "")
            assert (await agent.message("ShutdownMessage"))["message"] == maintenance.DOWN
            assert await operator.say("POST", "/machine/up", [MACHINE]) == (200, "")
            assert await operator.say("GET", "/maintenance/schedule") == (200, {})
            status, body = await operator.say("POST", "/machine/up", [MACHINE])
            words = f"Machine '{text(MACHINE)}' is not part of a maintenance schedule"
            assert (status, body) == (400, words)
            for method, path in [("GET", "/machine/down"), ("PUT", "/maintenance/schedule")]:
                assert (await operator.say(method, path))[0] == 405
            for path, given in [("/machine/down", {}), ("/machine/up", [7]), ("/maintenance/schedule", [])]:
                assert (await operator.say("POST", path, given))[0] == 400
            await operator.repeat(recorded("UPDATE_MAINTENANCE_SCHEDULE", 1))
            # Over v1, too.
            call = {"type": "UPDATE_MAINTENANCE_SCHEDULE", "update_maintenance_schedule": {"schedule": schedule(OTHER)}}
            assert (await operator.say("POST", "/api/v1", call))[0] == 200
            for kind in ("START", "STOP"):
                call = {"type": f"{kind}_MAINTENANCE", f"{kind.lower()}_maintenance": {"machines": [OTHER]}}
                assert await operator.say("POST", "/api/v1", call) == (200, "")
            await soon(scheduler.event("RESCIND", ("HEARTBEAT", "RESCIND_INVERSE_OFFER")))
        finally:
            await scheduler.close()
            await agent.stop()
