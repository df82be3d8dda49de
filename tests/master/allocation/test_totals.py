"""Sums over agents: what they come to whatever happened, and that only what has changed is added up."""

from __future__ import annotations

from random import Random

import pytest

from mesos_gpu.master.allocation import totals
from mesos_gpu.master.allocation.eligibility import Key, Supply
from mesos_gpu.master.allocation.sorter import ShareTree
from mesos_gpu.master.allocation.totals import Books, Totals
from mesos_gpu.mesos.resources import Resources
from tests.support.master.build import SHARED_VOLUME

R = Resources.parse
SIZES = ["cpus:8;mem:512;gpus:4", "cpus:6;gpus:2;cpus(ml):2;gpus(ml):2", "cpus:4;ports:[1-9]"]
PARTS = ["cpus:1", "cpus:1;gpus:1", "cpus(ml):1;gpus(ml):1", "cpus:2;mem:64", "ports:[1-3];cpus:1"]
KEYS: list[Key] = [("ml", "f"), ("ml/train", "f"), ("web", "g")]


def state_of(sums: Totals) -> object:
    """All that allocation reads of the sums."""
    held = {role: {name: amount for name, amount in sums.tree.held(role).items()} for role, _ in KEYS}
    return sums.total, sums.consumed, sums.headroom, held


@pytest.mark.parametrize("seed", range(6))
def test_sums_are_those_of_what_is_there_whatever_happened(seed: int) -> None:
    draw, sums = Random(seed), Totals(ShareTree())
    books: dict[str, Books] = {}
    agents: dict[str, tuple[Supply, dict[Key, Resources]]] = {}
    for _ in range(120):
        name, key = draw.choice(["a", "b", "c"]), draw.choice(KEYS)
        kind = draw.choice(["put", "put", "same", "give", "gone"])
        if kind == "gone":
            if name in books:
                sums.forget(books.pop(name))
                del agents[name]
        elif kind == "give" and name in books:
            supply, held = agents[name]
            offered = R(draw.choice(PARTS))
            sums.give(name, books[name], key, offered)
            held = {**held, key: held.get(key, Resources()) + offered.unallocated()}
            free = supply.free - offered
            agents[name] = Supply(name, supply.total, free, active=supply.active), held
            if supply.active and supply.free.contains(offered):
                check(sums, agents)
            sums.enter(books[name], agents[name][0], held)
        else:
            old = agents.get(name)
            total = old[0].total if old and kind == "same" else R(draw.choice(SIZES)) + Resources([SHARED_VOLUME])
            held = dict(old[1]) if old else {}
            held.pop(key, None)
            if draw.random() < 0.7:
                held[key] = (R(draw.choice(PARTS)) + Resources([SHARED_VOLUME])).allocated(key[0])
            supply = Supply(name, total, total.without(*held.values()), active=draw.random() < 0.8)
            agents[name] = supply, held
            sums.enter(books.setdefault(name, Books()), supply, held)
        check(sums, agents)


def check(sums: Totals, agents: dict[str, tuple[Supply, dict[Key, Resources]]]) -> None:
    """Compare with sums of the same agents that were entered just now."""
    fresh = Totals(ShareTree())
    for supply, held in agents.values():
        fresh.enter(Books(), supply, held)
    assert state_of(sums) == state_of(fresh)


def test_what_is_the_same_object_as_before_is_not_added_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sums, books, total = Totals(ShareTree()), Books(), R("cpus:8;gpus:4")
    held = {("ml", f"f{number}"): R("cpus:1").allocated("ml") for number in range(6)}
    sums.enter(books, Supply("a", total, total.without(*held.values())), held)
    read: list[Resources] = []
    quantities = totals.quantities
    monkeypatch.setattr(totals, "quantities", lambda bag: read.append(bag) or quantities(bag))
    changed = {**held, ("ml", "f3"): R("cpus:2").allocated("ml")}
    sums.enter(books, Supply("a", total, total.without(*changed.values())), changed)
    assert [bag for bag in read if isinstance(bag, Resources)] == [changed[("ml", "f3")]]
    assert sums.tree.held("ml") == {"cpus": 7_000}


def test_what_was_given_and_taken_back_is_no_longer_held() -> None:
    sums, books, total = Totals(ShareTree()), Books(), R("cpus:8;gpus:4")
    held = {("ml", "f"): R("cpus:1").allocated("ml")}
    before = Supply("a", total, total.without(*held.values()))
    sums.enter(books, before, held)
    sums.give("a", books, ("ml", "f"), R("cpus:2"))
    sums.give("a", books, ("web", "g"), R("gpus:1"))
    assert sums.consumed == {"ml": {"cpus": 3_000}, "web": {"gpus": 1_000}}
    assert sums.headroom == {"cpus": 5_000, "gpus": 3_000}
    sums.enter(books, before, held)
    assert sums.consumed == {"ml": {"cpus": 1_000}}
    assert sums.headroom == {"cpus": 7_000, "gpus": 4_000}
    assert sums.tree.held("ml") == {"cpus": 1_000}
    assert sums.tree.held("web") == {}
