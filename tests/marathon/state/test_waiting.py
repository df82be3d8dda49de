"""What waits: in order, and never more work than what an event changes."""

from __future__ import annotations

from bisect import insort

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.marathon.model.instances import Instance
from mesos_gpu.marathon.state import asked
from mesos_gpu.marathon.state import turns as turns_module
from mesos_gpu.marathon.state.asked import Asked
from mesos_gpu.marathon.state.lines import Lines
from mesos_gpu.marathon.state.turns import Line, Turn, Turns
from mesos_gpu.marathon.state.waiting import Waiting
from mesos_gpu.mesos.ids import Role, TaskId
from tests.support.golden import Golden

turn = st.tuples(st.integers(0, 6).map(float), st.sampled_from("abcdef"))


@given(st.lists(turn, max_size=12), st.lists(st.tuples(st.booleans(), turn), max_size=40), st.integers(1, 4))
def test_turns_are_a_sorted_list_that_never_changes(
    first: list[tuple[float, str]], steps: list[tuple[bool, tuple[float, str]]], block: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turns_module, "_BLOCK", block)
        made, expected = Turns(first), sorted(set(first))
        for comes, each in steps:
            before, was = made, list(made)
            made = made.added(each) if comes else made.without(each)
            if comes and each not in expected:
                insort(expected, each)
            elif not comes and each in expected:
                expected.remove(each)
            else:
                assert made is before
            assert (list(made), len(made)) == (expected, len(expected))
            assert list(before) == was
            if expected:
                assert made.first == expected[0]


def test_a_change_of_thousands_shares_all_but_a_small_part() -> None:
    many = Turns((float(n), f"i{n}") for n in range(20_000))
    changed = many.without((9_000.0, "i9000"))
    assert len(set(map(id, changed._blocks)) - set(map(id, many._blocks))) == 1


def test_a_line_goes_on_as_some_leave() -> None:
    line = Line(Turns([(1.0, "a"), (2.0, "b"), (3.0, "c")]))
    line.leave("b")
    assert (line.first, list(line), len(line)) == ("a", ["a", "c"], 2)
    line.leave("a")
    assert (line.first, bool(line)) == ("c", True)
    line.leave("c")
    assert not line
    with pytest.raises(IndexError):
        line.first  # noqa: B018 - it is a property


def instance(key: str, app_id: str, since_s: float) -> Instance:
    return Instance(key, app_id, "v", Role("*"), since_s)


moves = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 9), st.integers(0, 4)), st.tuples(st.just("drop"), st.integers(0, 9))
)


@given(st.lists(st.tuples(st.booleans(), st.lists(moves, max_size=8)), max_size=8))
def test_the_order_of_what_waits_is_that_of_sorting_it(events: list[tuple[bool, list[tuple[object, ...]]]]) -> None:
    closed = Waiting()
    known: dict[str, Instance] = {}
    for kept, steps in events:
        table, now = closed.opened(), dict(known)
        for step in steps:
            number = int(str(step[1]))
            key, app_id = f"i{number}", f"/{number % 3}"
            if step[0] == "add":
                now[key] = instance(key, app_id, float(str(step[2])))
                table.add(now[key])
            else:
                now.pop(key, None)
                table.drop(key)
            _same(table, now)
        _same(closed, known)
        after = table.closed()
        if kept:  # else the event was refused, and nothing has happened
            closed, known = after, now
    _same(closed, known)
    _same(Waiting.of(list(known.values())), known)


def _same(table: Waiting, known: dict[str, Instance]) -> None:
    order = sorted((i.since_s, i.id) for i in known.values())
    apps = list(dict.fromkeys(known[key].app_id for _, key in order))
    assert list(table.order) == order
    assert list(table.apps()) == apps
    assert [key for _, key in table.heads] == [
        next(key for _, key in order if known[key].app_id == app_id) for app_id in apps
    ]
    for app_id in ("/0", "/1", "/2"):
        assert list(table.line(app_id)) == [each for each in order if known[each[1]].app_id == app_id]
        assert table.has_app(app_id) == (app_id in apps)


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


IDS = st.sets(st.sampled_from("abcdefgh").map(TaskId))


@given(first=IDS, steps=st.lists(st.tuples(IDS, IDS), max_size=8), few=st.integers(0, 6))
def test_they_are_the_set_of_them(first: set[TaskId], steps: list[tuple[set[TaskId], set[TaskId]]], few: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asked, "_FEW", few)
        ids, expected = Asked(first), frozenset(first)
        for gone, added in steps:
            before = ids
            ids = ids.after(gone, added)
            assert before == expected, "it never changes"
            expected = expected - gone | added
            assert (ids, set(ids), len(ids)) == (expected, expected, len(expected))
            assert all((key in ids) == (key in expected) for key in "abcdefgh")
            assert (added <= ids, hash(ids) == hash(Asked(expected))) == (True, True)
            assert Asked(ids & {"a", "b"} | gone) == expected & {"a", "b"} | gone
