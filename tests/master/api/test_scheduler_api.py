"""The scheduler API over real HTTP, beside what a real master answered."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from mesos_gpu.master.service import RunningMaster
from mesos_gpu.mesos import messages
from mesos_gpu.mesos.recordio import RecordDecoder
from mesos_gpu.mesos.resource import Document
from tests.support.master.build import framework_info, recorded, resources_of
from tests.support.master.live import JSON, Scheduler, ScriptedAgent, soon, until


def task(agent: ScriptedAgent, task_id: str = "t", resources: str = "cpus:0.1;mem:32;gpus:1") -> Document:
    return {
        "name": task_id,
        "task_id": {"value": task_id},
        "agent_id": {"value": agent.id},
        "resources": resources_of(resources),
        "command": {"value": "true"},
    }


@pytest.mark.parametrize(
    "call", recorded()["bad_calls"], ids=lambda c: f"{c['request']['method']} {c['request']['body']}"
)
async def test_bad_calls_are_refused_as_recorded(master: RunningMaster, call: dict[str, Any]) -> None:
    request, expected = call["request"], call["response"]
    body, url = request["body"], master.url + request["path"]
    data = body if body is None or isinstance(body, str) else json.dumps(body)
    async with (
        aiohttp.ClientSession(skip_auto_headers=["Content-Type", "Accept"]) as session,
        session.request(request["method"], url, data=data, headers=request["headers"]) as answer,
    ):
        assert (answer.status, await answer.text()) == (expected["status"], expected["body"])
        assert {key: value for key, value in answer.headers.items() if key != "Date"} == expected["headers"]
        assert "Date" in answer.headers


@pytest.mark.parametrize("case", recorded()["subscriptions"], ids=lambda s: str(s["framework_info"]["roles"]))
async def test_subscriptions_are_answered_as_recorded(scheduler: Scheduler, case: dict[str, Any]) -> None:
    assert await scheduler.open(case["framework_info"]) == case["status"]
    assert set(scheduler.headers) == set(case["headers"])
    if case["status"] == 200:
        assert {key: scheduler.headers[key] for key in ("Content-Type", "Transfer-Encoding")} == {
            "Content-Type": "application/json",
            "Transfer-Encoding": "chunked",
        }
    else:
        assert await soon(scheduler.events.get()) == {"type": "REFUSED", "refused": case["body"]}
    for expected in case["events"]:
        event = await soon(scheduler.events.get())
        assert event is not None
        assert event["type"] == expected["type"]
        if event["type"] == "ERROR":
            assert event == expected
    if case["closed"]:
        assert await soon(scheduler.events.get()) is None


async def test_calls_are_answered_202_with_the_recorded_headers(scheduler: Scheduler) -> None:
    await scheduler.subscribe()
    for kind, body in [("SUPPRESS", None), ("REVIVE", {}), ("RECONCILE", {"tasks": []}), ("REQUEST", {"requests": []})]:
        answer = await scheduler.call(kind, body)
        assert answer.status == 202
        assert {k: v for k, v in answer.headers.items() if k != "Date"} == recorded()["calls_answer"]


async def test_a_scheduler_that_hangs_up_may_come_back(
    master: RunningMaster, agent: ScriptedAgent, new_scheduler: Callable[[], Scheduler]
) -> None:
    await agent.register()
    first = new_scheduler()
    await first.subscribe()
    await first.launch(await first.offer(), task(agent))
    run = await agent.message("RunTaskMessage")
    await first.close()
    [framework] = master.engine.state.frameworks.values()
    await until(lambda: not framework.connected)
    agent.update(run, "TASK_RUNNING")  # nobody to tell: the agent repeats it when the framework is back
    second = new_scheduler()
    await second.subscribe(framework_info(), framework.id)
    await agent.message("UpdateFrameworkMessage")
    agent.update(run, "TASK_RUNNING")
    assert (await second.status())["state"] == "TASK_RUNNING"
    answer = await second.call("RECONCILE", {"tasks": []})
    assert answer.status == 202
    assert (await second.status())["reason"] == "REASON_RECONCILIATION"


async def test_a_call_of_a_framework_that_is_away_is_forbidden(
    master: RunningMaster, new_scheduler: Callable[[], Scheduler]
) -> None:
    first, second = new_scheduler(), new_scheduler()
    await first.subscribe()
    second.framework_id, second.stream_id = first.framework_id, first.stream_id
    await first.close()
    [framework] = master.engine.state.frameworks.values()
    await until(lambda: not framework.connected)
    answer = await second.call("REVIVE")
    assert (answer.status, await answer.text()) == (403, "Framework is not subscribed")


async def test_killing_reaches_the_agent(agent: ScriptedAgent, scheduler: Scheduler) -> None:
    await agent.register()
    await scheduler.subscribe()
    await scheduler.launch(await scheduler.offer(), task(agent))
    await agent.message("RunTaskMessage")
    policy = {"grace_period": {"nanoseconds": 5_000_000_000}}
    await scheduler.call("KILL", {"task_id": {"value": "t"}, "kill_policy": policy})
    kill = await agent.message("KillTaskMessage")
    assert (kill["task_id"], kill["kill_policy"]) == ({"value": "t"}, policy)


async def test_freed_gpus_are_offered_at_once(agent: ScriptedAgent, scheduler: Scheduler) -> None:
    await agent.register()
    await scheduler.subscribe()
    await scheduler.launch(await scheduler.offer(), task(agent, resources="cpus:2;mem:2048;gpus:4"))
    agent.update(await agent.message("RunTaskMessage"), "TASK_FINISHED")
    assert (await scheduler.status(skip=("HEARTBEAT",)))["state"] == "TASK_FINISHED"
    offer = await scheduler.offer()
    [gpus] = [r["scalar"]["value"] for r in offer["resources"] if r["name"] == "gpus"]
    assert gpus == 4.0


async def test_an_operator_sees_an_agent_leave(agent: ScriptedAgent, scheduler: Scheduler) -> None:
    await agent.register()
    await scheduler.subscribe()
    offer = await scheduler.offer()
    agent.say("UnregisterSlaveMessage", {"slave_id": {"value": agent.id}})
    assert (await scheduler.event("RESCIND"))["offer_id"] == offer["id"]
    assert await scheduler.event("FAILURE") == {"agent_id": {"value": agent.id}}


async def test_updating_a_framework_is_answered_200_or_400(scheduler: Scheduler) -> None:
    await scheduler.subscribe()
    info = framework_info(id={"value": scheduler.framework_id})
    assert (await scheduler.call("UPDATE_FRAMEWORK", {"framework_info": info})).status == 200
    answer = await scheduler.call("UPDATE_FRAMEWORK", {"framework_info": {**info, "user": "other"}})
    assert (answer.status, await answer.text()) == (
        400,
        "FrameworkInfo update is not valid: Updating 'FrameworkInfo.user' is unsupported; attempted to update from "
        "'root' to 'other'",
    )


async def test_a_protobuf_scheduler_is_served_in_protobuf(master: RunningMaster, agent: ScriptedAgent) -> None:
    await agent.register()
    call = messages.encode(
        "mesos.v1.scheduler.Call", {"type": "SUBSCRIBE", "subscribe": {"framework_info": framework_info()}}
    )
    headers = {"Content-Type": "application/x-protobuf", "Accept": "application/x-protobuf"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{master.url}/api/v1/scheduler", data=call, headers=headers) as response,
    ):
        assert response.headers["Content-Type"] == "application/x-protobuf"
        decoder, kinds = RecordDecoder(), []
        while len(kinds) < 3:
            for record in decoder.feed(await soon(response.content.readany())):
                kinds.append(messages.decode("mesos.v1.scheduler.Event", record)["type"])
        assert kinds == ["SUBSCRIBED", "HEARTBEAT", "OFFERS"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "application/json; charset=utf-8"}, 200),
        ({**JSON, "Accept": "*/*"}, 200),
        ({**JSON, "Accept": "text/html, application/*;q=0.5"}, 200),
        ({**JSON, "Accept": "application/json;q=0"}, 406),
        ({**JSON, "Mesos-Stream-Id": "x"}, 400),
        ({}, 400),
    ],
)
async def test_headers_of_a_subscription(master: RunningMaster, headers: dict[str, str], status: int) -> None:
    call = json.dumps({"type": "SUBSCRIBE", "subscribe": {"framework_info": framework_info()}}).encode()
    async with (
        aiohttp.ClientSession(skip_auto_headers=["Content-Type"]) as session,
        session.post(f"{master.url}/api/v1/scheduler", data=call, headers=headers) as response,
    ):
        assert response.status == status


async def test_a_body_that_is_not_protobuf_or_of_the_wrong_types_is_refused(master: RunningMaster) -> None:
    url = f"{master.url}/api/v1/scheduler"
    async with aiohttp.ClientSession() as session:
        async with session.post(url, data=b"\xff", headers={"Content-Type": "application/x-protobuf"}) as response:
            assert response.status == 400
        wrong = json.dumps({"type": "KILL", "kill": {"task_id": "t"}}).encode()
        async with session.post(url, data=wrong, headers=JSON) as response:
            assert response.status == 400
            assert (await response.text()).startswith("Failed to convert JSON into Call protobuf: ")
