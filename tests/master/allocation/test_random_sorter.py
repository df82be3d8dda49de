from __future__ import annotations

import itertools
import math
from collections import Counter
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mesos_gpu.master.allocation.allocator import Allocator
from mesos_gpu.master.allocation.eligibility import Client, Key, Supply
from mesos_gpu.master.allocation.random_sorter import chances, order, shuffled
from mesos_gpu.master.model.quota import Quota
from mesos_gpu.mesos.resources import Resources
from tests.support.histories import examples
from tests.support.master.build import RULES, never

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
