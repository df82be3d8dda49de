"""Operations that a master refuses, and updates of a framework: a genuine one and ours in the same words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mesos_gpu.testing import MesosBox
from tests.genuine.box import MakeBox
from tests.genuine.releases import Release
from tests.genuine.scheduler import subscribed
from tests.support.master.build import refused
from tests.support.master.live import soon
from tests.support.master.wrong_operations import OPERATIONS, UPDATES, named, plain

pytestmark = [pytest.mark.root, pytest.mark.timeout(240)]

Answers = dict[str, list[object]]


async def refusals(box: MesosBox) -> tuple[Answers, Answers]:
    """Return how each operation is refused, and each update."""
    async with subscribed(box) as framework:
        scheduler, offer = framework.scheduler, await framework.offer(2)
        ids = (offer["agent_id"]["value"], str(framework.id))
        body = {"offer_ids": [offer["id"]], "operations": named(), "filters": {"refuse_seconds": 0}}
        answer = await scheduler.call("ACCEPT", body)
        assert answer.status == 202, await answer.text()
        found: Answers = {}
        while len(found) < len(OPERATIONS):
            event = await soon(scheduler.events.get())
            assert event is not None
            if event["type"] == "UPDATE_OPERATION_STATUS":
                status = event["update_operation_status"]["status"]
                found[status["operation_id"]["value"]] = [status["state"], plain(status["message"], *ids)]
        (state,) = [one for one in box.state()["frameworks"] if one["id"] == framework.id]
        info = {"user": state["user"], "name": state["name"], "id": {"value": state["id"]}}
        updates: Answers = {}
        for change in UPDATES:
            answer = await scheduler.call("UPDATE_FRAMEWORK", {"framework_info": {**info, **change}})
            updates[str(change)] = [answer.status, plain(await answer.text(), *ids)]
        return found, updates


async def test_ours_refuses_operations_as_a_genuine_master_does(
    newest: Release, make_box: MakeBox, mesos_box: Callable[..., MesosBox]
) -> None:
    wanted, found = await refusals(make_box(newest, gpus=2)), await refusals(mesos_box(gpus=2))
    for theirs, ours in zip(wanted, found, strict=True):
        assert {name: (ours[name], theirs[name]) for name in theirs if ours[name] != theirs[name]} == {}
    assert {status for status, _ in wanted[1].values()} >= {400}
    assert wanted[0] == refused()["operations"], "tests/recorded/refused-1.11.0.json is what the fast tests go by"
