"""The agent program with cards that tasks share: what it offers, what it gives, and what it refuses in words."""

from __future__ import annotations

import asyncio
import signal
import statistics
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mesos_gpu.sharing.freezer import is_frozen
from tests.support.agent.live import LiveAgent, unstarted_agent
from tests.support.golden import Golden
from tests.support.sharing.parts import part
from tests.support.sharing.real_turns import freezer_v1, freezer_v2

pytestmark = pytest.mark.root


def command(line: str, **variables: str) -> dict[str, Any]:
    listed = [{"name": name, "value": value} for name, value in variables.items()]
    return {"value": line, "environment": {"variables": listed}}


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[LiveAgent]:
    async with unstarted_agent(tmp_path) as live:
        yield live


def advertised(agent: LiveAgent) -> dict[str, Any]:
    message = next(d for name, d in agent.master.received if name == "RegisterSlaveMessage")
    return {r["name"]: r.get("ranges", {}).get("range") or r["scalar"]["value"] for r in message["slave"]["resources"]}


async def test_shared_cards_leave_gpus_and_several_tasks_open_one(agent: LiveAgent) -> None:
    await agent.start("--shared_gpus=2,3", "--gpu_share_max_inst=10")
    found = advertised(agent)
    assert found["gpus"] == 2
    assert [pair["begin"] for pair in found["gpu_mem"]] == [2000, 3000]
    assert found["gpu_slices"] == [{"begin": 2000, "end": 2009}, {"begin": 3000, "end": 3009}]
    line = "ls /dev | grep -E '^nvidia[0-9]+$'; "
    line += "echo $ALIYUN_COM_GPU_MEM_CONTAINER $ALIYUN_COM_GPU_SCHD_WEIGHT; exec sleep 9"
    agent.run("one", line, resources=part(2, 6, 2))
    agent.run("two", line, resources=part(2, 8, 1, first=6))
    assert (await agent.until_said("one", "6 2")).split() == ["nvidia2", "6", "2"]
    assert (await agent.until_said("two", "8 1")).split() == ["nvidia2", "8", "1"]


BURNER = Path(__file__).parents[1] / "support" / "sharing" / "burner.py"


def burn() -> str:
    """A task that keeps its card busy."""
    return f'exec {sys.executable} -S {BURNER} "$MESOS_GPU_SIMULATED_CARDS" 2 4'


async def shares(agent: LiveAgent) -> dict[int, float]:
    """Return what the containers of the first card use within three seconds, by weight."""
    used: list[dict[str, Any]] = []
    await asyncio.sleep(1.0)  # figures come twice a second: those of before a change are over
    for _ in range(2):
        (card,) = await agent.get("/gpu_shares")
        used.append({one["container_id"]: one for one in card["containers"]})
        if len(used) == 1:
            await asyncio.sleep(3.0)  # the window that is measured
    by_weight = {new["weight"]: new["used_s"] - used[0][one]["used_s"] for one, new in used[1].items()}
    return {weight: seconds / sum(by_weight.values()) for weight, seconds in by_weight.items()}


async def until_busy(agent: LiveAgent, count: int) -> None:
    while True:
        (card,) = await agent.get("/gpu_shares")
        if len([one for one in card["containers"] if one.get("working")]) == count:
            return
        await asyncio.sleep(0.05)


async def post(agent: LiveAgent, **document: Any) -> int:
    url = f"http://127.0.0.1:{agent.port}/gpu_shares/set"
    async with aiohttp.ClientSession() as session, session.post(url, json=document) as response:
        return response.status


async def test_tasks_take_turns_by_weight_also_after_a_kill_of_the_agent(agent: LiveAgent) -> None:
    await agent.start("--shared_gpus=2")
    agent.run("one", burn(), resources=part(2, 6, 1))
    agent.run("two", burn(), resources=part(2, 8, 2, first=6))
    await asyncio.wait_for(until_busy(agent, 2), 20)
    assert (await shares(agent))[2] == pytest.approx(2 / 3, abs=0.1)
    (card,) = await agent.get("/gpu_shares")
    ids = {one["weight"]: one["container_id"] for one in card["containers"]}
    assert (card["policy"], card["free_weight"]) == (1, 22)
    assert await post(agent, container_id=ids[1], weight=8) == 200
    assert await post(agent, card=2, policy=2) == 200
    assert (await shares(agent))[8] == pytest.approx(0.8, abs=0.12)
    for wrong in ({"card": 2, "policy": 6}, {"container_id": ids[1], "weight": 24}, {"card": 2}, {"weight": 1}):
        assert await post(agent, **wrong) == 400
    assert await post(agent, card=1, policy=1) == 404

    tree, name = (v1, "freezer.state") if (v1 := freezer_v1()) else (freezer_v2(), "cgroup.freeze")
    files = [f"{tree}/{agent.cgroups_root}/{one}/{name}" for one in ids.values()]
    await agent.signal(signal.SIGKILL)
    began_s = time.monotonic()
    await agent.until(lambda: not any(map(is_frozen, files)))
    assert time.monotonic() - began_s < 2
    await agent.start("--shared_gpus=2")
    await asyncio.wait_for(until_busy(agent, 2), 20)
    assert (await shares(agent))[8] == pytest.approx(0.8, abs=0.12)
    agent.kill("one")
    await agent.reaches("one", "TASK_KILLED")
    await asyncio.wait_for(until_busy(agent, 1), 20)


async def test_what_cannot_be_given_is_an_error_in_words(agent: LiveAgent, golden: Golden) -> None:
    await agent.start("--shared_gpus=2")
    refused = {
        "not-shared": {"resources": part(1, 6)},
        "no-compute": {"resources": part(2, 6)[:3]},
        "not-taken": {"command": command("true", ALIYUN_COM_GPU_MEM_CONTAINER="6")},
        "unlike": {"command": command("true", ALIYUN_COM_GPU_MEM_CONTAINER="4"), "resources": part(2, 6)},
        "two-cards": {"resources": [*part(2, 6), *part(3, 6)[2:]]},
    }
    for task_id, more in refused.items():
        agent.run(task_id, "true", **more)
        status = await agent.reaches(task_id, "TASK_ERROR")
        assert status["message"] == golden
        assert status["reason"] == "REASON_TASK_INVALID"
    # Turned off in the way that cGPU has for it, the variables are only variables.
    agent.run("off", "true", command=command("true", ALIYUN_COM_GPU_MEM_CONTAINER="6", CGPU_DISABLE="true"))
    await agent.reaches("off", "TASK_FINISHED")


async def test_a_card_that_vanished_does_not_keep_the_agent_from_starting(agent: LiveAgent, golden: Golden) -> None:
    await agent.start("--shared_gpus=2,3")
    agent.run("gone", "exec sleep 600", resources=part(3, 6))
    agent.run("kept", "exec sleep 600", resources=part(2, 6))
    await agent.reaches("gone", "TASK_RUNNING")
    await agent.reaches("kept", "TASK_RUNNING")
    await agent.signal(signal.SIGKILL)
    await agent.start("--shared_gpus=2,3", "--simulated_gpus=3", "--gpu_unhealthy_action=kill")
    status = await agent.reaches("gone", "TASK_FAILED")
    assert status["message"] == golden
    assert agent.master.states("kept")[-1] == "TASK_RUNNING"
    (card,) = await agent.get("/gpu_shares")
    assert [card["index"], len(card["containers"])] == [2, 1]
    await agent.signal(signal.SIGTERM)
    await agent.start("--shared_gpus=2,3")  # it is back
    assert [card["index"] for card in await agent.get("/gpu_shares")] == [2, 3]
    assert agent.master.states("kept")[-1] == "TASK_RUNNING"


async def test_a_frozen_task_ends_within_a_second_of_what_another_takes(agent: LiveAgent) -> None:
    # A slice of 5 s each: who is not ended or thawed for it would have to wait for that long.
    await agent.start("--shared_gpus=2", "--gpu_share_policy=3", "--gpu_share_slice=200ms")
    tree, name = (v1, "freezer.state") if (v1 := freezer_v1()) else (freezer_v2(), "cgroup.freeze")
    took: dict[str, list[float]] = {"frozen": [], "plain": []}
    for number in range(3):
        agent.run(f"plain{number}", "exec sleep 999", resources=part(2, 1)[:2])
        agent.run(f"frozen{number}", burn(), resources=part(2, 5, 1))
        for kind in took:
            await agent.reaches(f"{kind}{number}", "TASK_RUNNING")
        await asyncio.wait_for(until_busy(agent, 1), 20)
        (card,) = await agent.get("/gpu_shares")
        file = f"{tree}/{agent.cgroups_root}/{card['containers'][0]['container_id']}/{name}"
        for kind, seconds in took.items():
            if kind == "frozen":
                await agent.until(lambda: is_frozen(file))  # noqa: B023 - it is waited for here
            began_s = time.monotonic()
            agent.kill(f"{kind}{number}")
            await agent.reaches(f"{kind}{number}", "TASK_KILLED")
            seconds.append(time.monotonic() - began_s)
    assert statistics.median(took["frozen"]) < statistics.median(took["plain"]) + 1.0, took
