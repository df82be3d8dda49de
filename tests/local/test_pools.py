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
    ("text", "said"),
    [
        ("", "is not KEY=VALUE"),
        ("agents=1", "it needs a name"),
        ("name=T4", "small letters"),
        ("name=t4,agent=2", "did you mean agents="),
        ("name=t4,zone=a", "known are name, agents"),
        ("name=t4,gpus=4,gpus=2", "gpus is said twice"),
        ("name=t4,agents=many", "agents: 'many' is not a whole number of 0 to 64"),
        ("name=t4,gpus=255", "gpus: '255'"),
        ("name=t4,memory=much", "memory: 'much' is not a size"),
        ("name=t4,memory=0MiB", "memory: must be 1 MiB"),
        ("name=t4,model=a\tb", "model: must be a name"),
        ("name=t4,driver=x", "driver: must be a version"),
        ("name=t4,topology=ring", "topology: must be one of"),
        ("name=t4,gpus=9,topology=dgx-1", "topology: dgx-1 has 8 GPUs, not 9"),
    ],
)
def test_a_mistake_in_a_pool_is_named(text: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        read_pool(text)


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


def test_what_cannot_be_done_with_pools_is_refused() -> None:
    layout = laid(T4, CPU)
    with pytest.raises(NotFound, match="there are: t4, cpu"):
        layout.grow("p100", 1)
    with pytest.raises(Conflict, match="already"):
        layout.create(T4)
    with pytest.raises(BadInput, match="more than 64"):
        layout.grow("cpu", MAX_AGENTS)
    with pytest.raises(BadInput, match="last agents"):
        layout.delete("cpu").delete("t4")
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


def test_real_gpus_are_each_one_agents() -> None:
    one = Wish(Pool("one", 1), 2)
    layout = laid(one, CPU, cards=(0, 1, 2))
    assert [seat.devices for seat in layout.seats] == [(0,), (1,), ()]
    assert layout.without([1]).grow("one", 1).of("one")[0].devices == (0,)
    with pytest.raises(BadInput, match="0 of this machine's 3 are left"):
        layout.grow("one", 2)
    with pytest.raises(BadInput, match="these are real"):
        laid(T4, cards=(0, 1, 2, 3))
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
    with pytest.raises(ValueError, match="describes no pools"):
        read_layout(document)
