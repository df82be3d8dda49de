"""A scheduler by hand under genuine masters: what they refuse, how they reconcile, and that nothing is lost with them.

Our own master goes through the same walks: what it answers is what they answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from mesos_gpu.mesos.resource import Document
from mesos_gpu.testing import MesosBox
from tests.genuine.box import GenuineBox, MakeBox
from tests.genuine.frameworks import Framework as Driver
from tests.genuine.frameworks import MakeFramework
from tests.genuine.recorded_walk import INFO, OFFERS, OUTCOMES, TASKS, told
from tests.genuine.recorded_walk import task as task_of_driver
from tests.genuine.releases import Release, numbers
from tests.genuine.scheduler import subscribed, task

pytestmark = [pytest.mark.root, pytest.mark.timeout(240)]

PINGS = {"agent_ping_timeout": "1secs", "max_agent_ping_timeouts": "3"}
HALF = "Invalid 'gpus' resource: The 'gpus' resource must be an unsigned integer"


def gist(status: Document) -> tuple[str, str, str, str]:
    """What an answer to a question about a task says."""
    assert "uuid" not in status, "nobody has to acknowledge it"
    assert status["source"] == "SOURCE_MASTER"
    named = (status["task_id"]["value"], status["state"], status["reason"])
    return (*named, status.get("message", "").removeprefix("Reconciliation: "))


async def refuses_half_a_gpu(box: MesosBox) -> None:
    """Half a GPU is refused by the master itself; the whole ones beside it in the call are not."""
    async with subscribed(box) as framework:
        offer = await framework.offer(2)
        wanted = [
            task(offer, name, "exec sleep 1000", gpus=n) for name, n in (("half", 0.5), ("more", 1.5), ("two", 2))
        ]
        await framework.scheduler.launch(offer, *wanted, refuse_s=0)
        for name in ("half", "more"):
            status = await framework.hears(name, "TASK_ERROR")
            assert (status["source"], status["reason"]) == ("SOURCE_MASTER", "REASON_TASK_INVALID")
            assert HALF in status["message"]
        await framework.hears("two", "TASK_RUNNING")
        assert box.state()["slaves"][0]["used_resources"]["gpus"] == 2
        assert framework.told == {
            "half": ["TASK_ERROR"],
            "more": ["TASK_ERROR"],
            "two": ["TASK_STARTING", "TASK_RUNNING"],
        }


async def reconciles(box: MesosBox, version: tuple[int, ...] = (1, 12)) -> None:
    """Tasks that are known, ended, unheard of, and behind a partition, asked for with and without their agents."""
    latest = ("TASK_RUNNING", "REASON_RECONCILIATION", "Latest task state")
    unknown = ("TASK_UNKNOWN", "REASON_RECONCILIATION", "Task is unknown")
    agent = box.agents[0]
    async with subscribed(box) as framework:
        for name in ("a", "b"):
            await framework.launch(name, "exec sleep 1000", gpus=1)
        await framework.launch("brief", "true")
        await framework.hears("brief", "TASK_FINISHED")

        async def asked(count: int, *about: tuple[str, str | None]) -> list[tuple[str, str, str, str]]:
            await framework.reconcile(*about)
            answers = [gist(status) for status in await framework.answers(count)]
            # A call that is answered for certain: nothing came between that was not counted.
            await framework.reconcile(("end", None))
            assert [gist(status) for status in await framework.answers(1)] == [("end", *unknown)]
            return answers

        assert await asked(2) == [("a", *latest), ("b", *latest)]
        assert await asked(2, ("a", None), ("b", agent.id)) == [("a", *latest), ("b", *latest)]
        # Agents that are there would know of a task; without an agent nobody can be asked.
        state = "TASK_GONE" if version >= (1, 5) else "TASK_UNKNOWN"
        gone = (state, "REASON_RECONCILIATION", "Task is unknown to the agent")
        assert await asked(2, ("x", agent.id), ("y", None)) == [("x", *gone), ("y", *unknown)]
        assert await asked(2, ("brief", agent.id), ("brief", None)) == [("brief", *gone), ("brief", *unknown)]
        assert await asked(1, ("z", "no-such-agent")) == [("z", *unknown)]

        agent.partition()
        try:
            for name in ("a", "b"):
                await framework.hears(name, "TASK_UNREACHABLE")
            away = ("TASK_UNREACHABLE", "REASON_RECONCILIATION", "Task is unreachable")
            assert await asked(2, ("a", agent.id), ("x", agent.id)) == [("a", *away), ("x", *away)]
            assert await asked(1, ("a", None)) == [("a", *unknown)]
            assert await asked(0) == []
        finally:
            agent.rejoin()
        framework.told.clear()
        await framework.until("it is back", lambda: [slave["active"] for slave in box.state()["slaves"]] == [True])
        for name in ("a", "b") if version >= (1, 5) else ():  # masters of 1.4 wait until they are asked
            await framework.hears(name, "TASK_RUNNING")
        assert await asked(2) == [("a", *latest), ("b", *latest)]


async def test_half_a_gpu_is_refused_by_the_master(release: Release, make_box: MakeBox) -> None:
    await refuses_half_a_gpu(make_box(release, gpus=2))


async def test_half_a_gpu_is_refused_by_our_master(mesos_box: Callable[..., MesosBox]) -> None:
    await refuses_half_a_gpu(mesos_box(gpus=2))


async def test_reconciliation_with_and_without_agents(release: Release, make_box: MakeBox) -> None:
    await reconciles(make_box(release, gpus=2, master_flags=PINGS), numbers(release.version))


async def test_reconciliation_with_our_master(mesos_box: Callable[..., MesosBox]) -> None:
    await reconciles(mesos_box(gpus=2, master_flags=PINGS))


async def test_master_and_agent_killed_at_one_moment(release: Release, make_box: MakeBox, tmp_path: Path) -> None:
    box = make_box(release, gpus=2)
    async with subscribed(box) as framework:
        beat, go = tmp_path / "beat", tmp_path / "go"
        await framework.launch("long", f"echo $$ >> {beat}; exec sleep 1000", gpus=1)
        await framework.launch("brief", f"while [ ! -e {go} ]; do sleep 0.05; done; exit 3", gpus=1)
        known = box.agents[0].id
        await asyncio.to_thread(box.kill_everything)
        go.touch()  # it ends while nobody watches
        await asyncio.to_thread(box.start_master)
        await asyncio.to_thread(box.agents[0].start)
        assert box.agents[0].id == known
        await framework.subscribe()
        status = await framework.hears("brief", "TASK_FAILED")
        assert "status 3" in status["message"]
        await framework.reconcile()
        assert [gist(status)[:2] for status in await framework.answers(1)] == [("long", "TASK_RUNNING")]
        await framework.launch("next", "nvidia-smi -L", gpus=1)  # the GPU of the one that ended
        await framework.scheduler.call("KILL", {"task_id": {"value": "long"}})
        await framework.hears("long", "TASK_KILLED")
        assert framework.told["brief"] == ["TASK_STARTING", "TASK_RUNNING", "TASK_FAILED"]
        assert beat.read_text().count("\n") == 1


def test_a_genuine_driver_under_a_genuine_master_uses_our_agent(
    release: Release, make_box: MakeBox, make_framework: MakeFramework
) -> None:
    box: GenuineBox = make_box(release, gpus=4)
    driver: Driver = make_framework(release.version)
    driver.start("A", INFO, box.genuine.address)
    driver.expect("A", "registered")
    (offer,) = driver.expect("A", "resourceOffers")
    driver.launch("A", [offer], *(task_of_driver(offer, *one) for one in TASKS))
    assert told(driver, "A", 6) == OUTCOMES
    driver.reconcile("A")
    assert driver.status("A", skip=OFFERS)["reason"] == "REASON_RECONCILIATION"
    box.agents[0].kill()
    box.agents[0].start()
    driver.call("A", "killTask", "long")
    while (status := driver.status("A"))[
        "state"
    ] != "TASK_KILLED":  # what the agent had not heard acknowledged comes again
        assert status["state"] in OUTCOMES[status["task_id"]["value"]]
    assert status["task_id"]["value"] == "long"
    driver.call("A", "stop")
    box.until("the framework is gone", lambda: not box.state()["frameworks"])
