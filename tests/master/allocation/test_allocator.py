from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.master.allocation import totals
from mesos_gpu.master.allocation.allocator import Allocator
from mesos_gpu.master.allocation.eligibility import (
    Allocation,
    Client,
    Key,
    Rules,
    Supply,
    admits,
    allocatable,
    available,
    dominant_share,
    quantities,
)
from mesos_gpu.master.allocation.filters import DEFAULT_REFUSE_S, MAX_REFUSE_S, Filters, refuse_seconds
from mesos_gpu.master.allocation.sorter import ShareTree
from mesos_gpu.master.allocation.totals import Books, Totals
from mesos_gpu.master.model.quota import Quota
from mesos_gpu.mesos.resource import Reservation, Resource
from mesos_gpu.mesos.resources import Resources
from tests.support.master.build import RULES, SHARED_VOLUME, never

R = Resources.parse


def supply(agent_id: str, text: str, free: str | None = None) -> Supply:
    return Supply(agent_id, R(text), R(text if free is None else free))


def allocator(
    supplies: list[Supply],
    clients: list[Client],
    held: dict[tuple[str, str], Resources] | None = None,
    rules: Rules = RULES,
) -> Allocator:
    """An allocator of these; what is held is held of an agent that has nothing else."""
    made = Allocator(rules)
    for one in supplies:
        made.put_agent(one, {})
    if held:
        made.put_agent(Supply("elsewhere", Resources(), Resources()), held)
    for client in clients:
        made.put_client(client)
    return made


def run(
    supplies: list[Supply],
    clients: list[Client],
    held: dict[tuple[str, str], Resources] | None = None,
    rules: Rules = RULES,
    refused: Callable[[Client, str, Resources], bool] = never,
) -> list[Allocation]:
    return allocator(supplies, clients, held, rules).cycle(refused)


def given_to(allocations: list[Allocation]) -> list[tuple[str, str]]:
    return [(allocation.client.framework_id, allocation.agent_id) for allocation in allocations]


PLAIN, GPU = supply("plain", "cpus:2;mem:2048"), supply("gpu", "cpus:2;mem:2048;gpus:4")
CAPABLE, OTHER = Client("capable", "a", gpu_resources=True), Client("other", "b", gpu_resources=False)


@pytest.mark.parametrize(
    ("filtering", "clients", "expected"),
    [
        (True, [CAPABLE], [("capable", "plain"), ("capable", "gpu")]),
        (True, [OTHER], [("other", "plain")]),
        (False, [OTHER], [("other", "plain"), ("other", "gpu")]),
    ],
)
def test_machines_with_gpus_are_for_capable_frameworks_unless_the_filter_is_off(
    filtering: bool, clients: list[Client], expected: list[tuple[str, str]]
) -> None:
    rules = Rules(filter_gpu_resources=filtering, min_allocatable=RULES.min_allocatable)
    assert given_to(run([PLAIN, GPU], clients, rules=rules)) == expected


def test_a_machine_whose_gpus_are_all_in_use_is_still_for_capable_frameworks_only() -> None:
    busy = supply("gpu", "cpus:2;mem:2048;gpus:4", free="cpus:2;mem:2048")
    assert not run([busy], [OTHER])
    assert given_to(run([busy], [CAPABLE])) == [("capable", "gpu")]


def test_gpus_do_not_count_for_fairness_when_excluded() -> None:
    # a has all GPUs and a quarter of the rest; b has three quarters: a's turn, although it has 100 % of the GPUs.
    held = {("a", "a"): R("cpus:1;mem:1024;gpus:1"), ("b", "b"): R("cpus:3;mem:3072")}
    supplies = [
        supply("s1", "cpus:2;mem:2048;gpus:1", free="cpus:1;mem:1024"),
        supply("s2", "cpus:4;mem:4096", free=""),
    ]
    clients = [Client("a", "a"), Client("b", "b")]
    assert given_to(run(supplies, clients, held)) == [("a", "s1")]
    counted = Rules(excluded_names=frozenset(), min_allocatable=RULES.min_allocatable)
    assert given_to(run(supplies, clients, held, rules=counted)) == [("b", "s1")]


def test_machines_go_round_among_roles_and_among_the_frameworks_of_a_role() -> None:
    supplies = [supply(f"s{n}", "cpus:1;mem:100") for n in range(4)]
    clients = [Client("a1", "a"), Client("a2", "a"), Client("b1", "b")]
    assert given_to(run(supplies, clients)) == [("a1", "s0"), ("b1", "s1"), ("a2", "s2"), ("b1", "s3")]


def test_the_whole_of_what_is_free_goes_into_one_offer() -> None:
    [allocation] = run([GPU], [CAPABLE, Client("second", "a")])
    assert allocation.resources == GPU.free


def test_who_refused_is_passed_over() -> None:
    clients = [Client("a", "r"), Client("b", "r")]
    allocations = run([PLAIN], clients, refused=lambda client, agent_id, candidate: client.framework_id == "a")
    assert given_to(allocations) == [("b", "plain")]


def test_reserved_resources_are_for_their_role_and_below() -> None:
    free = R("cpus:1;gpus(ml):2;cpus(web):1")
    assert available(free, "ml") == R("cpus:1;gpus(ml):2")
    assert available(free, "ml/train") == R("cpus:1;gpus(ml):2")
    assert available(free, "mlx") == R("cpus:1")


def test_one_machine_is_shared_when_parts_are_reserved() -> None:
    both = supply("s", "cpus:1;mem:100;cpus(ml):1;mem(ml):100")
    allocations = run([both], [Client("any", "*"), Client("m", "ml")])
    assert sum((a.resources.milli("cpus") for a in allocations), 0) == 2000
    assert {a.client.framework_id for a in allocations} == {"any", "m"}


@pytest.mark.parametrize(
    ("text", "worth"),
    [
        ("gpus:1", True),
        ("gpus(ml):1", True),
        ("cpus:0.01", True),
        ("mem:32", True),
        ("mem:31.9", False),
        ("cpus:0.009", False),
        ("ports:[1-2]", False),
        ("", False),
    ],
)
def test_lone_gpus_are_worth_an_offer(text: str, worth: bool) -> None:
    assert allocatable(R(text), RULES.min_allocatable) == worth


def test_without_minimums_anything_is_worth_an_offer() -> None:
    assert allocatable(R("ports:[1-2]"), ())


def test_agents_without_a_capability_are_not_for_those_who_need_it() -> None:
    old = Supply("old", R("cpus:1"), R("cpus:1"), multi_role=False, hierarchical_role=False)
    assert not admits(old, Client("f", "a", multi_role=True), RULES)
    assert not admits(old, Client("f", "a/b"), RULES)
    assert admits(old, Client("f", "a"), RULES)


def test_the_dominant_share_is_the_largest_of_what_counts() -> None:
    total = quantities(R("cpus:4;mem:100;gpus:1;ports:[1-9]"))
    assert dominant_share(quantities(R("cpus:1;mem:50;gpus:1")), total, frozenset({"gpus"})) == 0.5
    assert dominant_share(quantities(R("cpus:1;gpus:1")), total, frozenset()) == 1.0
    assert dominant_share({}, {}, frozenset()) == 0.0


_amounts = st.builds(
    lambda cpus, gpus, reserved: f"cpus:{cpus};mem:{cpus * 64};gpus:{gpus};cpus(a):{reserved}",
    st.integers(0, 4),
    st.integers(0, 3),
    st.integers(0, 2),
)


@given(
    st.lists(_amounts, max_size=5),
    st.lists(
        st.tuples(st.sampled_from("fgh"), st.sampled_from(["*", "a", "a/b", "c"]), st.booleans()),
        max_size=6,
        unique_by=lambda client: client[:2],
    ),
    st.booleans(),
)
def test_nothing_is_given_twice_and_nobody_gets_what_is_not_for_it(
    amounts: list[str], wanting: list[tuple[str, str, bool]], filtering: bool
) -> None:
    rules = Rules(filtering, RULES.excluded_names, RULES.min_allocatable)
    supplies = [supply(f"s{index}", text) for index, text in enumerate(amounts)]
    clients = [Client(framework_id, role, gpu_resources=capable) for framework_id, role, capable in wanting]
    left = {one.agent_id: one.free for one in supplies}
    for allocation in run(supplies, clients, rules=rules):
        one = next(s for s in supplies if s.agent_id == allocation.agent_id)
        assert left[one.agent_id].contains(allocation.resources)
        left[one.agent_id] = left[one.agent_id] - allocation.resources
        assert allocation.resources == available(allocation.resources, allocation.client.role)
        assert allocatable(allocation.resources, rules.min_allocatable)
        assert allocation.client.gpu_resources or not filtering or not one.total.gpus
    for one in supplies:
        for client in clients:
            rest = available(left[one.agent_id], client.role)
            assert not (admits(one, client, rules) and allocatable(rest, rules.min_allocatable)), "left lying"


@given(
    st.lists(st.lists(_amounts, max_size=5), min_size=1, max_size=3),
    st.lists(
        st.tuples(st.sampled_from("fgh"), st.sampled_from(["*", "a", "a/b", "c"]), st.booleans()),
        max_size=6,
        unique_by=lambda client: client[:2],
    ),
    st.integers(1, 3),
    st.sets(st.tuples(st.sampled_from("fgh"), st.integers(0, 9))),
)
def test_agents_that_are_offered_part_by_part_go_to_whom_they_would_go_at_once(
    waves: list[list[str]], wanting: list[tuple[str, str, bool]], most: int, refusals: set[tuple[str, int]]
) -> None:
    clients = [Client(framework_id, role, gpu_resources=capable) for framework_id, role, capable in wanting]
    whole, parts = allocator([], clients[1:]), allocator([], clients[1:])

    def refused(client: Client, agent_id: str, _: Resources) -> bool:
        return (client.framework_id, int(agent_id.removeprefix("s"))) in refusals

    numbers = iter(range(100))
    for wave, amounts in enumerate(waves):
        supplies = [supply(f"s{next(numbers)}", text) for text in amounts]
        for each in (whole, parts):
            for one in supplies:
                each.put_agent(one, {})
            if wave == 1 and clients:
                each.put_client(clients[0])
        expected = whole.cycle(refused)
        found = parts.cycle(refused, most)
        while parts.behind:
            further = parts.cycle(refused, most)
            assert len({allocation.agent_id for allocation in further}) <= most
            found += further
        assert found == expected


def test_with_quota_all_agents_are_looked_at_together() -> None:
    made = allocator([supply(f"s{n}", "cpus:1;mem:64") for n in range(3)], [Client("f", "a")])
    made.set_quotas({"a": Quota({"cpus": 1000}, {})})
    assert len(made.cycle(never, 1)) == 3
    assert not made.behind


def test_refined_reservations_are_offered_to_frameworks_that_understand_them_only() -> None:
    ml = Reservation("ml")
    refined = Resource("cpus", 1000, (ml, Reservation("ml/train", "DYNAMIC")))
    free = Resources([Resource("cpus", 2000, (ml,)), refined, Resource("gpus", 1000, (Reservation("web"),))])
    assert available(free, "ml/train") == Resources([Resource("cpus", 2000, (ml,)), refined])
    assert available(free, "ml/train", refinement=False) == Resources([Resource("cpus", 2000, (ml,))])
    assert available(free, "ml") == Resources([Resource("cpus", 2000, (ml,))])


ALL, PART = Resources.parse("cpus:2;mem:100"), Resources.parse("cpus:1;mem:100")


@pytest.mark.parametrize(
    ("filters", "seconds"),
    [
        (None, DEFAULT_REFUSE_S),
        ({}, DEFAULT_REFUSE_S),
        ({"refuse_seconds": 0.1}, 0.1),
        ({"refuse_seconds": 0}, 0.0),
        ({"refuse_seconds": -1.0}, DEFAULT_REFUSE_S),
        ({"refuse_seconds": math.nan}, DEFAULT_REFUSE_S),
        ({"refuse_seconds": 1e9}, MAX_REFUSE_S),
        ({"refuse_seconds": "Infinity"}, MAX_REFUSE_S),
    ],
)
def test_refuse_seconds_falls_back_to_five_and_ends_at_a_year(
    filters: dict[str, object] | None, seconds: float
) -> None:
    assert refuse_seconds(filters) == seconds


def test_a_refusal_blocks_the_same_and_less_but_not_more() -> None:
    filters = Filters(1.0)
    filters.refuse("f", "r", "a", PART, 5.0, 0.0)
    assert filters.blocks("f", "r", "a", PART)
    assert filters.blocks("f", "r", "a", Resources.parse("cpus:0.5"))
    assert not filters.blocks("f", "r", "a", ALL)


def test_a_refusal_is_of_one_framework_role_and_agent() -> None:
    filters = Filters(1.0)
    filters.refuse("f", "r", "a", ALL, 5.0, 0.0)
    for key in [("g", "r", "a"), ("f", "s", "a"), ("f", "r", "b")]:
        assert not filters.blocks(*key, PART)


def test_a_refusal_lasts_at_least_one_allocation_interval() -> None:
    filters = Filters(2.0)
    filters.refuse("f", "r", "a", ALL, 0.1, 10.0)
    assert not filters.expire(11.9)
    assert filters.blocks("f", "r", "a", ALL)
    assert filters.expire(12.0)
    assert not filters.blocks("f", "r", "a", ALL)


def test_a_refusal_for_no_time_holds_until_the_next_interval_ends_it() -> None:
    filters = Filters(1.0)
    filters.refuse("f", "r", "a", ALL, 0.0, 10.0)
    assert filters.blocks("f", "r", "a", ALL)
    assert filters.expire(10.0)
    assert not filters.blocks("f", "r", "a", ALL)


def test_revive_drops_the_refusals_of_its_roles_only() -> None:
    filters = Filters(1.0)
    for role in ("r", "s"):
        filters.refuse("f", role, "a", ALL, 5.0, 0.0)
    filters.revive("f", {"r"})
    assert not filters.blocks("f", "r", "a", ALL)
    assert filters.blocks("f", "s", "a", ALL)
    assert filters.count("s") == 1


def test_what_is_gone_is_forgotten() -> None:
    filters = Filters(1.0)
    for framework_id, agent_id in [("f", "a"), ("g", "a"), ("f", "b")]:
        filters.refuse(framework_id, "r", agent_id, ALL, 5.0, 0.0)
    filters.forget_framework("g")
    filters.forget_agent("b")
    assert filters.count() == 1
    assert filters.blocks("f", "r", "a", ALL)


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
