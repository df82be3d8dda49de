"""The agent program with cards that tasks share: what it offers, what it gives, and what it refuses in words."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent.live import LiveAgent, new_master

pytestmark = pytest.mark.root


def ranges(name: str, *pairs: tuple[int, int]) -> dict[str, Any]:
    listed = [{"begin": begin, "end": end} for begin, end in pairs]
    return {"name": name, "type": "RANGES", "ranges": {"range": listed}, "allocation_info": {"role": "*"}}


def part(card: int, mem: int, weight: int = 1, first: int = 0) -> list[dict[str, Any]]:
    at = card * 1000 + first
    return [
        {"name": "cpus", "type": "SCALAR", "scalar": {"value": 0.1}, "allocation_info": {"role": "*"}},
        {"name": "mem", "type": "SCALAR", "scalar": {"value": 32.0}, "allocation_info": {"role": "*"}},
        ranges("gpu_mem", (at, at + mem - 1)),
        ranges("gpu_slices", (at, at + weight - 1)),
    ]


def command(line: str, **variables: str) -> dict[str, Any]:
    listed = [{"name": name, "value": value} for name, value in variables.items()]
    return {"value": line, "environment": {"variables": listed}}


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[LiveAgent]:
    master = await new_master()
    agent = LiveAgent(tmp_path, master)
    try:
        yield agent
    finally:
        try:
            await agent.end()
        finally:
            await master.stop()
    assert agent.leftovers() == []


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


async def test_what_cannot_be_given_is_an_error_in_words(agent: LiveAgent) -> None:
    await agent.start("--shared_gpus=2")
    refused = {
        "not-shared": ({"resources": part(1, 6)}, "this agent shares the cards 2"),
        "no-compute": ({"resources": part(2, 6)[:3]}, "no compute at all"),
        "not-taken": ({"command": command("true", ALIYUN_COM_GPU_MEM_CONTAINER="6")}, "no part of a GPU was taken"),
        "unlike": (
            {"command": command("true", ALIYUN_COM_GPU_MEM_CONTAINER="4"), "resources": part(2, 6)},
            "asks for 4 GiB, and what was taken is 6 GiB",
        ),
        "two-cards": ({"resources": [*part(2, 6), *part(3, 6)[2:]]}, "shares the cards 2"),
    }
    for task_id, (more, words) in refused.items():
        agent.run(task_id, "true", **more)
        status = await agent.reaches(task_id, "TASK_ERROR")
        assert words in status["message"], task_id
        assert status["reason"] == "REASON_TASK_INVALID"
    # Turned off in the way that cGPU has for it, the variables are only variables.
    agent.run("off", "true", command=command("true", ALIYUN_COM_GPU_MEM_CONTAINER="6", CGPU_DISABLE="true"))
    await agent.reaches("off", "TASK_FINISHED")
