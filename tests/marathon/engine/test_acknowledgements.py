"""Acknowledgements over the real link: together, each once, and told of where they are refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from mesos_gpu.marathon.engine.mesos_link import LinkEvent
from mesos_gpu.marathon.engine.pymesos_link import PymesosLink
from mesos_gpu.marathon.state.actions import Acknowledge, Revive
from mesos_gpu.marathon.state.events import CallFailed, Subscribed
from tests.fakes.scheduler_master import SchedulerMaster
from tests.support.marathon.builders import status

News = asyncio.Queue[LinkEvent]


@pytest.fixture
async def news() -> News:
    return asyncio.Queue()


@pytest.fixture
async def link(master: SchedulerMaster, news: News) -> AsyncIterator[PymesosLink]:
    """A link that the master has taken in."""
    loop = asyncio.get_running_loop()
    made = PymesosLink(master.address, lambda: {"user": "root", "name": "marathon", "roles": ["*"]})
    made.start(None, lambda event: loop.call_soon_threadsafe(news.put_nowait, event))
    while not isinstance(await asyncio.wait_for(news.get(), 60), Subscribed):
        pass
    yield made
    await asyncio.to_thread(made.stop)


async def failure(news: News) -> CallFailed:
    while True:
        event = await asyncio.wait_for(news.get(), 60)
        if isinstance(event, CallFailed):
            return event


async def test_acknowledgements_that_follow_one_another_go_together_and_each_once(
    link: PymesosLink, master: SchedulerMaster, news: News
) -> None:
    for number in range(150):
        link.call(Acknowledge(status(f"t{number}").status))
        if number == 99:
            link.call(Revive())
    got = [await asyncio.wait_for(master.calls.get(), 60) for _ in range(151)]
    kinds = [call["type"] for call in got]
    assert (kinds.index("REVIVE"), kinds.count("ACKNOWLEDGE")) == (100, 150)
    told = [call["acknowledge"]["task_id"]["value"] for call in got if call["type"] == "ACKNOWLEDGE"]
    assert told == [f"t{number}" for number in range(150)]
    assert got[0]["acknowledge"] == {"task_id": {"value": "t0"}, "agent_id": {"value": "S0"}, "uuid": "dQ=="}


async def test_acknowledgements_are_sent_again_where_the_master_hangs_up_on_them(
    link: PymesosLink, master: SchedulerMaster, news: News
) -> None:
    master.hang_up_on_next_call = True
    for number in range(3):
        link.call(Acknowledge(status(f"t{number}").status))
    got = [await asyncio.wait_for(master.calls.get(), 60) for _ in range(3)]
    assert [call["acknowledge"]["task_id"]["value"] for call in got] == ["t0", "t1", "t2"]


async def test_each_acknowledgement_that_is_refused_is_told_of(
    link: PymesosLink, master: SchedulerMaster, news: News
) -> None:
    master.fail_calls_with = 400
    calls = [Acknowledge(status(f"t{number}").status) for number in range(3)]
    for call in calls:
        link.call(call)
    failed = [await failure(news) for _ in calls]
    assert [each.call for each in failed] == calls
    assert all("400" in each.problem and "no" in each.problem for each in failed)
