"""Which instances each app has; and that thousands of them come and go in a time that grows no faster than they do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import InvalidApp
from mesos_gpu.marathon.decisions.requests import MAX_INSTANCES
from mesos_gpu.marathon.state.events import PutGroup, RemoveApp
from mesos_gpu.marathon.state.members import Members
from tests.support.golden import Golden
from tests.support.marathon.builders import Run, app

NAMES = st.sampled_from(["a", "b", "c"])


@given(
    st.dictionaries(NAMES, st.frozensets(NAMES, min_size=1)), st.lists(st.tuples(st.sampled_from("+-"), NAMES, NAMES))
)
def test_members_are_sets_that_leave_what_they_began_with_as_it_was(
    base: dict[str, frozenset[str]], steps: list[tuple[str, str, str]]
) -> None:
    before, members = dict(base), Members(base).opened()
    expected = {app_id: set(ids) for app_id, ids in base.items()}
    for sign, app_id, instance_id in steps:
        mine = expected.setdefault(app_id, set())
        if sign == "+":
            members.add(app_id, instance_id)
            mine.add(instance_id)
        else:
            members.discard(app_id, instance_id)
            mine.discard(instance_id)
        assert set(members.of(app_id)) == mine
    assert dict(members.closed()) == {app_id: ids for app_id, ids in expected.items() if ids}
    assert base == before


def calls(work: Callable[[], Any]) -> int:
    """Return how many functions are called: a measure of work that no other process disturbs."""
    count = 0

    def note(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def test_ten_times_as_many_instances_are_ten_times_the_work() -> None:
    def life(count: int) -> list[int]:
        run = Run()
        run.subscribe()
        return [
            calls(lambda: run.put(app(instances=count, cpus=1000))),
            calls(lambda: run.put({"id": "/a", "labels": {"a": "b"}}, force=True)),
            calls(lambda: run.do(RemoveApp("/a", "d"), after_s=1)),
        ]

    for few, many in zip(life(100), life(1000), strict=True):
        assert many < 13 * few


def test_a_slip_of_the_keyboard_is_refused(golden: Golden) -> None:
    run = Run()
    with pytest.raises(InvalidApp) as refused:
        run.put(app(instances=MAX_INSTANCES + 1))
    assert str(refused.value) == golden
    run.put(app("/g/a", instances=2))
    before = run.state
    with pytest.raises(InvalidApp) as refused:
        run.do(PutGroup("/g", {"scaleBy": 1e300}, "d", force=True))
    assert [problem.path for problem in refused.value.problems] == ["/instances"]
    assert run.state is before
