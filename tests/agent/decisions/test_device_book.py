"""The book of plugins' devices: what is offered, who holds what, and that no order of events gives one to two."""

from __future__ import annotations

import random

import pytest

from mesos_gpu.agent.decisions.device_book import Device, DeviceBook, UnitsShort, own_choice, preferred
from mesos_gpu.errors import Conflict, NotFound
from mesos_gpu.mesos.ids import ContainerId
from tests.support.golden import Golden

R = "example.com/x"
A, B = ContainerId("a"), ContainerId("b")


def devices(*healthy: bool) -> list[Device]:
    return [Device(f"d{n}", well) for n, well in enumerate(healthy)]


def give(book: DeviceBook, container: ContainerId, count: int, resource: str = R) -> frozenset[str]:
    held, free = book.choose(container, resource, count)
    chosen = own_choice(held, free, count)
    book.take(container, resource, chosen)
    return chosen


def test_healthy_devices_and_held_ones_may_be_offered() -> None:
    book = DeviceBook()
    book.list(R, devices(True, True, False))
    assert book.totals() == {R: 2}
    assert give(book, A, 1) == {"d0"}
    book.list(R, devices(False, True, True))
    assert book.totals() == {R: 3}, "one that is ill is held, and offered no more once it is free"
    assert [device.id for device in book.free(R)] == ["d1", "d2"]
    assert book.release(A)
    assert not book.release(A)
    assert book.totals() == {R: 2}


def test_a_plugin_that_is_gone_is_forgotten_after_its_grace(golden: Golden) -> None:
    book = DeviceBook(grace_s=300)
    book.list(R, devices(True, True))
    give(book, A, 1)
    book.gone(R, 100.0)
    book.gone(R, 200.0)
    book.gone("example.com/never-was", 200.0)
    assert (book.totals(), book.next_due_s()) == ({R: 1}, 400.0)
    with pytest.raises(Conflict) as refused:
        book.choose(B, R, 1)
    assert str(refused.value) == golden
    book.expire(399.0)
    assert R in book.resources
    book.expire(400.0)
    assert (R in book.resources, book.totals(), book.next_due_s()) == (False, {R: 1}, None)
    with pytest.raises(NotFound) as refused:
        book.choose(B, R, 1)
    assert str(refused.value) == golden
    book.list(R, devices(True, True))
    assert [device.id for device in book.free(R)] == ["d1"]


def test_what_cannot_be_given_is_refused_in_a_kubelet_s_words(golden: Golden) -> None:
    book = DeviceBook()
    book.list(R, devices(True, True))
    give(book, A, 1)
    with pytest.raises(UnitsShort) as refused:
        book.choose(B, R, 2)
    assert str(refused.value) == golden
    with pytest.raises(Conflict) as refused:
        book.take(B, R, ["d0"])
    assert str(refused.value) == golden
    book.list(R, devices(False, True))
    with pytest.raises(Conflict) as refused:
        book.choose(A, R, 1)
    assert str(refused.value) == golden
    assert book.held == {A: {R: frozenset({"d0"})}}


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, {"c"}), (2, {"a", "b"}), (3, {"a", "b", "c"}), (4, {"a", "b", "c", "n"}), (0, set())],
)
def test_devices_of_one_numa_node_go_together(count: int, expected: set[str]) -> None:
    free = [Device("a", True, 0), Device("b", True, 0), Device("c", True, 1), Device("n", True)]
    assert own_choice((), free, count) == expected


def test_a_preference_counts_only_where_it_is_a_choice() -> None:
    free = [Device(name, True) for name in "abc"]
    assert preferred({"h"}, free, 2, ["h", "c"]) == {"h", "c"}
    for answer in (["a", "b"], ["h"], ["h", "z"], ["h", "h"], ["h", "a", "b"]):
        assert preferred({"h"}, free, 2, answer) is None


def test_no_order_of_events_gives_a_device_to_two_or_loses_one() -> None:
    for seed in range(300):
        dice = random.Random(seed)
        book, now_s = DeviceBook(grace_s=5), 0.0
        containers = [ContainerId(f"c{n}") for n in range(6)]
        for _ in range(60):
            now_s += dice.random()
            match dice.randrange(5):
                case 0:
                    book.list(R, devices(*(dice.random() < 0.8 for _ in range(5))))
                case 1:
                    book.gone(R, now_s)
                case 2:
                    book.expire(now_s)
                case 3:
                    book.release(dice.choice(containers))
                case _:
                    try:
                        give(book, dice.choice(containers), dice.randrange(1, 4))
                    except (Conflict, NotFound):
                        pass
            taken = [name for held in book.held.values() for name in held[R]]
            assert len(taken) == len(set(taken))
        for container in containers:
            book.release(container)
        book.list(R, devices(*[True] * 5))
        assert book.totals() == {R: 5}
