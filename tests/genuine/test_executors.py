"""Executors of frameworks on our agent under genuine masters: over pymesos, and one that speaks as libmesos' does."""

from __future__ import annotations

import asyncio
import base64
import sys

import pytest

from mesos_gpu.mesos.resource import Document
from tests.genuine.box import PATIENT, MakeBox
from tests.genuine.releases import Release
from tests.genuine.scheduler import Framework, task
from tests.support.agent.custom_executors import CUSTOM

pytestmark = [pytest.mark.root, pytest.mark.timeout(240)]


def hosted(offer: Document, kind: str, name: str, framework_id: str | None) -> Document:
    """Return a task with a GPU of the executor of this kind."""
    document = task(offer, f"{kind}-{name}", "", gpus=1)
    del document["command"]
    needs = {"cpus": 0.1, "mem": 64.0}
    resources = [{"name": n, "type": "SCALAR", "scalar": {"value": v}} for n, v in needs.items()]
    ids = {"executor_id": {"value": kind}, "framework_id": {"value": framework_id}}
    command = {"value": f"exec {sys.executable} {CUSTOM[kind]}"}
    return {**document, "executor": {"type": "CUSTOM", **ids, "command": command, "resources": resources}}


async def test_executors_of_two_kinds_run_tasks_talk_and_outlive_their_agent(
    release: Release, make_box: MakeBox
) -> None:
    box = make_box(release, gpus=4, agent_flags=PATIENT)
    framework = Framework(box)
    agent = box.agents[0]

    async def says(kind: str, text: str) -> None:
        named = {"agent_id": {"value": agent.id}, "executor_id": {"value": kind}}
        data = base64.b64encode(text.encode()).decode()
        assert (await framework.scheduler.call("MESSAGE", {**named, "data": data})).status == 202
        while (kind, f"you said {text}") not in framework.messages:
            await framework.take()

    try:
        await framework.subscribe()
        for kind in CUSTOM:
            for name in ("one", "two"):
                offer = await framework.offer(1)
                await framework.scheduler.launch(offer, hosted(offer, kind, name, framework.id), refuse_s=0)
                await framework.hears(f"{kind}-{name}", "TASK_RUNNING")
            await says(kind, "hello")
        await asyncio.to_thread(agent.kill)
        await asyncio.to_thread(agent.start)
        await framework.until(
            "both executors are back",
            lambda: all("reregistered" in box.sandbox(k).joinpath("stdout").read_text() for k in CUSTOM),
        )
        for kind in CUSTOM:
            await framework.scheduler.call("KILL", {"task_id": {"value": f"{kind}-two"}})
            await framework.hears(f"{kind}-two", "TASK_KILLED")
            await says(kind, "hello again")
            named = {"agent_id": {"value": agent.id}, "executor_id": {"value": kind}}
            assert (await framework.scheduler.call("SHUTDOWN", named)).status == 202
            await framework.hears(f"{kind}-one", "TASK_FAILED")
        await framework.until("its GPUs are free", lambda: box.state()["slaves"][0]["used_resources"]["gpus"] == 0)
    finally:
        await framework.scheduler.close()
