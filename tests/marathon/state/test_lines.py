"""Lines of those that ask for the same: who is next of all, and who is passed over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.marathon.state.lines import Lines
from mesos_gpu.marathon.state.turns import Turn
from tests.support.golden import Golden

TURNS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.integers(0, 99)),
    unique_by=lambda each: each[2],
    max_size=20,
)


def lines_of(asked: list[tuple[str, int, int]]) -> Lines:
    lines = Lines()
    for kind, since_s, number in asked:
        lines = lines.with_turn(kind, (float(since_s), str(number)))
    return lines


@given(TURNS, st.sets(st.sampled_from("abc")))
def test_all_are_next_in_the_order_of_waiting_but_those_behind_one_without_a_place(
    asked: list[tuple[str, int, int]], unfit: set[str]
) -> None:
    kinds = {str(number): kind for kind, _, number in asked}
    order = sorted((float(since_s), str(number)) for _, since_s, number in asked)
    wanted: list[Turn] = []
    for turn in order:
        if kinds[turn[1]] not in {kinds[key] for _, key in wanted} & unfit:
            wanted.append(turn)
    turns = lines_of(asked).in_turn()
    found = [first] if (first := next(turns, None)) is not None else []
    while found:
        try:
            found.append(turns.send(kinds[found[-1][1]] not in unfit))
        except StopIteration:
            break
    assert found == wanted


@given(TURNS)
def test_who_leaves_is_gone_and_an_empty_line_too(asked: list[tuple[str, int, int]]) -> None:
    lines = lines_of(asked)
    for kind, since_s, number in asked:
        lines = lines.without(kind, (float(since_s), str(number)))
    assert lines == Lines()


def test_who_does_not_stand_in_a_line_cannot_leave_it(golden: Golden) -> None:
    with pytest.raises(ValueError) as refused:
        lines_of([("a", 1, 2)]).without("a", (1.0, "3"))
    assert str(refused.value) == golden


def test_who_came_last_is_last_of_all_lines() -> None:
    assert lines_of([("a", 1, 2), ("b", 3, 1), ("a", 2, 9)]).last == (3.0, "1")
