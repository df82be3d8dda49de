"""Dividing a GPU: exact over every state that one can be in, and nothing in use is touched."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import BadInput, Conflict
from mesos_gpu.gpu.mig_layout import Instance, MigPlan, Placed, plan, read_wanted, states, words
from mesos_gpu.gpu.mig_models import MODELS
from tests.support.golden import Golden

A100 = MODELS["A100-40GB"]
SIZES = {profile.name: profile.size for profile in A100}


def at(profile: str, start: int, used: str | None = None) -> Instance:
    return Instance(Placed(start, SIZES[profile], profile), used=used)


def shown(made: MigPlan) -> tuple[list[str], list[str], list[str]]:
    return (
        [f"{one.place.profile}@{one.place.start}" for one in made.keep],
        [f"{one.place.profile}@{one.place.start}" for one in made.destroy],
        [f"{place.profile}@{place.start}" for place in made.create],
    )


def test_an_empty_gpu_is_divided_as_wished() -> None:
    assert shown(plan(A100, [], {"3g.20gb": 1, "2g.10gb": 1, "1g.5gb": 1})) == (
        [],
        [],
        ["3g.20gb@0", "2g.10gb@4", "1g.5gb@6"],
    )


def test_what_is_there_and_wished_for_stays_even_where_another_place_comes_first() -> None:
    assert shown(plan(A100, [at("3g.20gb", 4)], {"3g.20gb": 1, "4g.20gb": 1})) == (["3g.20gb@4"], [], ["4g.20gb@0"])


def test_what_is_used_is_built_around() -> None:
    made = plan(A100, [at("1g.5gb", 2, "task a"), at("1g.5gb", 3)], {"3g.20gb": 1, "1g.5gb": 1})
    assert shown(made) == (["1g.5gb@2"], ["1g.5gb@3"], ["3g.20gb@4"])


def test_what_is_used_and_not_wished_for_stays_besides() -> None:
    made = plan(A100, [at("1g.5gb", 0, "task a")], {"3g.20gb": 1})
    assert shown(made) == (["1g.5gb@0"], [], ["3g.20gb@4"])
    assert [one.used for one in made.beyond] == ["task a"]


def test_the_fewest_whose_end_would_help_are_named(golden: Golden) -> None:
    there = [at("1g.5gb", 0, "task a"), at("1g.5gb", 5, "task b"), at("1g.5gb", 6, "task c")]
    with pytest.raises(Conflict) as refused:
        plan(A100, there, {"4g.20gb": 1})
    assert str(refused.value) == golden


@pytest.mark.parametrize(
    "wanted",
    [
        {"5g.20gb": 1},
        {"3g.20gb": 3},
        {"7g.40gb": 2},
    ],
)
def test_what_the_gpu_can_never_have_is_refused(wanted: dict[str, int], golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        plan(A100, [], wanted)
    assert str(refused.value) == golden


def test_a_division_is_written_in_three_ways() -> None:
    assert read_wanted("3g.20gb, 2x1g.5gb,1g.5gb+me:1") == {"3g.20gb": 1, "1g.5gb": 2, "1g.5gb+me": 1}
    assert read_wanted("1g.5gb,1g.5gb") == {"1g.5gb": 2}
    assert read_wanted("none") == {}
    assert words({"1g.5gb": 2, "3g.20gb": 1}) == "2x1g.5gb,3g.20gb"


@pytest.mark.parametrize("text", ["1g", "a,b", "1g.5gb,,2g.10gb", "0.5"])
def test_what_is_no_division_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="is not a MIG profile"):
        read_wanted(text)


PROOF = [pytest.mark.slow, pytest.mark.proof("mesos_gpu/gpu/mig_layout.py", "mesos_gpu/gpu/mig_models.py")]


@pytest.mark.parametrize("model", ["A30", *(pytest.param(name, marks=PROOF) for name in MODELS if name != "A30")])
def test_every_state_with_anything_in_use_is_divided_exactly_as_trying_all_says(model: str) -> None:
    # What matters of those in use is which slices they take and how many of each profile there are.
    profiles = MODELS[model]
    divisions = list(states(profiles))
    every = set(divisions)
    wishes = {_kinds(division) for division in divisions}
    bases: dict[object, frozenset[Placed]] = {}
    for division in divisions:
        bases.setdefault((sum(place.slices for place in division), _kinds(division)), division)
    refused = 0
    for base in bases.values():
        there = [Instance(place, used="somebody") for place in sorted(base)]
        held = Counter(place.profile for place in base)
        possible = {_kinds(division - base) for division in divisions if division >= base}
        for wish in sorted(wishes):
            lacking = Counter(dict(wish)) - held
            expected = tuple(sorted(lacking.items())) in possible
            refused += not expected
            if not expected and refused % 16:
                continue  # a plan is looked at when it is made: refusals, which take longest, are tried now and then
            try:
                made = plan(profiles, there, dict(wish))
            except Conflict:
                assert not expected
            else:
                assert expected
                assert not made.destroy
                assert {one.place for one in made.keep} == base
                assert base | set(made.create) in every
                assert Counter(place.profile for place in made.create) == lacking
    assert len(bases) * len(wishes) > 1000


def _kinds(division: frozenset[Placed]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(Counter(place.profile for place in division).items()))


DIVISIONS = list(states(A100))


@given(st.sampled_from(DIVISIONS), st.data())
def test_of_what_is_idle_the_most_is_kept(division: frozenset[Placed], data: st.DataObject) -> None:
    used = data.draw(st.frozensets(st.sampled_from(sorted(division)))) if division else frozenset()
    wish = Counter(place.profile for place in data.draw(st.sampled_from(DIVISIONS)))
    there = [Instance(place, used="somebody" if place in used else None) for place in division]
    try:
        made = plan(A100, there, wish)
    except Conflict as refused:
        ended = str(refused).count("used by")
        assert not any(_fits(used - set(gone), wish) for size in range(ended) for gone in combinations(used, size))
        return
    after = {one.place for one in made.keep} | set(made.create)
    assert frozenset(after) in set(DIVISIONS)
    assert used <= after
    assert not {one.place for one in made.destroy} & used
    lacking = wish - Counter(place.profile for place in used)
    fewest = min(
        len(division - used - other)
        for other in DIVISIONS
        if used <= other and Counter(place.profile for place in other - used) == lacking
    )
    assert len(made.destroy) == fewest


def _fits(used: frozenset[Placed], wish: Counter[str]) -> bool:
    lacking = wish - Counter(place.profile for place in used)
    return any(used <= other and Counter(place.profile for place in other - used) == lacking for other in DIVISIONS)
