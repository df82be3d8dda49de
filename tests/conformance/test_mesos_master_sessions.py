"""Whole sessions of a real master, played again: the same calls, the same agent's reports, and what schedulers and
operators are told, event by event.

The recordings are of Mesos 1.12.0 (tests/recorded): scheduler-session-2 is a framework's life with a custom executor, a
task group, checks, limits, draining; operator-subscribe what an operator heard meanwhile; operator-changes the calls
of an operator. Ids differ; kinds, order, keys, types and all that the agent reports must not.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mesos_gpu.master.service import RunningMaster
from mesos_gpu.mesos import messages
from mesos_gpu.mesos.messages import devolve
from mesos_gpu.mesos.resource import Document
from tests.support.master.live import Scheduler, ScriptedAgent, live_master, soon, until
from tests.support.master.operator_stream import Operator, Session
from tests.support.master.shapes import differences
from tests.support.places import RECORDED, ROOT

DIFFERENCES = ROOT / "docs" / "reference" / "differences.md"
RESOURCES = "cpus:2;gpus:4;mem:23081;disk:252899;ports:[31000-32000]"
ATTRIBUTES = [
    {"name": "gpu_model", "type": "TEXT", "text": {"value": "stub"}},
    {"name": "rack", "type": "TEXT", "text": {"value": "r1"}},
]


@cache
def recording(name: str) -> Any:
    return json.loads((RECORDED / f"{name}.json").read_text())


class Stage:
    """Our master in the place of the recorded one, an agent that reports what the recorded one did, an operator."""

    def __init__(self, master: RunningMaster, session: Session) -> None:
        self.master = master
        self.agent = ScriptedAgent(master.url)
        self.scheduler = Scheduler(master.url)
        self.operator = Operator(session, master.url)
        self.ids: dict[str, str] = {}
        self.made_here: list[Document] = []
        """Statuses that the master made itself: they come with the call that they answer."""
        self.operations: dict[str, Document] = {}
        """Our operation uuids by the scheduler's ids of operations."""

    async def open(self) -> None:
        await self.agent.start()
        capabilities = sorted(messages.enum_names("mesos.v1.AgentInfo.Capability.Type") - {"UNKNOWN"})
        self.agent.introduce(
            "RegisterSlaveMessage",
            slave={**self.agent.info(RESOURCES), "attributes": ATTRIBUTES},
            agent_capabilities=[{"type": capability} for capability in capabilities],
        )
        self.agent.id = (await self.agent.message("SlaveRegisteredMessage"))["slave_id"]["value"]

    async def close(self) -> None:
        await self.scheduler.close()
        await self.agent.stop()

    def ours(self, recorded: Any) -> Any:
        """The recorded document with our ids for theirs."""
        text = json.dumps(recorded)
        for theirs, own in self.ids.items():
            text = text.replace(theirs, own)
        return json.loads(text)

    async def next(self) -> Document:
        """The next event that is no offer, no heartbeat and not made by the master alone."""
        while True:
            event = await soon(self.scheduler.events.get())
            assert event is not None, "the stream ended"
            if event["type"] == "UPDATE" and "uuid" not in event["update"]["status"]:
                self.made_here.append(event["update"]["status"])
            elif event["type"] not in ("HEARTBEAT", "OFFERS", "RESCIND"):
                return event

    async def accept(self, body: Document) -> None:
        [framework] = self.master.engine.state.frameworks.values()
        [agent] = self.master.engine.state.agents.values()
        # All that is free is offered: an operation's resources may come in another offer than the rest.
        await until(lambda: bool(framework.offers) and not agent.free)
        offer_ids = [{"value": offer_id} for offer_id in framework.offers]
        answer = await self.scheduler.call("ACCEPT", {**body, "offer_ids": offer_ids})
        assert (answer.status, answer.headers["Content-Length"]) == (202, "0")

    def report(self, status: Document) -> None:
        """The agent sends a status that the recorded one has sent."""
        internal = devolve("mesos.TaskStatus", status)
        update: Document = {
            "framework_id": {"value": self.scheduler.framework_id},
            "slave_id": {"value": self.agent.id},
            "status": internal,
            "timestamp": status["timestamp"],
            "uuid": status["uuid"],
            "latest_state": status["state"],
        }
        if "executor_id" in status:
            update["executor_id"] = status["executor_id"]
        self.agent.say("StatusUpdateMessage", {"update": update, "pid": self.agent.pid})

    def of_executor(self, body: Document) -> Document:
        return {
            "slave_id": {"value": self.agent.id},
            "framework_id": {"value": self.scheduler.framework_id},
            "executor_id": body["executor_id"],
        }


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with live_master(tmp_path / "master", "--allocation_interval=10ms") as master, Session() as session:
        made = Stage(master, session)
        await made.open()
        yield made
        await made.close()


# What the agent gets from each call.
FORWARDED = {
    "KILL": "KillTaskMessage",
    "MESSAGE": "FrameworkToExecutorMessage",
    "SHUTDOWN": "ShutdownExecutorMessage",
    "ACKNOWLEDGE": "StatusUpdateAcknowledgementMessage",
    "ACKNOWLEDGE_OPERATION_STATUS": "AcknowledgeOperationStatusMessage",
}
# Tasks and operations that the master refused, or never heard of.
NEVER_SENT = ("bad-half", "bad-neg", "bad-toomany", "never-was", "op-6")
LAUNCHES = {"LAUNCH": "RunTaskMessage", "LAUNCH_GROUP": "RunTaskGroupMessage"}
SPEAKS = ("StatusUpdateAcknowledgementMessage", "UpdateFrameworkMessage", "CheckpointResourcesMessage")


async def test_a_frameworks_whole_life_is_told_as_a_real_master_told_it(stage: Stage) -> None:
    recorded = recording("scheduler-session-2")
    await stage.operator.subscribe()
    subscribed = await stage.scheduler.subscribe(dict(recorded["framework_info"]))
    timeline = sorted([*recorded["calls"], *recorded["events"]], key=lambda one: float(one["at"]))
    real = timeline[0]["event"]["subscribed"]
    assert differences(subscribed, real) == []
    stage.ids = {
        real["framework_id"]["value"]: stage.scheduler.framework_id,
        f"{real['master_info']['id']}-S0": stage.agent.id,
    }
    for one in timeline[1:]:
        if "event" in one:
            await _event(stage, one["event"])
        else:
            await _call(stage, one)
    removed = stage.scheduler.framework_id
    await until(lambda: removed in stage.master.engine.state.completed)
    await _compare_with_operator(stage)


async def test_refusals_reconciliation_and_a_takeover_are_told_as_a_real_master_told_them(stage: Stage) -> None:
    recorded = recording("scheduler-session")
    info = recorded["subscribe"]["framework_info"]
    real = recorded["first_stream"][0]["event"]["subscribed"]
    assert differences(await stage.scheduler.subscribe(dict(info)), real) == []
    stage.ids = {
        real["framework_id"]["value"]: stage.scheduler.framework_id,
        f"{real['master_info']['id']}-S0": stage.agent.id,
    }
    *calls, late, teardown = recorded["calls"]
    timeline = sorted([*calls, *recorded["first_stream"][1:]], key=lambda one: float(one["at"]))
    for one in timeline:
        await (_event(stage, one["event"]) if "event" in one else _call(stage, one))
    second = Scheduler(stage.master.url)
    second_subscribed = await second.subscribe(dict(info), stage.scheduler.framework_id)
    assert differences(second_subscribed, recorded["second_stream"]["events"][0]["event"]["subscribed"]) == []
    assert await stage.next() == recorded["first_stream"][-1]["event"]
    assert await soon(stage.scheduler.events.get()) is None
    _compare_made_here(stage, recorded)

    first_stream = late["request"]["headers"]["Mesos-Stream-Id"]
    answer = await stage.scheduler.call("REVIVE", {})
    expected = stage.ours(late["response"]["body"]).replace(first_stream, stage.scheduler.stream_id)
    assert (answer.status, await answer.text()) == (late["response"]["status"], expected)
    assert (await second.call("TEARDOWN")).status == teardown["response"]["status"]
    assert await soon(_end(second)) is None
    after = recorded["after_teardown_call"]["response"]
    answer = await second.call("REVIVE", {})
    assert (answer.status, await answer.text()) == (after["status"], after["body"])
    await second.close()


async def _end(scheduler: Scheduler) -> None:
    while await scheduler.events.get() is not None:
        pass


def _compare_made_here(stage: Stage, recorded: Document) -> None:
    real = [
        stage.ours(one["event"]["update"]["status"])
        for one in recorded["first_stream"]
        if one["event"]["type"] == "UPDATE" and "uuid" not in one["event"]["update"]["status"]
    ]
    assert [status["task_id"]["value"] for status in stage.made_here] == [s["task_id"]["value"] for s in real]
    for ours, theirs in zip(stage.made_here, real, strict=True):
        for status in (ours, theirs):
            assert isinstance(status.pop("timestamp"), float)
            # Resources are listed in no particular order, in Mesos as here.
            status["message"] = sorted(re.split(r"; | required | available ", status["message"]))
        assert ours == theirs


async def _event(stage: Stage, recorded: Document) -> None:
    expected = stage.ours(recorded)
    match recorded["type"]:
        case "UPDATE" if "uuid" in recorded["update"]["status"]:
            stage.report(expected["update"]["status"])
        case "MESSAGE":
            body = expected["message"]
            stage.agent.say("ExecutorToFrameworkMessage", {**stage.of_executor(body), "data": body["data"]})
        case "FAILURE" if "executor_id" in recorded["failure"]:
            body = expected["failure"]
            stage.agent.say("ExitedExecutorMessage", {**stage.of_executor(body), "status": body["status"]})
        case "UPDATE_OPERATION_STATUS":
            _operation_status(stage, expected["update_operation_status"]["status"])
        case _:
            return  # offers come when they come; maintenance and marking gone have tests of their own
    ours = await stage.next()
    if "does not contain" in json.dumps(expected):
        for event in (ours, expected):
            status = event["update_operation_status"]["status"]
            status["message"] = sorted(re.split(r"; | does not contain ", status["message"]))
    assert ours == expected


def _operation_status(stage: Stage, status: Document) -> None:
    """The agent reports an operation; one without a uuid the master refused by itself."""
    if "uuid" in status:
        message = {
            "framework_id": {"value": stage.scheduler.framework_id},
            "slave_id": {"value": stage.agent.id},
            "status": devolve("mesos.OperationStatus", {k: v for k, v in status.items() if k != "agent_id"}),
            "operation_uuid": stage.operations[status["operation_id"]["value"]],
        }
        stage.agent.say("UpdateOperationStatusMessage", message)


async def _call(stage: Stage, one: Document) -> None:
    call = stage.ours(one["request"]["body"])
    kind = call["type"]
    body = call.get(kind.lower())
    if kind == "ACCEPT":
        [operation] = body["operations"]
        await stage.accept(body)
        if operation["type"] not in LAUNCHES:
            if operation["id"]["value"] not in NEVER_SENT:
                sent = await stage.agent.message("ApplyOperationMessage", SPEAKS)
                stage.operations[operation["id"]["value"]] = sent["operation_uuid"]
            return
        tasks = operation.get("launch", {}).get("task_infos", [{"name": "of a group"}])
        if tasks[0]["name"] not in NEVER_SENT:
            sent = await stage.agent.message(LAUNCHES[operation["type"]], SPEAKS)
            assert sent["launch_executor"] is True
        return
    if kind not in FORWARDED and kind not in ("TEARDOWN", "RECONCILE", "SUPPRESS", "REVIVE"):
        return
    answer = await stage.scheduler.call(kind, body)
    assert answer.status == one["response"]["status"]
    assert answer.headers["Content-Length"] == one["response"]["headers"]["Content-Length"]
    if kind in FORWARDED and body["task_id" if kind == "KILL" else "agent_id"]["value"] not in NEVER_SENT:
        await stage.agent.message(FORWARDED[kind], SPEAKS if kind != "ACKNOWLEDGE" else ())


async def _compare_with_operator(stage: Stage) -> None:
    expected = [one["event"] for one in recording("operator-subscribe")["events"][2:]]
    for real in [event for event in expected if event["type"] != "HEARTBEAT"]:
        ours = await stage.operator.next()
        assert ours["type"] == real["type"], f"{ours} where a real master says {real}"
        if real["type"] == "TASK_UPDATED":
            assert ours == stage.ours(real)
        elif real["type"] == "TASK_ADDED":
            assert ours["task_added"]["task"] == stage.ours(real)["task_added"]["task"]
        else:
            assert differences(ours, real) == []


async def test_operators_calls_are_answered_as_a_real_master_answered_them(stage: Stage) -> None:
    await stage.scheduler.subscribe(dict(recording("scheduler-session-2")["framework_info"]))
    stage.ids = {_agent_of(recording("operator-changes")): stage.agent.id}
    for one in recording("operator-changes"):
        request, expected = one["request"], one["response"]
        status, text, headers = await _ask(stage, request["method"], request["path"], stage.ours(request["body"]))
        assert status == expected["status"], request
        assert headers.get("Content-Type") == expected["headers"].get("Content-Type")
        if isinstance(expected["body"], str):
            assert _numberless(text) == _numberless(expected["body"])
        elif "reservations" not in json.dumps(expected["body"]):  # those were made in scheduler-session-2
            await _settled(stage)
            assert differences(_not_offered(json.loads(text)), _not_offered(expected["body"])) == [], request


async def test_an_agent_marked_gone_is_gone(stage: Stage) -> None:
    await stage.scheduler.subscribe(dict(recording("scheduler-session-2")["framework_info"]))
    marked, listed = recording("scheduler-session-2")["mark_agent_gone"]
    stage.ids = {marked["request"]["body"]["mark_agent_gone"]["agent_id"]["value"]: stage.agent.id}
    await stage.scheduler.offer()
    await stage.operator.subscribe()
    status, text, _ = await _post(stage, stage.ours(marked["request"]["body"]))
    assert (status, text) == (marked["response"]["status"], marked["response"]["body"])
    told = recording("scheduler-session-2")["events"][-3:]
    assert {one["event"]["type"] for one in told} == {"RESCIND", "FAILURE"}
    await stage.scheduler.event("RESCIND")
    assert await stage.scheduler.event("FAILURE") == stage.ours(told[-1]["event"]["failure"])
    # Here we tell operators more than a real master, and say so.
    assert "operators are not told (AGENT_REMOVED)" in DIFFERENCES.read_text()
    assert "AGENT_REMOVED" not in {one["event"]["type"] for one in recording("operator-subscribe")["events"]}
    assert await stage.operator.event("AGENT_REMOVED") == {"agent_id": {"value": stage.agent.id}}
    _, text, _ = await _post(stage, listed["request"]["body"])
    assert json.loads(text) == listed["response"]["body"]


def _agent_of(calls: list[Document]) -> str:
    return next(
        str(one["request"]["body"]["drain_agent"]["agent_id"]["value"])
        for one in calls
        if (one["request"]["body"] or {}).get("type") == "DRAIN_AGENT"
    )


def _not_offered(document: Any) -> Any:
    """What is offered at the moment depends on the moment."""
    agents = document.get("get_agents", {}).get("agents", []) if isinstance(document, dict) else []
    for agent in agents:
        agent.pop("offered_resources", None)
    for role in document.get("roles", []) if isinstance(document, dict) else []:
        role["resources"] = role["offered"] = {}
    return document


async def _settled(stage: Stage) -> None:
    [agent] = stage.master.engine.state.agents.values()
    await until(lambda: agent.drain is None or agent.drain.done)


async def _post(stage: Stage, call: Document) -> tuple[int, str, dict[str, str]]:
    return await _ask(stage, "POST", "/api/v1", call)


async def _ask(stage: Stage, method: str, path: str, call: Document | None) -> tuple[int, str, dict[str, str]]:
    data = None if call is None else json.dumps(call)
    headers = {} if call is None else {"Content-Type": "application/json"}
    url = stage.master.url + path
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, data=data, headers=headers) as response,
    ):
        return response.status, await response.text(), dict(response.headers)


def _numberless(text: str) -> list[str]:
    """A sentence without the resources in it, which Mesos lists in an order of its own."""
    return sorted(re.split(r"; |'", text))
