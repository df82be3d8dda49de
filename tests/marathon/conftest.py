"""A whole Marathon in process, a real ZooKeeper, and a master for programs, for this room."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.fakes.scheduler_master import SchedulerMaster
from tests.support.marathon.service import make_marathon, marathon
from tests.support.zookeeper import zookeeper

__all__ = ["make_marathon", "marathon", "zookeeper"]


@pytest.fixture
async def master() -> AsyncIterator[SchedulerMaster]:
    made = SchedulerMaster()
    await made.start()
    yield made
    await made.stop()
