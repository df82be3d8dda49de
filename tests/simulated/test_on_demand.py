"""The program that plays the cards is started by who asks first, where only programs in containers can ask."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mesos_gpu.agent.gpus.simulated_cards import play
from mesos_gpu.simulated.client import Cards, CardsSilent
from mesos_gpu.simulated.running import SOCKET, RunningCards

SIZES = {0: 1 << 30}


@pytest.fixture
def cards(tmp_path: Path) -> Iterator[RunningCards]:
    made = RunningCards(SIZES, tmp_path / "cards", "nobody", {}, on_demand=True)
    made.begin()
    yield made
    made.close(keep=False)


def volume(tmp_path: Path) -> Path:
    folder = tmp_path / "volume"
    folder.mkdir()
    return folder


def figures(path: Path) -> dict[str, Any]:
    with Cards(path, answer_s=60.0) as asked:
        return asked.figures()


def test_it_is_started_when_somebody_asks(tmp_path: Path, cards: RunningCards) -> None:
    folder = volume(tmp_path)
    cards.start(folder)
    assert cards.asked is not None
    with pytest.raises(CardsSilent):
        Cards(cards.control)
    assert select.select([cards.asked], [], [], 0)[0] == []
    with ThreadPoolExecutor(1) as others:
        answer = others.submit(figures, folder / SOCKET)
        assert select.select([cards.asked], [], [], 60)[0]
        cards.wake()
        assert answer.result(60)["cards"]["0"]["total"] == SIZES[0]
    assert cards.asked is None
    assert figures(folder / SOCKET) == figures(cards.control)


def test_it_is_not_waited_for_where_nobody_has_asked(tmp_path: Path, cards: RunningCards) -> None:
    cards.start(None)
    assert cards.asked is None
    cards.wake()
    with pytest.raises(CardsSilent):
        Cards(cards.control)


def test_one_of_an_agent_before_is_taken_up(tmp_path: Path, cards: RunningCards) -> None:
    folder = volume(tmp_path)
    before = RunningCards(SIZES, tmp_path / "cards", "nobody", {})
    before.begin()
    before.start(folder)
    cards.begin()
    cards.start(folder)
    assert cards.asked is None
    before.close(keep=True)
    assert figures(folder / SOCKET)["cards"]["0"]["total"] == SIZES[0]


async def test_an_agent_starts_it_for_a_program_in_a_container(tmp_path: Path, cards: RunningCards) -> None:
    folder = volume(tmp_path)
    isolator: Any = SimpleNamespace(shares={})
    whole: Any = SimpleNamespace(held={}, lent={}, volume=SimpleNamespace(host_path=folder))
    async with AsyncExitStack() as closing:
        await play(cards, isolator, whole, closing)
        assert cards.asked is not None
        told = await asyncio.to_thread(figures, folder / SOCKET)
        assert told["cards"]["0"]["total"] == SIZES[0]
    with pytest.raises(CardsSilent):
        Cards(cards.control)


async def test_an_agent_that_nobody_has_asked_ends_without_it(tmp_path: Path, cards: RunningCards) -> None:
    folder = volume(tmp_path)
    whole = cast("Any", SimpleNamespace(held={}, lent={}, volume=SimpleNamespace(host_path=folder)))
    async with AsyncExitStack() as closing:
        await play(cards, cast("Any", SimpleNamespace(shares={})), whole, closing)
    assert cards.asked is None
    with pytest.raises(CardsSilent):
        Cards(folder / SOCKET)
