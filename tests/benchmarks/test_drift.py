"""Which ratios have moved by more than a quarter."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.kept import drift
from benchmarks.kept.figures import Better, Figure


def one(ratio: float, better: Better = "less", key: str = "a") -> Figure:
    return Figure(key, "what it is", 1.0, ratio=ratio, better=better)


positive = st.floats(1e-6, 1e6)


def test_a_quarter_is_as_much_up_as_down() -> None:
    assert [drift.moved({"a": 1.0}, [one(ratio)]) == [] for ratio in (1.25, 1.26, 0.8, 0.79)] == [True, False] * 2


def test_more_of_what_is_to_be_less_is_worse() -> None:
    worse = [
        drift.moved({"a": 1.0}, [one(ratio, better)])[0].worse
        for ratio, better in ((2.0, "less"), (0.5, "less"), (2.0, "more"), (0.5, "more"))
    ]
    assert worse == [True, False, False, True]


@given(positive, positive)
def test_what_is_worse_one_way_is_better_the_other_way(was: float, now: float) -> None:
    there, back = drift.moved({"a": was}, [one(now)]), drift.moved({"a": now}, [one(was)])
    assert [not moved.worse for moved in there] == [moved.worse for moved in back]


def test_only_what_moved_the_same_way_twice_is_told() -> None:
    kept = {"up": 1.0, "once": 1.0, "about": 1.0}
    first = drift.moved(kept, [one(2.0, key="up"), one(2.0, key="once"), one(2.0, key="about")])
    second = drift.moved(kept, [one(3.0, key="up"), one(1.0, key="once"), one(0.5, key="about")])
    assert [moved.sentence() for moved in drift.both(first, second)] == ["worse: up (what it is): ratio 1 -> 3"]


def test_what_has_no_ratio_or_was_not_kept_has_not_moved() -> None:
    new, plain = one(9.0, key="new"), Figure("plain", "no ratio", 7.0)
    assert drift.moved({"plain": 1.0, "gone": 1.0}, [new, plain]) == []
    assert drift.not_kept({"gone": 1.0}, [new, plain]) == ["new"]
    assert drift.not_measured({"plain": 1.0, "gone": 1.0}, [new, plain]) == ["gone", "plain"]
