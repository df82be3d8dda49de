"""Pools of a box: how they are written, and which agents they come to."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import BadInput, Conflict, NotFound
from mesos_gpu.gpu.make import Make
from mesos_gpu.local.pools import (
    MAX_AGENTS,
    Layout,
    Pool,
    Seat,
    Wish,
    default_layout,
    document_of,
    layout_of,
    read_layout,
    read_pool,
    read_pools,
)
from tests.support.golden import Golden

T4 = Wish(Pool("t4", 4, Make("Tesla-T4", 15109)), 2)
CPU = Wish(Pool("cpu", 0), 1)


def laid(*wishes: Wish, cards: tuple[int, ...] | None = None) -> Layout:
    return layout_of(wishes, Layout(cards=cards), cards)


def test_a_pool_is_read_as_it_is_written() -> None:
    assert read_pool("name=t4,agents=2,gpus=4,model=Tesla-T4,memory=15109MiB") == T4
    assert read_pool(" name = cpu , gpus = 0 ") == CPU
    assert read_pool("name=a").pool == Pool("a", 4)
    assert read_pool("name=a,memory=16GiB,driver=535.104.05").pool.make == Make(
        memory_mib=16384, driver_version="535.104.05"
    )
    assert read_pool("name=a,gpus=8,topology=dgx-1").pool.make == Make(topology="dgx-1")
    assert read_pools([]) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "agents=1",
        "name=T4",
        "name=t4,agent=2",
        "name=t4,zone=a",
        "name=t4,gpus=4,gpus=2",
        "name=t4,agents=many",
        "name=t4,gpus=255",
        "name=t4,memory=much",
        "name=t4,memory=0MiB",
        "name=t4,model=a\tb",
        "name=t4,driver=x",
        "name=t4,topology=ring",
        "name=t4,gpus=9,topology=dgx-1",
    ],
)
def test_a_mistake_in_a_pool_is_named(text: str, golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        read_pool(text)
    assert str(refused.value) == golden


@pytest.mark.parametrize("texts", [["name=a", "name=a"], ["name=a,agents=0"]])
def test_pools_that_make_no_box_are_refused(texts: list[str]) -> None:
    with pytest.raises(BadInput):
        read_pools(texts)


def test_agents_are_numbered_over_all_pools_and_keep_their_numbers() -> None:
    layout = laid(T4, CPU)
    assert [(seat.name, seat.pool) for seat in layout.seats] == [("agent1", "t4"), ("agent2", "t4"), ("agent3", "cpu")]
    grown = layout.grow("t4", 1)
    assert [seat.number for seat in grown.of("t4")] == [1, 2, 4]
    assert [seat.number for seat in grown.without([1]).grow("cpu", 1, taken=[1]).of("cpu")] == [3, 5]
    assert layout.create(Wish(Pool("p100", 1), 2), taken=[9]).of("p100") == [Seat(4, "p100"), Seat(5, "p100")]


def test_what_cannot_be_done_with_pools_is_refused(golden: Golden) -> None:
    layout = laid(T4, CPU)
    with pytest.raises(NotFound) as refused:
        layout.grow("p100", 1)
    assert str(refused.value) == golden
    with pytest.raises(Conflict) as refused:
        layout.create(T4)
    assert str(refused.value) == golden
    with pytest.raises(BadInput) as refused:
        layout.grow("cpu", MAX_AGENTS)
    assert str(refused.value) == golden
    with pytest.raises(BadInput) as refused:
        layout.delete("cpu").delete("t4")
    assert str(refused.value) == golden
    with pytest.raises(NotFound):
        layout.delete("p100")


def test_a_box_that_comes_back_has_the_agents_that_it_had() -> None:
    before = laid(T4, CPU).grow("t4", 1).without([1])
    again = layout_of([Wish(T4.pool, 2), CPU], before, None)
    assert again.seats == before.seats


def test_a_pool_that_is_another_has_other_numbers() -> None:
    """An agent's checkpoints are those of what it was."""
    other = layout_of([Wish(Pool("t4", 2), 2), CPU], laid(T4, CPU), None, taken=[7])
    assert [seat.number for seat in other.of("t4")] == [4, 5]
    assert [seat.number for seat in other.of("cpu")] == [3]
    assert [pool.name for pool in other.pools] == ["t4", "cpu"]


def test_real_gpus_are_each_one_agents(golden: Golden) -> None:
    one = Wish(Pool("one", 1), 2)
    layout = laid(one, CPU, cards=(0, 1, 2))
    assert [seat.devices for seat in layout.seats] == [(0,), (1,), ()]
    assert layout.without([1]).grow("one", 1).of("one")[0].devices == (0,)
    with pytest.raises(BadInput) as refused:
        layout.grow("one", 2)
    assert str(refused.value) == golden
    with pytest.raises(BadInput) as refused:
        laid(T4, cards=(0, 1, 2, 3))
    assert str(refused.value) == golden
    fewer = layout_of([one], layout, (1, 2))
    assert {seat.devices for seat in fewer.seats} == {(1,), (2,)}
    assert {seat.devices for seat in layout_of([one], laid(one), (0, 1)).seats} == {(0,), (1,)}


@given(st.integers(1, 6), st.integers(0, 4))
def test_a_layout_reads_back_as_it_was_written(agents: int, gpus: int) -> None:
    for layout in (default_layout(agents, gpus, None), default_layout(agents, 0, range(gpus)), laid(T4, CPU)):
        assert read_layout(json.loads(json.dumps(document_of(layout)))) == layout


@pytest.mark.parametrize(
    "document",
    [None, [], {}, {"pools": [], "agents": [{"number": 1, "pool": "t4", "devices": []}], "cards": None}, {"pools": 1}],
)
def test_a_damaged_layout_is_told_as_such(document: object) -> None:
    with pytest.raises(ValueError):
        read_layout(document)
