from __future__ import annotations

import itertools
import math
from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mesos_gpu.master.allocation.allocator import Allocator
from mesos_gpu.master.allocation.eligibility import Client, Key, Supply
from mesos_gpu.master.allocation.random_sorter import chances, order, shuffled
from mesos_gpu.master.allocation.sorter import ShareTree
from mesos_gpu.master.model.quota import Quota
from mesos_gpu.mesos.resources import Resources
from tests.support.histories import examples
from tests.support.master.build import RULES, never


def tree(excluded: frozenset[str] = frozenset()) -> ShareTree:
    made = ShareTree(excluded)
    made.set_total({"cpus": 10_000, "mem": 1_000_000, "gpus": 4_000})
    return made


def test_who_holds_least_comes_first_and_names_break_ties() -> None:
    shares = tree()
    for role, name in [("b", "f2"), ("a", "f1"), ("c", "f3")]:
        shares.want(role, name, True)
    assert list(shares.clients()) == [("a", "f1"), ("b", "f2"), ("c", "f3")]
    shares.charge("a", "f1", {"cpus": 5_000})
    shares.charge("b", "f2", {"mem": 100_000})
    assert list(shares.clients()) == [("c", "f3"), ("b", "f2"), ("a", "f1")]
    shares.charge("a", "f1", {"cpus": -5_000})
    assert next(shares.clients()) == ("a", "f1")


def test_a_role_shares_with_its_sub_roles() -> None:
    shares = tree()
    for role in ["a/x", "a/y", "a", "b"]:
        shares.want(role, "f", True)
    shares.charge("a/x", "f", {"cpus": 3_000})
    shares.charge("b", "f", {"cpus": 2_000})
    # b has less than all of a together; within a, its own frameworks stand beside its sub-roles.
    assert list(shares.clients()) == [("b", "f"), ("a", "f"), ("a/y", "f"), ("a/x", "f")]
    assert (shares.share("a"), shares.share("a/x"), shares.share("b")) == (0.3, 0.3, 0.2)


def test_weights_count_at_each_level() -> None:
    shares = tree()
    for role in ["a/x", "a/y", "b"]:
        shares.want(role, "f", True)
        shares.charge(role, "f", {"cpus": 2_000})
    assert [role for role, _ in shares.clients()] == ["b", "a/x", "a/y"]
    shares.set_weight("a", 4.0)
    shares.set_weight("a/y", 2.0)
    assert [role for role, _ in shares.clients()] == ["a/y", "a/x", "b"]
    assert shares.share("a") == 0.4


def test_a_weight_may_come_before_its_role() -> None:
    shares = tree()
    shares.set_weight("b", 10.0)
    for role in ["a", "b"]:
        shares.want(role, "f", True)
        shares.charge(role, "f", {"cpus": 1_000})
    assert next(shares.clients()) == ("b", "f")


def test_excluded_resources_do_not_count_and_equals_take_turns() -> None:
    shares = tree(frozenset({"gpus"}))
    for name in ["f", "g"]:
        shares.want("a", name, True)
    shares.charge("a", "f", {"gpus": 4_000})
    assert shares.share("a") == 0.0
    order = []
    for _ in range(4):
        role, name = next(shares.clients())
        shares.choose(role, name)
        order.append(name)
    assert order == ["f", "g", "f", "g"]


def test_who_wants_nothing_is_passed_over_but_what_it_holds_counts() -> None:
    shares = tree()
    for role in ["a", "b"]:
        shares.want(role, "f", True)
    shares.want("a", "g", False)
    shares.charge("a", "g", {"cpus": 1_000})
    assert list(shares.clients()) == [("b", "f"), ("a", "f")]
    shares.want("a", "f", False)
    assert list(shares.clients()) == [("b", "f")]


def test_who_leaves_is_forgotten_once_it_holds_nothing() -> None:
    shares = tree()
    shares.want("a/b", "f", True)
    shares.charge("a/b", "f", {"cpus": 1_000})
    shares.leave("a/b", "f")
    assert list(shares.clients()) == []
    assert shares.held("a") == {"cpus": 1_000}
    shares.charge("a/b", "f", {"cpus": -1_000})
    assert shares.turns() == {}
    shares.leave("nobody", "f")


def test_shares_follow_the_size_of_the_cluster() -> None:
    shares = tree()
    for role, held in [("a", {"cpus": 1_000}), ("b", {"mem": 200_000})]:
        shares.want(role, "f", True)
        shares.charge(role, "f", held)
    assert next(shares.clients()) == ("a", "f")
    shares.set_total({"cpus": 2_000, "mem": 1_000_000})
    assert next(shares.clients()) == ("b", "f")


def test_shares_may_change_while_the_order_is_read() -> None:
    shares = tree()
    for name in ["f", "g", "h"]:
        shares.want("a", name, True)
    seen = []
    for role, name in shares.clients():
        shares.charge(role, name, {"cpus": 1_000})
        seen.append(name)
    assert seen == ["f", "g", "h"]


@pytest.mark.parametrize("seed", range(4))
def test_after_any_changes_the_order_is_that_of_shares_then_turns_then_names(seed: int) -> None:
    draw, shares = Random(seed), tree(frozenset({"disk"}))
    paths = [("a", "f"), ("a", "g"), ("a/b", "f"), ("a/b", "h"), ("b", "g"), ("c/d", "f"), ("c", "h")]
    held: dict[tuple[str, str], dict[str, int]] = {path: {} for path in paths}
    wanting: dict[tuple[str, str], bool] = dict.fromkeys(paths, False)
    weights: dict[str, float] = {}
    total = {"cpus": 10_000, "mem": 1_000_000}

    def from_scratch(below: tuple[str, ...] = ()) -> list[tuple[str, str]]:
        turns = shares.turns()
        nodes = {(*role.split("/"), ".", name): held[(role, name)] for role, name in paths if wanting[(role, name)]}
        children = {node[: len(below) + 1] for node in nodes if node[: len(below)] == below and len(node) > len(below)}

        def place(child: tuple[str, ...]) -> tuple[float, int, str]:
            sums: dict[str, int] = {}
            for (role, name), amounts in held.items():
                if (*role.split("/"), ".", name)[: len(child)] == child:
                    for resource, amount in amounts.items():
                        sums[resource] = sums.get(resource, 0) + amount
            share = max((sums[name] / total[name] for name in sums if total.get(name)), default=0.0)
            return share / weights.get("/".join(child), 1.0), turns.get(child, 0), child[-1]

        if below in nodes:
            return [("/".join(below[:-2]), below[-1])]
        return [leaf for child in sorted(children, key=place) for leaf in from_scratch(child)]

    shares.set_total(total)
    for _ in range(300):
        path = draw.choice(paths)
        kind = draw.choice(["hold", "hold", "give back", "choose", "want", "leave", "weight", "total"])
        if kind == "hold":
            amounts = {draw.choice(["cpus", "mem", "disk"]): draw.randrange(1, 5) * 1000}
            held[path] = {name: held[path].get(name, 0) + amounts.get(name, 0) for name in held[path] | amounts}
            shares.charge(*path, amounts)
        elif kind == "give back":
            shares.charge(*path, {name: -amount for name, amount in held[path].items()})
            held[path] = {}
        elif kind == "choose" and wanting[path]:
            shares.choose(*path)
        elif kind == "want":
            wanting[path] = draw.random() < 0.7
            shares.want(*path, wanting[path])
        elif kind == "leave":
            wanting[path] = False
            shares.leave(*path)
        elif kind == "weight":
            weights[path[0]] = draw.choice([0.5, 1.0, 3.0])
            shares.set_weight(path[0], weights[path[0]])
        elif kind == "total":
            total["cpus"] = draw.randrange(5, 20) * 1000
            shares.set_total(total)
        if draw.random() < 0.5:
            assert list(shares.clients()) == from_scratch()
    assert list(shares.clients()) == from_scratch()


R = Resources.parse
ROLES = ["*", "ml", "ml/train", "ml/serve", "web"]
weights = st.floats(0.01, 100.0)
seeds = st.integers(0, 2**32)


def test_chances_are_weights_among_siblings_within_the_part_of_the_role_above() -> None:
    assert chances(["a", "b"], {"a": 3.0}) == {"a": 0.75, "b": 0.25}
    assert chances(["a/x", "a/y", "b"], {"a": 3.0, "a/y": 2.0}) == {"a/x": 0.25, "a/y": 0.5, "b": 0.25}
    # A role's own frameworks stand beside its sub-roles, with the weight of one that was given none.
    assert chances(["a", "a/x"], {"a": 9.0, "a/x": 3.0}) == {"a": 0.25, "a/x": 0.75}
    assert chances(["a/x"], {"a/x": 0.001, "b": 1000.0}) == {"a/x": 1.0}


@given(roles=st.sets(st.sampled_from([*ROLES, "a/b/c", "a/b", "a"]), min_size=1), seed=seeds)
def test_chances_are_all_of_it_and_nobody_has_none(roles: set[str], seed: int) -> None:
    dice = Random(seed)
    given_weights = {role: dice.uniform(0.01, 100.0) for role in ROLES if dice.random() < 0.7}
    found = chances(sorted(roles), given_weights)
    assert found.keys() == roles
    assert math.isclose(sum(found.values()), 1.0)
    assert min(found.values()) > 0


@given(st.lists(weights, min_size=1, max_size=8), seeds)
def test_a_shuffle_has_everyone_once_and_is_the_same_for_the_same_draws(given_weights: list[float], seed: int) -> None:
    numbered = list(enumerate(given_weights))
    first = shuffled([(at, weight) for at, weight in numbered], Random(seed).random)
    assert sorted(first) == list(range(len(given_weights)))
    assert first == shuffled([(at, weight) for at, weight in numbered], Random(seed).random)


@given(st.lists(weights, min_size=2, max_size=6), st.data())
def test_whatever_the_weights_there_are_draws_that_put_anyone_first(given_weights: list[float], data: Any) -> None:
    lucky = data.draw(st.integers(0, len(given_weights) - 1))
    draws = iter([0.0 if at == lucky else 0.5 for at in range(len(given_weights))])
    assert shuffled(list(enumerate(given_weights)), lambda: next(draws))[0] == lucky


def test_first_places_follow_the_weights() -> None:
    """The chance of each is its part of the weights, exactly: a grid over the draws shows it as finely as it is."""
    steps = 40
    grid = [(at + 0.5) / steps for at in range(steps)]
    firsts: Counter[str] = Counter()
    for draws in itertools.product(grid, repeat=3):
        it = iter(draws)
        firsts[shuffled([("a", 1.0), ("b", 2.0), ("c", 5.0)], lambda it=it: next(it))[0]] += 1
    parts = {name: count / steps**3 for name, count in firsts.items()}
    assert all(
        math.isclose(parts[name], part, abs_tol=0.01) for name, part in [("a", 1 / 8), ("b", 2 / 8), ("c", 5 / 8)]
    )


def test_a_roles_frameworks_come_one_after_another() -> None:
    found = list(order({"a": ["f", "g"], "b": ["f"]}, {"a": 0.5, "b": 0.5}, Random(1).random))
    assert sorted(found) == [("a", "f"), ("a", "g"), ("b", "f")]
    assert [role for role, _ in itertools.groupby(found, key=lambda one: one[0])] in (["a", "b"], ["b", "a"])


clients = st.lists(
    st.tuples(st.sampled_from("fgh"), st.sampled_from(ROLES)).map(lambda one: Client(*one)), min_size=1, unique=True
)
quotas = st.dictionaries(
    st.sampled_from(["ml", "web"]),
    st.builds(
        lambda limit, part: Quota({"cpus": limit * part // 4}, {"cpus": limit}),
        st.integers(1, 200).map(lambda n: 40 * n),
        st.integers(0, 4),
    ),
)


@given(clients=clients, quotas=quotas, heavy=weights, seed=seeds)
def test_quota_holds_whoever_is_drawn(clients: list[Client], quotas: dict[str, Quota], heavy: float, seed: int) -> None:
    made = Allocator(RULES, Random(seed).random)
    made.set_quotas(quotas)
    made.tree.set_weight("web", heavy)
    supplies = [
        Supply(f"a{n}", R(size), R(size)) for n, size in enumerate(["cpus:4;mem:256", "cpus:3;mem:64", "cpus:1"])
    ]
    for supply in supplies:
        made.put_agent(supply, {})
    for client in clients:
        made.put_client(client)
    held: dict[Key, Resources] = {}
    for allocation in made.cycle(never):
        key = allocation.client.key
        held[key] = held.get(key, Resources()) + allocation.resources
    cpus = {top: sum(r.milli("cpus") for (role, _), r in held.items() if role.split("/")[0] == top) for top in quotas}
    wanted = {top for top in quotas if any(client.role.split("/")[0] == top for client in clients)}
    for top, quota in quotas.items():
        # A guarantee is met first, where the cluster can for all who have one; all come in
        # hundredths of a CPU, the least that an offer may hold.
        assert cpus[top] <= quota.limits["cpus"]
        if top in wanted and sum(q.guarantees["cpus"] for q in quotas.values()) <= 8000:
            assert cpus[top] >= quota.guarantees["cpus"]
    assert sum(r.milli("cpus") for r in held.values()) <= 8000


@settings(max_examples=examples(10))
@given(seed=seeds)
def test_nobody_starves_beside_a_heavier_one(seed: int) -> None:
    """One machine that is free again and again: with a third of the weight, 200 turns without one are 10^-35."""
    made = Allocator(RULES, Random(seed).random)
    made.tree.set_weight("web", 2.0)
    for client in (Client("f", "ml"), Client("g", "web")):
        made.put_client(client)
    turns: Counter[str] = Counter()
    for _ in range(200):
        made.put_agent(Supply("a", R("cpus:1"), R("cpus:1")), {})
        turns.update(allocation.client.framework_id for allocation in made.cycle(never))
    assert turns["f"] > 0
    assert turns["g"] > 0
    assert turns.total() == 200
