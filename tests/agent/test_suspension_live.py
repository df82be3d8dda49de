"""Tasks that are suspended with what they have on a GPU, and go on later, on another too: in real containers."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import aiohttp
import pytest

from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.shares.gpu_shares import units
from mesos_gpu.mesos.shares.suspending import NOT_RESUMED, NOT_SUSPENDED, RESUME, RESUMED, SUSPEND, SUSPENDED, data_of
from tests.support.agent.documents import AGENT_ID
from tests.support.agent.gpu_tasks import USER, advertised, on_gpus, total_said
from tests.support.agent.live import FRAMEWORK, LiveAgent, unstarted_agent
from tests.support.golden import Golden
from tests.support.sharing.parts import part

pytestmark = pytest.mark.root


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[LiveAgent]:
    async with unstarted_agent(tmp_path) as live:
        yield live


async def container_of(agent: LiveAgent, task_id: str) -> str:
    for gpu in await agent.get("/gpus"):
        if gpu.get("task_id") == task_id:
            return str(gpu["container_id"])
    raise AssertionError(f"{task_id} holds no GPU: {await agent.get('/gpus')}")


async def ask(agent: LiveAgent, what: str, container: str) -> tuple[int, str]:
    url = f"http://127.0.0.1:{agent.port}/gpus/{what}"
    async with aiohttp.ClientSession() as session, session.post(url, json={"container_id": container}) as response:
        return response.status, await response.text()


async def rounds(agent: LiveAgent, task_id: str) -> int:
    return (await agent.said(task_id)).count("round")


async def until_it_goes_on(agent: LiveAgent, task_id: str) -> None:
    before = await rounds(agent, task_id)
    await agent.until_said(task_id, f"round {before + 2}\n")


async def test_a_task_gives_its_gpu_to_another_and_goes_on_where_it_stood(agent: LiveAgent, golden: Golden) -> None:
    await agent.start("--simulated_gpus=1")
    agent.run("patient", USER, resources=on_gpus(1))
    await agent.until_said("patient", "round 2\n")
    container = await container_of(agent, "patient")
    assert (await ask(agent, "resume", container))[0] == 404
    status, told = await ask(agent, "suspend", container)
    assert (status, '"phase":"suspended"' in told) == (200, True), told
    assert (await ask(agent, "suspend", container))[0] == 409
    await agent.until(lambda: advertised(agent)[-1] == 2)
    stood = await rounds(agent, "patient")

    agent.run("urgent", USER, resources=on_gpus(1))
    await agent.until_said("urgent", "round 5\n")
    assert await rounds(agent, "patient") <= stood + 1  # a line of before may have been on its way
    status, told = await ask(agent, "resume", container)
    assert (status, told) == (409, golden)
    assert "devices 1 free 13384 of 16384" in await agent.said("urgent")

    agent.kill("urgent")
    await agent.reaches("urgent", "TASK_KILLED")
    assert (await ask(agent, "resume", container))[0] == 200
    await until_it_goes_on(agent, "patient")
    await agent.until(lambda: advertised(agent)[-1] == 1)
    words = [update["status"].get("message", "") for update in agent.master.news("patient")]
    assert [word.partition(":")[0].partition(" ")[0] for word in words if "sum" in word or "susp" in word] == [
        "suspended",
        "resumed",
    ]
    assert set(agent.master.states("patient")) <= {"TASK_STARTING", "TASK_RUNNING"}


async def test_a_suspended_task_that_ends_leaves_nothing_behind(agent: LiveAgent) -> None:
    await agent.start("--simulated_gpus=1")
    agent.run("patient", USER, resources=on_gpus(1))
    agent.run("none", "exec sleep 99", resources=on_gpus(0)[:2])
    await agent.until_said("patient", "round 2\n")
    assert (await ask(agent, "suspend", "unknown"))[0] == 404
    container = await container_of(agent, "patient")
    assert (await ask(agent, "suspend", container))[0] == 200
    agent.kill("patient")
    await agent.reaches("patient", "TASK_KILLED")
    await agent.until(lambda: advertised(agent)[-1] == 1)
    agent.run("next", "nvidia-smi -L", resources=on_gpus(1))
    await agent.reaches("next", "TASK_FINISHED")


def say(agent: LiveAgent, task_id: str, words: str) -> None:
    """Send what a framework says to the executor of its task."""
    agent.master.send(
        "FrameworkToExecutorMessage",
        {
            "framework_id": FRAMEWORK["id"],
            "executor_id": {"value": task_id},
            "slave_id": {"value": AGENT_ID},
            "data": data_of(words),
        },
    )


async def test_a_framework_has_its_task_suspended_and_resumed_and_hears_how_it_went(agent: LiveAgent) -> None:
    await agent.start("--simulated_gpus=1")
    agent.run("patient", USER, resources=on_gpus(1))
    agent.run("idle", "exec sleep 999", resources=on_gpus(0)[:2])
    await agent.until_said("patient", "round 2\n")

    def heard(task_id: str) -> list[str]:
        return [str(update["status"].get("message", "")) for update in agent.master.news(task_id)]

    for count in (1, 2):  # a second time, for the first answer may have got lost
        say(agent, "patient", SUSPEND)
        await agent.until(partial(lambda n: sum(word.startswith(SUSPENDED) for word in heard("patient")) == n, count))
    say(agent, "patient", RESUME)
    await agent.until(lambda: any(word.startswith(RESUMED) for word in heard("patient")))
    await until_it_goes_on(agent, "patient")
    say(agent, "patient", RESUME)
    await agent.until(lambda: any(word.startswith(NOT_RESUMED) for word in heard("patient")))
    say(agent, "idle", SUSPEND)
    await agent.until(lambda: any(word.startswith(NOT_SUSPENDED) for word in heard("idle")))


def units_said(agent: LiveAgent) -> dict[int, int]:
    """Return how many units of memory the agent says that each card has, those of suspended tasks counted."""
    total = Resources.from_json(total_said(agent)[-1])
    return {card: len(positions) for card, positions in units(total, "gpu_mem").items()}


async def sharers(agent: LiveAgent, key: str = "containers") -> dict[int, list[str]]:
    return {card["index"]: [one["task_id"] for one in card[key]] for card in await agent.get("/gpu_shares")}


async def container_with_a_part(agent: LiveAgent, task_id: str) -> str:
    for card in await agent.get("/gpu_shares"):
        for one in card["containers"]:
            if one["task_id"] == task_id:
                return str(one["container_id"])
    raise AssertionError(f"{task_id} shares no card")


async def test_a_part_of_a_card_is_anothers_meanwhile_and_comes_back_on_another_card_after_kills(
    agent: LiveAgent,
) -> None:
    flags = "--simulated_gpus=2", "--shared_gpus=0,1"
    await agent.start(*flags)
    agent.run("patient", USER, resources=part(0, 10, 2))
    agent.run("beside", USER, resources=part(0, 4, 1, first=10))
    for task in ("patient", "beside"):
        await agent.until_said(task, "round 2\n")
    container = await container_with_a_part(agent, "patient")
    assert (await ask(agent, "suspend", container))[0] == 200
    assert (await sharers(agent), await sharers(agent, "suspended")) == (
        {0: ["beside"], 1: []},
        {0: ["patient"], 1: []},
    )
    await agent.until(lambda: units_said(agent) == {0: 26, 1: 16})
    stood = await rounds(agent, "patient")

    agent.run("urgent", USER, resources=part(0, 12, 3, first=14))
    await agent.until_said("urgent", "round 5\n")
    assert await rounds(agent, "patient") <= stood + 1  # a line of before may have been on its way
    await agent.signal(signal.SIGKILL)
    await agent.start(*flags)
    await agent.until(lambda: units_said(agent) == {0: 26, 1: 16})
    assert (await sharers(agent, "suspended"))[0] == ["patient"]
    assert (await ask(agent, "resume", container))[0] == 200
    await until_it_goes_on(agent, "patient")
    found = {card: sorted(names) for card, names in (await sharers(agent)).items()}
    assert found == {0: ["beside", "urgent"], 1: ["patient"]}
    await agent.until(lambda: units_said(agent) == {0: 26, 1: 6})
    for task in ("beside", "urgent", "patient"):
        agent.kill(task)
        await agent.reaches(task, "TASK_KILLED")
    await agent.until(lambda: not list((agent.folder / "work" / "run" / "shares").glob("*.json")))
    await agent.signal(signal.SIGTERM)
    await agent.start(*flags)
    await agent.until(lambda: units_said(agent) == {0: 16, 1: 16})
