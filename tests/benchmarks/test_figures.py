"""Figures of benchmarks: what is kept of them, and whether they are what they are to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.kept import figure
from benchmarks.kept.figures import FILE_VARIABLE, Figure, from_json, read_figures


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
