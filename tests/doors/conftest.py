"""What the tests of doors share: one Docker Engine, and agents with simulated GPUs that lend them."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.agent.live import LiveAgent, new_master
from tests.support.doors.bank import Bank
from tests.support.doors.engine import Engine, an_engine


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    # A short path: sockets have names of 107 bytes at most.
    with an_engine(Path(tempfile.mkdtemp(prefix="doors-"))) as started:
        yield started


@pytest.fixture
def asking(engine: Engine, bank: Bank) -> Engine:
    """The engine, whose hooks ask the agent of this test."""
    bank.tell(engine.settings)
    return engine


@pytest.fixture
async def bank(tmp_path: Path) -> AsyncIterator[Bank]:
    master = await new_master()
    agent = LiveAgent(tmp_path, master)
    await agent.start()
    try:
        yield Bank(agent)
    finally:
        try:
            await agent.end()
        finally:
            await master.stop()
    # Where GPUs are lent still, the program that plays them stays until nobody has asked it for a while.
    try:
        await agent.until(lambda: agent.leftovers() == [])
    except (TimeoutError, asyncio.TimeoutError):
        pytest.fail(f"left of the agent: {agent.leftovers()}")
