"""Tasks and groups that a master refuses: a genuine one and ours for the same reasons, in the same words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mesos_gpu.mesos.resource import Document
from mesos_gpu.testing import MesosBox
from tests.genuine.box import MakeBox
from tests.genuine.releases import Release
from tests.genuine.scheduler import Framework, subscribed
from tests.support.master.build import refused
from tests.support.master.wrong_tasks import launches, refusal

pytestmark = [pytest.mark.root, pytest.mark.timeout(240)]


async def refusals(box: MesosBox) -> dict[str, list[str | None]]:
    """Return how each task is refused, by its id."""
    async with subscribed(box) as framework:
        offer = await framework.offer(2)
        ids = (offer["agent_id"]["value"], str(framework.id))
        wanted = launches(*ids)
        body = {"offer_ids": [offer["id"]], "operations": wanted, "filters": {"refuse_seconds": 0}}
        answer = await framework.scheduler.call("ACCEPT", body)
        assert answer.status == 202, await answer.text()
        told = [await next_status(framework) for _ in wanted]
    shown = {status["task_id"]["value"]: refusal(status, *ids) for status in told}
    assert len(shown) == len(wanted)
    return shown


async def next_status(framework: Framework) -> Document:
    while True:
        status = await framework.take()
        if status is not None:
            return status


async def test_ours_refuses_tasks_as_a_genuine_master_does(
    newest: Release, make_box: MakeBox, mesos_box: Callable[..., MesosBox]
) -> None:
    wanted, found = await refusals(make_box(newest, gpus=2)), await refusals(mesos_box(gpus=2))
    assert {name: (found[name], wanted[name]) for name in wanted if found[name] != wanted[name]} == {}
    assert wanted == refused()["tasks"], "tests/recorded/refused-1.11.0.json is what the fast tests go by"
