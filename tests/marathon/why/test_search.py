"""The search for the smallest change, on ways that are numbers."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest

from mesos_gpu.marathon.why.change import Change, Step
from mesos_gpu.marathon.why.search import smallest_of

STEPS = (Step("lower", "", part=Fraction(1, 2)), Step("end", ""), Step("add", "", value=1))
GAINS = {"lower": 1, "end": 2, "add": 9}


class Number:
    """A way that starts from 3 on; `refused` is a kind of step that nothing comes of."""

    def __init__(self, value: int = 0, steps: tuple[Step, ...] = (), refused: str = "") -> None:
        self.value, self.steps, self.refused = value, steps, refused

    @property
    def starts(self) -> bool:
        return self.value >= 3

    @property
    def change(self) -> Change:
        return Change(self.steps, "")

    def following(self) -> Iterator[tuple[tuple[Any, ...], Step]]:
        for step in STEPS:
            yield Change((*self.steps, step), "").order, step

    def after(self, step: Step) -> Number | None:
        if step.kind == self.refused:
            return None
        return Number(self.value + GAINS[step.kind], (*self.steps, step), self.refused)


def kinds(change: Change | None) -> list[str] | None:
    return None if change is None else [step.kind for step in change.steps]


@pytest.mark.parametrize(
    ("refused", "found"),
    [("", ["end", "lower"]), ("end", ["lower", "lower", "lower"]), ("lower", ["end", "end"])],
)
def test_the_smallest_change_that_starts_is_found(refused: str, found: list[str]) -> None:
    change = smallest_of([Number(refused=refused)], 1000)
    assert sorted(kinds(change) or ()) == found


def test_a_way_that_starts_needs_no_step() -> None:
    assert kinds(smallest_of([Number(), Number(3)], 10)) == []


def test_when_the_tries_are_used_up_nothing_more_is_looked_at() -> None:
    assert smallest_of([Number()], 2) is None
    assert smallest_of([], 10) is None
