"""Who is told, and who is ended, for having more of a card's memory than its part."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.sharing.memory import Holding, MemoryWatch, Place
from tests.support.golden import Golden

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
