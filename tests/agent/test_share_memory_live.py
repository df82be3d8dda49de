"""Tasks kept to their part of a card's memory: what they see of it, what they are told, and their end."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.agent.live import LiveAgent, unstarted_agent
from tests.support.golden import Golden
from tests.support.sharing.parts import part

pytestmark = pytest.mark.root
HOG = Path(__file__).parents[1] / "support" / "sharing" / "hog.py"


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[LiveAgent]:
    async with unstarted_agent(tmp_path) as live:
        yield live


def hog(*mib: int) -> str:
    return f'exec {sys.executable} -S {HOG} "$MESOS_GPU_SIMULATED_CARDS" {" ".join(map(str, mib))}'


async def test_who_takes_too_much_is_told_and_ended_and_its_neighbour_is_not(agent: LiveAgent, golden: Golden) -> None:
    await agent.start("--shared_gpus=2", "--gpu_share_memory_grace=3secs", "--gpu_share_require=watcher")
    agent.run("modest", hog(6144), resources=part(2, 6))
    agent.run("greedy", hog(1000, 9000), resources=part(2, 8, first=6))
    status = await agent.reaches("modest", "TASK_RUNNING")
    assert status["message"] == golden
    labels = {label["key"]: label["value"] for label in status["labels"]["labels"]}
    assert (labels["gpu.share.memory"], labels["gpu.share.memory_mib"]) == ("watcher", "6144")
    ended = await agent.reaches("greedy", "TASK_FAILED")
    assert ended["reason"] == "REASON_CONTAINER_LIMITATION"
    assert ended["message"] == golden
    assert "9000 MiB" in await agent.said("greedy", "stderr")
    told = [u["status"] for u in agent.master.news("greedy") if "9000 MiB" in u["status"].get("message", "")]
    assert [status["state"] for status in told] == ["TASK_RUNNING", "TASK_FAILED"]
    (card,) = await agent.get("/gpu_shares")
    (modest,) = card["containers"]
    assert (card["memory_level"], modest["memory_mib"], modest["memory_used_mib"]) == ("watcher", 6144, 6144)
    assert agent.master.states("modest")[-1] == "TASK_RUNNING"
