"""What `why` says of an app that gave way, and of those that were to give way to one that waits."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.marathon.matching.matching import Rules
from mesos_gpu.marathon.why.answer import answer
from mesos_gpu.marathon.why.facts import Judging, Situation, held_by, holders_of, of_app
from mesos_gpu.marathon.why.request import request_of
from tests.support.golden import Golden
from tests.support.marathon.why import agent, app

NO = "CUDA cannot lock process 7: it has not ended its kernels within 10 s (600)"
CARDS = agent(
    attributes={"gpu_shared_cards": "0=GPU-a/16/watcher"},
    total={"gpu_mem": "[0-15]", "gpu_slices": "[0-24]"},
    used={"cpus": 1, "gpu_mem": "[0-7, 9-10]", "gpu_slices": "[0-0]"},
)


def waiting(document: dict[str, Any], **more: Any) -> Any:
    """Answer why an app waits that a machine with one shared card has refused, of which /part has most."""
    last = {"offer": {"agentId": CARDS.id}, "reason": ["InsufficientGpus"]}
    queued = {"count": 1, "delay": {"timeLeftSeconds": 0}, "lastUnusedOffers": [last], **more}
    request = request_of(document)
    judging = Judging.of(document, request, Rules(), [CARDS])
    tasks = [{"id": "part.instance-1._app.1", "resources": {"cpus": 1, "gpu_mem": "[0-7, 9-10]"}}]
    for one in judging.full():
        judging.hold(one, tasks, {"part.instance-1._app.1": "/part"})
    return answer(Situation(**of_app(document, request, queued, ()), **judging.fields()))


HIGH = app(gpus=0, gpuShare={"memGiB": 12, "highPriority": True})


def test_an_app_for_whom_no_card_has_room_is_told_who_has_it_and_that_no_machine_can_run_it_now(golden: Golden) -> None:
    found = waiting(HIGH)
    assert found.headline == golden
    (verdict,) = found.verdicts
    assert (verdict.now, verdict.ever) == (False, True)
    assert [lack.text for lack in verdict.lacks] == golden
    assert found.remedies[0] == golden


@pytest.mark.parametrize(
    "suspensions",
    [
        [("asked", "")],
        [("suspended", "")],
        [("suspended", ""), ("suspended", "")],
        [("refused", NO)],
        [("refused", "no."), ("refused", "no")],
        [],
    ],
)
def test_what_waits_says_who_was_to_give_way_to_it(suspensions: list[tuple[str, str]], golden: Golden) -> None:
    entries = [{"appId": "/part", "taskId": "t", "state": state, "reason": why} for state, why in suspensions]
    assert waiting(HIGH, suspensions=entries).headline == golden


def test_what_gave_way_says_to_whom_and_why_it_was_not_suspended(golden: Golden) -> None:
    message = f"gave way to /dear, whose priority is 5 (its own: 0): it could not be suspended: {NO}"
    failed = {"message": message, "state": "TASK_KILLED", "taskId": "t"}
    assert waiting(HIGH | {"lastTaskFailure": failed}).headline == golden


def test_parts_that_tasks_hold_are_counted() -> None:
    tasks = [{"id": "a", "resources": {"gpu_mem": "[3-5]"}}, {"id": "b", "resources": {"gpu_mem": "[8-8]"}}]
    assert [one.amounts["gpu_mem"] for one in holders_of(held_by(tasks, {"a": "/a", "b": "/a"}))] == [4000]
