"""Figures of benchmarks: what is kept of them, and whether they are what they are to be."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.kept import drift, figure
from benchmarks.kept.figures import FILE_VARIABLE, Better, Figure, from_json, read_figures


def test_figures_go_to_the_file_that_the_environment_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "figures"
    monkeypatch.setenv(FILE_VARIABLE, str(file))
    made = [
        figure("a", "what a is", 25.4321, "ms", beside=("bare", 26.6), aim=1.15, note="p95 30"),
        figure("b", "what b is", 40.0, better="more", aim=60.0),
    ]
    assert read_figures(file.read_text()) == made
    assert made[0].ratio == 0.9561
    assert (made[0].value, made[0].aim_of, made[1].aim_of) == (25.43, "ratio", "value")


def test_without_such_a_file_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FILE_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    figure("a", "what a is", 1.0)
    assert list(tmp_path.iterdir()) == []


def test_two_figures_of_one_key_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "figures"
    monkeypatch.setenv(FILE_VARIABLE, str(file))
    figure("a", "one", 1.0)
    figure("a", "other", 2.0)
    with pytest.raises(ValueError, match="'a'"):
        read_figures(file.read_text())


@pytest.mark.parametrize(
    ("made", "reached"),
    [
        (Figure("a", "", 30.0, ratio=1.15, aim=1.15), True),
        (Figure("a", "", 30.0, ratio=1.16, aim=1.15), False),
        (Figure("a", "", 30.0, ratio=8.0, aim=8.0, better="more"), True),
        (Figure("a", "", 30.0, ratio=7.9, aim=8.0, better="more"), False),
        (Figure("a", "", 30.0, ratio=7.9, aim=20.0, aim_of="value"), False),
        (Figure("a", "", 20.0, aim=20.0, aim_of="value"), True),
        (Figure("a", "", 20.0, aim=20.0), None),
        (Figure("a", "", 20.0), None),
    ],
)
def test_an_aim_is_of_the_ratio_or_of_the_value(made: Figure, reached: bool | None) -> None:
    assert made.reached() is reached
    assert from_json(made.to_json()) == made


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
