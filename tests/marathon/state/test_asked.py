"""Ids of which few change at an event, of very many: always what a set of them would be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.marathon.state import asked
from mesos_gpu.marathon.state.asked import Asked
from mesos_gpu.mesos.ids import TaskId

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
