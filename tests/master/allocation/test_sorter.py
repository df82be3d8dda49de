from __future__ import annotations

from random import Random

import pytest

from mesos_gpu.master.allocation.sorter import ShareTree


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
