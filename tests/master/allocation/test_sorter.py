from __future__ import annotations

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
