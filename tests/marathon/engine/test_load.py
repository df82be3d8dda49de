"""500 apps of 4 instances: what is asked for stays small however much there is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from mesos_gpu.marathon.state.actions import Launch
from tests.support.marathon.builders import SETTINGS, app, offer, status
from tests.support.marathon.service import Marathon

pytestmark = pytest.mark.slow

APPS, INSTANCES = 500, 4


async def test_500_apps_of_4_instances_come_to_run_and_the_api_answers_meanwhile(
    make_marathon: Any,
) -> None:
    settings = replace(SETTINGS, max_running_deployments=APPS + 1, max_instances_per_offer=200, launch_tokens=10_000)
    marathon: Marathon = await make_marathon(settings=settings)
    documents = [app(f"/g{n % 10}/a{n}", instances=INSTANCES, cpus=0.01, mem=1) for n in range(APPS)]
    answer = await marathon.call("PUT", "/v2/apps", documents)
    assert answer.status == 200, answer
    running = 0
    while running < APPS * INSTANCES:
        marathon.link.offer(offer(f"O{running}", cpus=1000, mem=100_000, disk=1, ports=[(10_000, 60_000)]))
        launch: Launch = await marathon.link.next(Launch)
        for task_id in launch.task_ids:
            marathon.link.status(dict(status(task_id).status))
        running += len(launch.task_ids)
        # A call in the midst of it is answered in its turn, and not after all the rest.
        ping, _ = await asyncio.gather(marathon.call("GET", "/v2/apps/g0/a0"), marathon.settled())
        assert ping.status == 200
    await marathon.settled()
    assert await marathon.get("/v2/deployments") == []
    shown = (await marathon.get("/v2/apps"))["apps"]
    assert (len(shown), sum(each["tasksRunning"] for each in shown)) == (APPS, APPS * INSTANCES)
    groups = (await marathon.get("/v2/groups"))["groups"]
    assert sum(len(group["apps"]) for group in groups) == APPS
