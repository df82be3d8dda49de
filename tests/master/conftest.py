from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from mesos_gpu.master.service import RunningMaster
from tests.support.master.build import check_books
from tests.support.master.live import Scheduler, ScriptedAgent, live_master
from tests.support.zookeeper import zookeeper

__all__ = ["agent", "master", "new_scheduler", "scheduler", "zookeeper"]


@pytest.fixture
async def master(tmp_path: Path) -> AsyncIterator[RunningMaster]:
    """A master on a port of its own; its books are checked on the way out."""
    async with live_master(tmp_path / "master") as running:
        yield running
        check_books(running.engine.state)


@pytest.fixture
async def new_scheduler(master: RunningMaster) -> AsyncIterator[Callable[[], Scheduler]]:
    made: list[Scheduler] = []

    def make() -> Scheduler:
        made.append(Scheduler(master.url))
        return made[-1]

    yield make
    for scheduler in made:
        await scheduler.close()


@pytest.fixture
async def scheduler(new_scheduler: Callable[[], Scheduler]) -> Scheduler:
    return new_scheduler()


@pytest.fixture
async def agent(master: RunningMaster) -> AsyncIterator[ScriptedAgent]:
    """An agent that has not registered yet."""
    scripted = ScriptedAgent(master.url)
    await scripted.start()
    yield scripted
    await scripted.stop()
