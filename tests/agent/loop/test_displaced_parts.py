"""Units of a shared card that stand for those of a suspended task are there for as long as that task is."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from mesos_gpu.agent.gpus.care import AgentGpus
from mesos_gpu.agent.gpus.gpu_record import HealthRecord
from mesos_gpu.container.spec.config import Termination
from mesos_gpu.gpu.device import Gpu
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.shares.displaced import numbers_of
from mesos_gpu.mesos.shares.gpu_shares import GPU_MEM, GPU_SLICES, CardPart, Share, SharedCard
from tests.fakes.gpus import ScriptedDriver, ScriptedPool
from tests.fakes.master import ScriptedMaster
from tests.support.agent.internal import FRAMEWORK, internal
from tests.support.agent.running import Running, Start

CARD = SharedCard(1, "GPU-1", 15109, 25)


class Sharers:
    """Who has what of the card, as a test says."""

    def __init__(self) -> None:
        self.gpus: Collection[Gpu] = ()
        self.shares: dict[ContainerId, Share] = {}


def ranges(name: str, first: int, last: int) -> dict[str, Any]:
    return {"name": name, "type": "RANGES", "ranges": {"range": [{"begin": first, "end": last}]}, "role": "*"}


def part(first: int, last: int, slices: tuple[int, int]) -> list[dict[str, Any]]:
    return [ranges(GPU_MEM, first, last), ranges(GPU_SLICES, *slices)]


def told(document: dict[str, Any]) -> set[int]:
    return numbers_of(Resources.from_json(document["slave"]["resources"]), GPU_MEM)


def finished(document: dict[str, Any]) -> bool:
    return document.get("update", {}).get("status", {}).get("state") == "TASK_FINISHED"


async def begin(running: Running, master: ScriptedMaster, task_id: str, units: list[dict[str, Any]]) -> ContainerId:
    before = set(running.containers.running)
    task = internal(task_id)
    master.run(FRAMEWORK, {**task, "resources": task["resources"] + units})
    await master.reaches(task_id, "TASK_RUNNING")
    (container_id,) = set(running.containers.running) - before
    return ContainerId(container_id)


async def test_what_others_have_for_a_suspended_task_is_not_offered_once_more_when_it_ends(
    start: Start, master: ScriptedMaster, tmp_path: Path
) -> None:
    sharers = Sharers()
    care = AgentGpus(ScriptedDriver(), ScriptedPool(), HealthRecord(tmp_path / "gpu_health.json"), sharers=sharers)
    running = await start(gpus=care)
    agent = running.agent
    agent.state.identity = replace(agent.state.identity, shared_cards={1: CARD})
    agent._whole = agent._whole + Resources.from_json(part(1000, 1014, (1000, 1024)))
    agent._look_after_gpus()
    assert told(await master.got("ReregisterSlaveMessage")) == set(range(1000, 1015))
    await agent.registered.wait()

    away = await begin(running, master, "t1", part(1000, 1002, (1000, 1004)))
    sharers.shares[away] = Share((), booked=(CardPart(1, 3, 5),))
    agent._look_after_gpus()
    assert told(await master.got("ReregisterSlaveMessage", 2)) == set(range(1000, 1018))
    await agent.registered.wait()
    other = await begin(running, master, "t2", part(1003, 1017, (1005, 1029)))
    sharers.shares[other] = Share((CardPart(1, 15, 25),))

    del sharers.shares[away]
    master.acknowledges = False
    running.containers.end(away, Termination(exit_code=0))
    await master.reaches("t1", "TASK_FINISHED")
    # All 15 GiB are the other's: the three that the master counted for the first are nobody's to have. It must know
    # that when it hears of the end, for it offers them at once.
    (_, _, third) = [at for at, (name, _) in enumerate(master.received) if name == "ReregisterSlaveMessage"]
    end = next(at for at, (_, document) in enumerate(master.received) if finished(document))
    assert third < end
    assert told(master.messages("ReregisterSlaveMessage")[2]) == set(range(1003, 1018))
