"""The agent's care for its GPUs: with a driver that says what a test tells it to."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mesos_gpu.agent.gpus import care as module
from mesos_gpu.agent.gpus.care import AgentGpus
from mesos_gpu.agent.gpus.gpu_record import HealthRecord
from mesos_gpu.errors import NotFound, Unavailable
from mesos_gpu.gpu.device import Gpu, HealthEvent
from mesos_gpu.gpu.health import Condition
from mesos_gpu.isolator.reach import HeldGpu
from tests.fakes.gpus import GPUS, ScriptedDriver, ScriptedPool
from tests.support.golden import Golden

PATIENCE_S = 60.0


class Care:
    def __init__(self, path: Path) -> None:
        self.driver, self.pool, self.path = ScriptedDriver(), ScriptedPool(), path
        self.changed = asyncio.Event()
        self.gpus: AgentGpus | None = None

    async def start(self, **more: Any) -> AgentGpus:
        await self.end()
        self.gpus = AgentGpus(self.driver, self.pool, HealthRecord(self.path), wall=lambda: 1000.0, **more)
        self.gpus.on_change = self.changed.set
        await self.gpus.start()
        return self.gpus

    async def end(self) -> None:
        if self.gpus is not None:
            await self.gpus.close()

    async def event(self, uuid: str | None, xid: int | None) -> None:
        """Tell an event as a driver does, from a thread; wait until something has changed for it."""
        self.changed.clear()
        assert self.driver.tell is not None
        threading.Thread(target=self.driver.tell, args=(HealthEvent(uuid, xid, "it hurts"),)).start()
        await asyncio.wait_for(self.changed.wait(), PATIENCE_S)

    async def until(self, holds: Callable[[], bool]) -> None:
        async def wait() -> None:
            while not holds():
                self.changed.clear()
                await self.changed.wait()

        await asyncio.wait_for(wait(), PATIENCE_S)


@pytest.fixture
async def care(tmp_path: Path) -> AsyncIterator[Care]:
    made = Care(tmp_path / "meta" / "gpu_health.json")
    yield made
    made.driver.answers.set()
    await made.end()


async def test_one_ill_gpu_is_withdrawn_and_no_other(care: Care) -> None:
    gpus = await care.start()
    assert gpus.ledger.present == 4
    await care.event("GPU-2", 79)
    assert care.pool.withdrawn == {"GPU-2"}
    assert gpus.ledger.present == 3
    illness = gpus.illness("GPU-2")
    assert illness is not None
    assert (illness.condition, illness.xid, illness.since) == (Condition.UNHEALTHY, 79, 1000.0)


async def test_a_held_gpu_counts_until_its_holder_ends(care: Care, golden: Golden) -> None:
    gpus = await care.start()
    care.pool.held = {"c": frozenset(GPUS[:2])}
    await care.event("GPU-1", 48)
    assert gpus.ledger.present == 4
    trouble = gpus.trouble("c")
    assert trouble is not None
    assert trouble.message == golden
    assert trouble.broken
    assert gpus.trouble("another") is None
    assert (gpus.holder("GPU-1"), gpus.holder("GPU-3")) == ("c", None)
    care.pool.held = {}
    assert gpus.ledger.present == 3


async def test_a_gpu_to_drain_does_not_break_its_holder(care: Care) -> None:
    gpus = await care.start()
    care.pool.held = {"c": frozenset(GPUS[:1])}
    await care.event("GPU-0", 94)
    trouble = gpus.trouble("c")
    assert trouble is not None
    assert not trouble.broken
    assert care.pool.withdrawn == {"GPU-0"}


async def test_when_the_driver_cannot_say_which_only_those_that_fail_a_test_go(care: Care) -> None:
    gpus = await care.start()
    care.driver.unfit = {"GPU-3": "it is lost"}
    await care.event(None, None)
    await care.until(lambda: all(gpus.illness(f"GPU-{n}") is None for n in range(3)) and gpus.ledger.present == 3)
    assert sorted(care.driver.tested) == [gpu.uuid for gpu in GPUS]
    assert care.pool.withdrawn == {"GPU-3"}


async def test_the_next_process_knows_and_an_operator_brings_it_back(care: Care) -> None:
    await care.start()
    await care.event("GPU-0", 48)
    care.pool = ScriptedPool()
    gpus = await care.start()
    assert care.pool.withdrawn == {"GPU-0"}
    assert gpus.ledger.present == 3
    with pytest.raises(NotFound, match="GPU-9"):
        gpus.clear("GPU-9")
    gpus.clear("GPU-0")
    gpus.clear("GPU-0")
    assert care.pool.withdrawn == set()
    care.pool = ScriptedPool()
    assert (await care.start()).ledger.present == 4


async def test_a_gpu_that_vanished_while_it_was_ill_is_ill_when_it_is_there_again(care: Care) -> None:
    await care.start()
    await care.event("GPU-0", 79)
    care.pool = ScriptedPool()
    care.pool.total = frozenset(GPUS[1:])
    await care.start()
    await care.event("GPU-1", 79)
    care.pool = ScriptedPool()
    assert (await care.start()).ledger.present == 2


async def test_only_free_gpus_are_tested_and_those_that_pass_are_back(care: Care) -> None:
    gpus = await care.start(retest_interval_s=0.01)
    care.pool.held = {"c": frozenset(GPUS[:1])}
    care.driver.unfit = {"GPU-1": "not yet"}
    await care.event("GPU-0", 48)
    await care.event("GPU-1", 48)
    await care.event("GPU-2", 48)
    await care.until(lambda: gpus.illness("GPU-2") is None)
    while care.driver.tested.count("GPU-1") < 2:  # noqa: ASYNC110 - a failed test changes nothing that is told
        await asyncio.sleep(0.005)
    assert gpus.illness("GPU-1") is not None
    assert "GPU-0" not in care.driver.tested
    care.driver.unfit = {}
    await care.until(lambda: gpus.illness("GPU-1") is None)


async def test_without_the_flag_no_test_brings_a_gpu_back(care: Care) -> None:
    gpus = await care.start()
    await care.event("GPU-0", 48)
    await care.event(None, None)
    await care.until(lambda: len(care.driver.tested) == 3 and gpus.ledger.present == 3)
    assert "GPU-0" not in care.driver.tested


async def test_usage_is_read_in_a_thread_once_a_second_and_a_lost_gpu_does_not_hide_the_rest(care: Care) -> None:
    gpus = await care.start()
    care.driver.silent = {"GPU-1"}
    first, second = await asyncio.gather(gpus.usage(), gpus.usage())
    assert first == second
    assert {uuid: usage.memory_used_mib for uuid, usage in first.items()} == {"GPU-0": 0, "GPU-2": 2, "GPU-3": 3}
    assert len(care.driver.readers) == 4
    assert threading.get_ident() not in care.driver.readers


async def test_a_driver_that_does_not_answer_is_not_waited_for_long(
    care: Care, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.05)
    gpus = await care.start()
    care.driver.answers.clear()
    assert await gpus.usage() == {}
    assert await gpus.usage() == {}, "nor again"
    care.driver.answers.set()

    async def answered() -> None:
        while not await gpus.usage():  # noqa: ASYNC110 - it answers when it does
            await asyncio.sleep(0.005)

    await asyncio.wait_for(answered(), PATIENCE_S)


async def test_a_driver_that_cannot_be_watched_is_an_ordinary_case(
    care: Care, caplog: pytest.LogCaptureFixture, golden: Golden
) -> None:
    care.driver.watchable = False
    assert (await care.start()).ledger.present == 4
    assert caplog.messages == golden


async def test_a_record_that_cannot_be_read_stops_the_start_with_the_way_out(care: Care, golden: Golden) -> None:
    care.path.parent.mkdir()
    for text in ("{", '{"GPU-0": 1}', '{"GPU-0": {"condition": "odd", "reason": "", "since": 0}}'):
        care.path.write_text(text)
        with pytest.raises(Unavailable) as refused:
            await care.start()
        assert str(refused.value) == golden


async def test_a_record_that_cannot_be_written_still_withdraws(
    care: Care, caplog: pytest.LogCaptureFixture, golden: Golden
) -> None:
    care.path.parent.write_text("a file in the way")
    care.path.parent.unlink()
    gpus = await care.start()
    care.path.parent.write_text("a file in the way")
    await care.event("GPU-0", 48)
    assert gpus.ledger.present == 3
    assert caplog.messages == golden
    care.path.parent.unlink()


async def test_what_has_happened_to_a_gpu_is_remembered_until_the_agent_ends(care: Care, golden: Golden) -> None:
    gpus = await care.start()
    assert gpus.past("GPU-1") == ()
    await care.event("GPU-1", 79)
    gpus.clear("GPU-1")
    assert [(one.condition, one.reason, one.xid) for one in gpus.past("GPU-1")] == [
        (Condition.UNHEALTHY, "it hurts", 79),
        (Condition.HEALTHY, golden, None),
    ]
    assert gpus.past("GPU-0") == ()


async def test_the_holder_of_a_gpu_that_does_not_exist_any_more_has_trouble_and_the_gpu_counts_for_it(
    care: Care,
) -> None:
    gpus = await care.start()
    care.pool.lost = {"c": frozenset({HeldGpu(9, "MIG-1")})}
    trouble = gpus.trouble("c")
    assert trouble is not None
    assert ("MIG-1" in trouble.message, trouble.broken) == (True, True)
    assert (gpus.trouble("another"), gpus.ledger.present, gpus.ledger.absent) == (None, 4, 1)
    care.pool.lost = {"c": frozenset({HeldGpu(3, "GPU-former")})}
    assert (gpus.ledger.blocked, gpus.ledger.present) == ({"GPU-3"}, 3)


async def test_the_holder_of_a_gpu_that_vanishes_while_the_agent_runs_has_trouble(care: Care) -> None:
    gpus = await care.start()
    care.pool.held, care.pool.total = {"c": frozenset(GPUS[:1])}, frozenset(GPUS[1:])
    trouble = gpus.trouble("c")
    assert trouble is not None
    assert ("GPU-0" in trouble.message, trouble.broken) == (True, True)
    assert (gpus.ledger.offered, gpus.ledger.leasable) == (4, 3)


async def test_no_shares_of_an_unhealthy_gpu_are_allocated(care: Care) -> None:
    shared = [Gpu(minor=n, index=n, uuid=f"GPU-{n}", name="Some GPU") for n in (8, 9)]
    sharers = SimpleNamespace(gpus=shared, shares={})
    gpus = await care.start(sharers=sharers)
    assert (gpus.closed_cards, care.pool.withdrawn) == (frozenset(), set())
    await care.event("GPU-9", 79)
    assert (gpus.closed_cards, care.pool.withdrawn) == (frozenset({9}), {"GPU-9"})
