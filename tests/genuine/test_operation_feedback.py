"""What Mesos' operation-feedback-framework does never hangs: on our master, or our agent under genuine ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mesos_gpu.testing import MesosBox
from tests.genuine.box import MakeBox
from tests.genuine.operation_feedback import OperationFeedback, Stage
from tests.genuine.releases import Release, since

pytestmark = [pytest.mark.root, pytest.mark.timeout(240)]

RUNS = 13
"""As often as the original was run when it hung twice."""


async def run(box: MesosBox, *, late: bool = False) -> None:
    # With one task alone, as in Mesos' own test of it: another's reservation would revive offers, and save it.
    framework = OperationFeedback(box, 1, command="true", resources="cpus:0.4;mem:32", late=late)
    for task in await framework.run():
        assert task.seen == list(Stage)[:-1], "each stage once"
    (agent,) = box.state()["slaves"]
    assert not agent["reserved_resources"]


async def test_it_never_hangs_on_our_master(mesos_box: Callable[..., MesosBox]) -> None:
    box = mesos_box(gpus=0, master_flags={"allocation_interval": "1secs"})
    for n in range(RUNS):
        await run(box, late=n % 2 == 0)


# Before, there was feedback of resource providers alone.
@pytest.mark.parametrize("release", since(1, 9), indirect=True)
async def test_our_agent_feeds_it_under_genuine_masters(release: Release, make_box: MakeBox) -> None:
    box = make_box(release, gpus=0)
    for _ in range(3):
        await run(box)
