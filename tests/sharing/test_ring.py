"""Shares of a card by the ring: each policy, weights, hostile tenants, changes; under virtual time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mesos_gpu.sharing.memory import Holding, MemoryWatch, Place
from mesos_gpu.sharing.policies import CardRules, Member, Policy, plan
from mesos_gpu.sharing.ring import LONGEST_FROZEN_S, Reading, Ring
from tests.support.golden import Golden
from tests.support.histories import examples
from tests.support.sharing.virtual_card import Tenant, VirtualCard

WEIGHTS = [(1, 1), (1, 2), (2, 3), (1, 3), (1, 2, 4)]
CONTENTION_S = 30.0


def card(
    policy: Policy, weights: tuple[int, ...], tenants: dict[str, Tenant] | None = None, **rules: Any
) -> VirtualCard:
    """A card whose containers are a, b, ... with these weights."""
    names = "abcdefgh"[: len(weights)]
    ring = Ring(CardRules(policy, **rules))
    ring.set_members(Member(name, weight) for name, weight in zip(names, weights, strict=True))
    return VirtualCard(ring, tenants or {name: Tenant() for name in names})


def shares(used: dict[str, float]) -> list[float]:
    return [seconds / sum(used.values()) for seconds in used.values()]


@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
def test_weights_are_kept_within_two_percent_over_thirty_seconds(weights: tuple[int, ...]) -> None:
    found = shares(card(Policy.WEIGHTED, weights).run(CONTENTION_S))
    assert found == pytest.approx([weight / sum(weights) for weight in weights], rel=0.02)


@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
def test_fixed_parts_are_of_the_card_and_what_nobody_owns_stays_empty(weights: tuple[int, ...]) -> None:
    used = card(Policy.FIXED, weights, max_inst=10).run(CONTENTION_S)
    assert list(used.values()) == pytest.approx([CONTENTION_S * weight / 10 for weight in weights], rel=0.02)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_fair_parts_are_one_of_max_inst_each(count: int) -> None:
    used = card(Policy.FAIR, (1, 4, 2)[:count], max_inst=5).run(CONTENTION_S)
    assert list(used.values()) == pytest.approx([CONTENTION_S / 5] * count, rel=0.02)


@pytest.mark.parametrize("policy", [Policy.PREEMPTIVE, Policy.WEAK])
def test_who_has_work_has_equal_parts_and_the_idle_give_theirs_away(policy: Policy) -> None:
    tenants = {"a": Tenant(), "b": Tenant(depth=16, processes=8), "c": Tenant(busy=False)}
    used = card(policy, (1, 1, 1), tenants).run(CONTENTION_S)
    assert used["c"] == 0
    assert shares({name: used[name] for name in "ab"}) == pytest.approx([0.5, 0.5], rel=0.02)
    assert sum(used.values()) > 0.95 * CONTENTION_S


def test_a_weight_above_one_makes_preemptive_sharing_weighted() -> None:
    assert shares(card(Policy.PREEMPTIVE, (1, 3)).run(CONTENTION_S)) == pytest.approx([0.25, 0.75], rel=0.02)


def test_weighted_an_idle_owner_of_the_open_card_keeps_its_slices_and_one_without_it_does_not() -> None:
    tenants = {"a": Tenant(), "b": Tenant(busy=False)}
    on = card(Policy.WEIGHTED, (1, 2), tenants)
    assert on.run(CONTENTION_S)["a"] == pytest.approx(CONTENTION_S / 3, rel=0.05)
    tenants["b"].open = False
    assert on.run(CONTENTION_S)["a"] == pytest.approx(CONTENTION_S, rel=0.01)


@pytest.mark.parametrize("policy", list(Policy))
def test_the_idle_and_the_native_are_never_frozen(policy: Policy) -> None:
    tenants = {"a": Tenant(busy=False), "b": Tenant(busy=False)}
    on = card(policy, (1, 2), tenants)
    on.run(1.0)
    on.run(5.0)
    assert on.ring.decide(on.now_s, {}).thawed == {"a", "b"}
    tenants["a"].busy = tenants["b"].busy = policy is Policy.NATIVE
    on.run(1.0)
    assert on.turn.thawed == {"a", "b"}


@pytest.mark.parametrize(
    ("weights", "hostile", "queued_s"),
    [
        ((1, 2), Tenant(depth=16, processes=8), 0.0),
        ((1, 3), Tenant(depth=4, processes=8, kernel_s=0.01), 0.0),
        ((1, 2), Tenant(depth=1000, processes=1), 2.0),
    ],
    ids=["many processes", "long kernels", "a thousand launches queued"],
)
def test_who_queues_deep_pays_for_it_and_gains_at_most_what_was_queued_last(
    weights: tuple[int, ...], hostile: Tenant, queued_s: float
) -> None:
    on = card(Policy.WEIGHTED, weights, {"a": hostile, "b": Tenant()})
    on.run(3.0)  # what it queues before anybody else is there is nobody's loss
    used = on.run(CONTENTION_S)
    ideal = weights[0] / sum(weights)
    assert abs(shares(used)[0] - ideal) <= queued_s / CONTENTION_S + 0.02 * ideal


@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
def test_what_a_hostile_tenant_has_too_much_is_one_queue_at_any_moment_and_never_more(weights: tuple[int, ...]) -> None:
    tenants = {name: Tenant(depth=16) for name in "abc"[: len(weights)]}
    hostile = tenants["a"] = Tenant(depth=16, processes=8)
    on, ideal = card(Policy.WEIGHTED, weights, tenants), weights[0] / sum(weights)
    on.run(3.0)
    begun = {name: tenant.used_s for name, tenant in tenants.items()}
    ahead_s = []
    for _ in range(600):
        on.run(0.1)
        had = {name: tenant.used_s - begun[name] for name, tenant in tenants.items()}
        ahead_s.append(had["a"] - ideal * sum(had.values()))
    queue_s, turn_s = hostile.depth * hostile.processes * hostile.kernel_s, on.ring.rules.slice_s * weights[0]
    assert max(ahead_s) - min(ahead_s) <= queue_s + 2 * turn_s
    early_s, late_s = sum(ahead_s[:200]) / 200, sum(ahead_s[-200:]) / 200
    assert abs(late_s - early_s) < 0.1 * queue_s, "debts are carried over, not added up"


@pytest.mark.parametrize("ratio", [20, 50, 80])
def test_high_priority_may_take_its_ratio_while_it_has_work(ratio: int) -> None:
    tenants = {"h": Tenant(), "a": Tenant(), "b": Tenant()}
    ring = Ring(CardRules(Policy.PREEMPTIVE, prio_ratio=ratio))
    ring.set_members([Member("h", high=True), Member("a"), Member("b")])
    on = VirtualCard(ring, tenants)
    rest = (100 - ratio) / 200
    assert shares(on.run(CONTENTION_S)) == pytest.approx([ratio / 100, rest, rest], rel=0.02)
    tenants["h"].busy = False
    on.run(0.5)
    assert shares(on.run(CONTENTION_S)) == pytest.approx([0.0, 0.5, 0.5], abs=0.01)


@pytest.mark.parametrize(
    ("rules", "weights", "parts"),
    [
        (CardRules(Policy.PREEMPTIVE), {"a": 1, "b": 1}, [1, 1]),
        (CardRules(Policy.WEIGHTED), {"a": 4, "b": 1}, [4, 1]),
        (CardRules(Policy.WEAK), {"a": 1, "b": 1}, [1, 1]),
    ],
)
def test_a_change_is_in_effect_within_two_slices(rules: CardRules, weights: dict[str, int], parts: list[int]) -> None:
    on = card(Policy.WEIGHTED, (1, 9))
    on.run(3.0)
    on.ring.set_rules(rules)
    on.ring.set_members(Member(name, weight) for name, weight in weights.items())
    on.run(2 * rules.slice_s)
    figures = on.ring.figures()
    assert [figures[name].part for name in "ab"] == pytest.approx([part / sum(parts) for part in parts])
    assert shares(on.run(CONTENTION_S)) == pytest.approx([part / sum(parts) for part in parts], rel=0.05)


def test_a_container_that_is_held_runs_at_once_and_pays_afterwards() -> None:
    on = card(Policy.WEIGHTED, (1, 1))
    on.run(3.0)
    on.ring.set_members([Member("a", held=True), Member("b")])
    on.run(0.001)
    assert "a" in on.turn.thawed
    on.run(1.0)
    on.ring.set_members([Member("a"), Member("b")])
    assert shares(on.run(CONTENTION_S))[0] == pytest.approx(0.5, rel=0.03)


def test_a_container_that_leaves_in_its_turn_is_followed_at_once() -> None:
    on = card(Policy.WEIGHTED, (1, 1))
    on.run(1.0)
    owner = on.turn.owner
    on.ring.set_members([member for member in on.ring.members if member.id != owner])
    turn = on.ring.decide(on.now_s, {})
    assert turn.thawed == {member.id for member in on.ring.members}


def test_a_meter_that_begins_anew_takes_nothing_back() -> None:
    ring = Ring(CardRules(Policy.WEIGHTED))
    ring.set_members([Member("a"), Member("b")])
    ring.decide(0.0, {"a": Reading(100.0), "b": Reading(5.0)})
    ring.decide(0.1, {"a": Reading(1.0), "b": Reading(5.1)})
    assert ring.figures()["a"].used_s == 0
    assert ring.figures()["b"].used_s == pytest.approx(0.1)


MEMBERS = st.lists(
    st.builds(Member, st.sampled_from("abcd"), st.integers(1, 6), st.booleans(), st.booleans()),
    max_size=4,
    unique_by=lambda member: member.id,
)
RULES = st.builds(
    CardRules,
    st.sampled_from(Policy),
    st.sampled_from([0.005, 0.02, 0.2]),
    st.integers(1, 25),
    st.integers(20, 99),
)  # fmt: skip
STEP = st.one_of(MEMBERS, RULES, st.dictionaries(st.sampled_from("abcd"), st.booleans()), st.floats(0.01, 2.0))


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(STEP, max_size=12))
def test_whatever_happens_nobody_is_frozen_for_long_or_for_nothing(steps: list[Any]) -> None:
    tenants = {name: Tenant() for name in "abcd"}
    on = VirtualCard(Ring(), tenants)
    for step in steps:
        if isinstance(step, list):
            on.ring.set_members(step)
        elif isinstance(step, CardRules):
            on.ring.set_rules(step)
        elif isinstance(step, dict):
            for name, busy in step.items():
                tenants[name].busy = busy
        else:
            on.run(step)
        names = {member.id for member in on.ring.members}
        turn = on.ring.decide(on.now_s, {name: Reading(tenants[name].used_s) for name in names})
        assert turn.thawed <= names
        assert {member.id for member in on.ring.members if member.held} <= turn.thawed
        assert turn.until_s >= on.now_s - 1e-6
        figures = on.ring.figures()
        assert figures.keys() == names
        assert all(0 <= each.part <= 1 for each in figures.values())
        whole = plan(on.ring.rules, on.ring.members, names, {name for name in names if figures[name].working})
        assert sum(whole.parts.values()) <= 1 + 1e-9
        if on.ring.rules.policy is Policy.NATIVE:
            assert turn.thawed == names
    on._since = {name: since for name, since in on._since.items() if name in {m.id for m in on.ring.members}}
    longest = max((on.now_s - since for since in on._since.values()), default=0.0)
    assert longest <= LONGEST_FROZEN_S + 25 * 0.2 * 3


A, B = ("a", 2), ("b", 2)
OVER, WITHIN = Holding(7000, 6043), Holding(6043, 6043)


def said(watch: MemoryWatch, now_s: float, holdings: dict[Place, Holding]) -> list[tuple[str, bool]]:
    return [(one.container_id, one.ends) for one in watch.look(now_s, holdings)]


def test_one_is_told_once_and_ended_once_after_its_grace(golden: Golden) -> None:
    watch = MemoryWatch(10.0)
    assert said(watch, 0, {A: WITHIN, B: WITHIN}) == []
    (excess,) = watch.look(1, {A: OVER, B: WITHIN})
    assert not excess.ends
    assert excess.message == golden
    assert [said(watch, now_s, {A: OVER, B: WITHIN}) for now_s in (4, 8, 10.9)] == [[], [], []]
    (excess,) = watch.look(12, {A: OVER})
    assert excess.ends
    assert excess.message == golden
    assert said(watch, 13, {A: OVER}) == []


def test_what_is_freed_in_time_is_forgiven_but_not_at_once() -> None:
    watch = MemoryWatch(10.0)
    watch.look(0, {A: OVER})
    watch.look(4, {A: OVER})
    assert said(watch, 5, {A: WITHIN}) == []
    watch.look(6, {A: OVER})  # back for more: the four seconds still count
    watch.look(10, {A: OVER})
    assert said(watch, 14, {A: OVER}) == [("a", True)]
    watch = MemoryWatch(10.0)
    for now_s, holding in ((0, OVER), (4, OVER), (8, WITHIN), (12, WITHIN), (16, WITHIN)):
        watch.look(now_s, {A: holding})
    assert said(watch, 17, {A: OVER}) == [("a", False)]


def test_time_in_which_nobody_looked_is_not_held_against_it() -> None:
    watch = MemoryWatch(10.0)
    watch.look(0, {A: OVER})
    assert said(watch, 600, {A: OVER}) == []
    assert said(watch, 700, {A: OVER}) == [("a", True)]


def test_without_a_grace_it_is_told_first_all_the_same() -> None:
    watch = MemoryWatch(0.0)
    assert said(watch, 0, {A: OVER}) == [("a", False)]
    assert said(watch, 0.1, {A: OVER}) == [("a", True)]


def test_who_is_gone_is_forgotten() -> None:
    watch = MemoryWatch(1.0)
    watch.look(0, {A: OVER})
    watch.look(5, {})
    assert said(watch, 6, {A: OVER}) == [("a", False)]


@given(st.lists(st.tuples(st.floats(0, 9), st.booleans(), st.booleans()), max_size=60))
def test_nobody_is_ended_untold_or_before_its_grace(history: list[tuple[float, bool, bool]]) -> None:
    watch, now_s, told, over_s, last = MemoryWatch(10.0), 0.0, set[str](), {"a": 0.0, "b": 0.0}, 0.0
    for step_s, a_over, b_over in history:
        now_s += step_s
        for one, over in (("a", a_over), ("b", b_over)):
            over_s[one] += step_s if over else 0.0
        for excess in watch.look(now_s, {A: OVER if a_over else WITHIN, B: OVER if b_over else WITHIN}):
            if excess.ends:
                assert excess.container_id in told
                assert over_s[excess.container_id] >= 10.0 - 1e-6
            told.add(excess.container_id)
        last = now_s
    assert last == now_s
