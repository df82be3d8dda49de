"""A GPU that falls ill makes the agent smaller, in an order that no master can misunderstand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mesos_gpu.agent.gpus.care import AgentGpus
from mesos_gpu.agent.gpus.gpu_record import HealthRecord
from mesos_gpu.gpu.device import HealthEvent
from tests.fakes.gpus import GPUS, ScriptedDriver, ScriptedPool
from tests.fakes.master import ScriptedMaster
from tests.support.agent.internal import FRAMEWORK, internal, wait_for
from tests.support.agent.running import Start


@pytest.fixture
def care(tmp_path: Path) -> AgentGpus:
    return AgentGpus(ScriptedDriver(), ScriptedPool(), HealthRecord(tmp_path / "gpu_health.json"))


def gpus_of(document: dict[str, Any]) -> float:
    return sum(float(r["scalar"]["value"]) for r in document["slave"]["resources"] if r["name"] == "gpus")


def fall_ill(care: AgentGpus, number: int) -> None:
    care._on_event(HealthEvent(f"GPU-{number}", 79, "it hurts"))


async def test_a_gpu_that_falls_ill_makes_it_register_again_with_one_less(
    start: Start, master: ScriptedMaster, care: AgentGpus
) -> None:
    running = await start(gpus=care)
    assert gpus_of(await master.got("RegisterSlaveMessage")) == 4
    fall_ill(care, 1)
    assert gpus_of(await master.got("ReregisterSlaveMessage")) == 3
    await running.agent.registered.wait()
    fall_ill(care, 1)
    care.clear("GPU-1")
    assert gpus_of(await master.got("ReregisterSlaveMessage", 2)) == 4
    await running.agent.registered.wait()
    assert len(master.messages("ReregisterSlaveMessage")) == 2


async def test_a_gpu_that_falls_ill_before_the_first_answer_is_told_after_it(
    start: Start, master: ScriptedMaster, care: AgentGpus
) -> None:
    master.answers = False
    running = await start(gpus=care, follow=False)
    running.agent.follow(master.pid)
    await master.got("RegisterSlaveMessage")
    fall_ill(care, 0)
    assert gpus_of(await master.got("RegisterSlaveMessage", 2)) == 3
    # A master that knew the first one answers again what it answered then, and keeps what it was told then.
    master.answers = True
    master._welcome("RegisterSlaveMessage")
    assert gpus_of(await master.got("ReregisterSlaveMessage")) == 3


async def test_a_gpu_that_the_master_reserved_is_not_taken_out_of_the_total(
    start: Start, master: ScriptedMaster, care: AgentGpus
) -> None:
    running = await start(gpus=care)
    reservation = {"type": "DYNAMIC", "role": "ml"}
    kept = {"name": "gpus", "type": "SCALAR", "scalar": {"value": 4.0}, "reservations": [reservation]}
    master.send("CheckpointResourcesMessage", {"resources": [kept]})
    await wait_for(lambda: running.agent.holdings.kept)
    fall_ill(care, 0)
    assert gpus_of({"slave": {"resources": running.agent.info["resources"]}}) == 4
    assert master.messages("ReregisterSlaveMessage") == []


async def test_sent_away_it_does_not_come_back_for_a_gpu_that_is_ill(
    start: Start, master: ScriptedMaster, care: AgentGpus
) -> None:
    running = await start(gpus=care)
    master.run(FRAMEWORK, internal())
    await master.reaches("t1", "TASK_RUNNING")
    (container_id,) = running.containers.running
    pool = care._isolator
    assert isinstance(pool, ScriptedPool)
    pool.held = {container_id: frozenset(GPUS[:1])}
    fall_ill(care, 0)
    assert master.messages("ReregisterSlaveMessage") == []
    pool.held = {}
    running.agent.leave()
    await running.agent.stopped.wait()
    await master.got("UnregisterSlaveMessage")
    assert master.messages("ReregisterSlaveMessage") == []
