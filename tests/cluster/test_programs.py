"""The programs mesos-gpu-master and mesos-gpu-agent, with real containers, by the calls of Mesos' scheduler API v1."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent.documents import scalar
from tests.support.master.live import Scheduler
from tests.support.programs import Programs, started_in

pytestmark = pytest.mark.root

LOOK = r"""
ls /dev | grep -E '^nvidia[0-9]+$' | wc -l
nvidia-smi -L | wc -l
for number in 0 1; do
    mknod node$number c 195 $number; { : < node$number; } 2>&1 | sed 's/.*: //'; rm node$number
done | sort
cat /proc/self/cgroup | sed 's/.*://' | sort -u
"""


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    with started_in(tmp_path) as programs:
        yield programs


@pytest.fixture
async def scheduler(programs: Programs) -> AsyncIterator[Scheduler]:
    """A framework at a master with one agent of two GPUs."""
    url = programs.start_master()
    programs.start_agent(url)
    scheduler = Scheduler(url)
    await scheduler.subscribe()
    yield scheduler
    await scheduler.call("TEARDOWN")
    await scheduler.close()


def task(name: str, offer: dict[str, Any], line: str, gpus: float = 0.0, mem: float = 64.0) -> dict[str, Any]:
    resources = [scalar("cpus", 0.1), scalar("mem", mem), *([scalar("gpus", gpus)] if gpus else [])]
    ids = {"task_id": {"value": name}, "agent_id": offer["agent_id"]}
    return {"name": name, **ids, "command": {"value": line}, "resources": resources}


async def ended(scheduler: Scheduler) -> dict[str, dict[str, Any]]:
    """Acknowledge a status after the other; return those that end a task, of the three there are."""
    found: dict[str, dict[str, Any]] = {}
    while len(found) < 3:
        status = await scheduler.status()
        await scheduler.acknowledge(status)
        if status["state"] == "TASK_RUNNING" and status["task_id"]["value"] == "stubborn":
            assert (await scheduler.call("KILL", {"task_id": status["task_id"]})).status == 202
        if status["state"] not in ("TASK_STARTING", "TASK_RUNNING"):
            found[status["task_id"]["value"]] = status
    return found


async def test_tasks_run_behind_their_walls_and_their_ends_are_told(scheduler: Scheduler, programs: Programs) -> None:
    offer = await scheduler.offer()
    policy = {"kill_policy": {"grace_period": {"nanoseconds": 200_000_000}}}
    await scheduler.launch(
        offer,
        task("gpu", offer, LOOK, gpus=1),
        task("hog", offer, "head -c 300m /dev/zero | tail", mem=32),
        {**task("stubborn", offer, "trap '' TERM; while :; do sleep 1; done"), **policy},
    )
    found = await ended(scheduler)
    assert {name: status["state"] for name, status in found.items()} == {
        "gpu": "TASK_FINISHED",
        "hog": "TASK_FAILED",
        "stubborn": "TASK_KILLED",
    }
    assert found["hog"]["reason"] == "REASON_CONTAINER_LIMITATION_MEMORY"
    (stdout,) = programs.folder.glob("agent/slaves/*/frameworks/*/executors/gpu/runs/*-*/stdout")
    # ENXIO from the kernel, which has no such driver here: it was allowed. And its cgroup is the root of what it sees.
    assert stdout.read_text().splitlines() == [
        *("1", "1", "No such device or address", "Operation not permitted"),
        "/",
    ]
