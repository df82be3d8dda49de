"""Plans, and the arithmetic of rolling restarts."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.marathon.definitions.runspec import RunSpec, restarted, versioned
from mesos_gpu.marathon.model.deployment import Counts, Rolling, Work, plan, rolling
from tests.support.marathon.builders import spec

V1 = "2024-01-01T00:00:00.000Z"


def changed(before: RunSpec, **changes: Any) -> RunSpec:
    return versioned({**before.definition, **changes}, V1, before)


def works(original: RunSpec | None, target: RunSpec | None, *, restart: bool = False) -> list[list[str]]:
    steps = plan("d", V1, {"/a": original}, {"/a": target}, restart=restart).steps
    return [[work.value for work, _ in step.actions] for step in steps]


def test_a_new_app_is_started_then_scaled() -> None:
    assert works(None, spec()) == [["StartApplication"], ["ScaleApplication"]]


def test_an_app_that_goes_is_stopped() -> None:
    assert works(spec(), None) == [["StopApplication"]]


def test_a_change_of_instances_alone_scales() -> None:
    assert works(spec(), changed(spec(), instances=3)) == [["ScaleApplication"]]


@pytest.mark.parametrize("change", [{"labels": {"a": "b"}}, {"gpus": 1}, {"cmd": "true"}, {"instances": 2, "mem": 64}])
def test_any_other_change_restarts(change: dict[str, Any]) -> None:
    assert works(spec(), changed(spec(), **change)) == [["RestartApplication"]]


def test_a_forced_restart_restarts() -> None:
    assert works(spec(), restarted(spec(), V1), restart=True) == [["RestartApplication"]]


def test_a_change_to_no_instances_scales() -> None:
    assert works(spec(), changed(spec(), instances=0, mem=64)) == [["ScaleApplication"]]


def test_a_change_of_nothing_has_no_steps() -> None:
    deployment = plan("d", V1, {"/a": spec()}, {"/a": spec()})
    assert deployment.steps == ()
    assert deployment.finished
    assert deployment.apps == ("/a",)


def test_stops_come_before_starts_before_changes() -> None:
    original = {"/a": spec("/a"), "/b": None, "/c": spec("/c")}
    target = {"/a": None, "/b": spec("/b"), "/c": changed(spec("/c"), mem=64)}
    deployment = plan("d", V1, original, target)
    assert [step.actions for step in deployment.steps] == [
        ((Work.STOP, "/a"),),
        ((Work.START, "/b"),),
        ((Work.SCALE, "/b"), (Work.RESTART, "/c")),
    ]


def strategy(n: int, minimum: float, over: float) -> RunSpec:
    return spec(
        instances=n,
        upgradeStrategy={"minimumHealthCapacity": minimum, "maximumOverCapacity": over},
    )


@pytest.mark.parametrize(
    ("n", "minimum", "over", "kill", "start"),
    [
        (10, 1, 1, 0, 10),
        (10, 0.5, 0, 5, 0),
        (10, 1, 0, 0, 1),
        (1, 0, 0, 1, 0),
        (1, 1, 0, 0, 1),
        (3, 0.7, 0.34, 0, 1),
        (4, 0.5, 0.5, 2, 2),
    ],
)
def test_the_first_move_when_all_are_healthy(n: int, minimum: float, over: float, kill: int, start: int) -> None:
    counts = Counts(old=n, old_healthy=n, old_active=n, new=0, new_healthy=0)
    assert rolling(strategy(n, minimum, over), counts) == Rolling(kill, start)


def test_residents_never_go_over_but_below() -> None:
    counts = Counts(old=1, old_healthy=1, old_active=1, new=0, new_healthy=0)
    assert rolling(strategy(1, 1, 0), counts, resident=True) == Rolling(kill=1, start=0)


def test_a_restart_with_fewer_instances_ends_the_surplus_at_once() -> None:
    counts = Counts(old=5, old_healthy=5, old_active=5, new=0, new_healthy=0)
    assert rolling(strategy(2, 1, 0), counts) == Rolling(kill=3, start=0)


@pytest.mark.parametrize(("ready", "kill"), [(0, 0), (1, 1), (2, 2)])
def test_each_new_one_that_is_well_lets_an_old_one_go_that_is_not(ready: int, kill: int) -> None:
    counts = Counts(old=2, old_healthy=0, old_active=2, new=2, new_healthy=ready)
    assert rolling(strategy(2, 1, 1), counts) == Rolling(kill, start=0)


@given(
    st.integers(1, 12),
    st.integers(0, 12),
    st.floats(0, 1, allow_nan=False),
    st.floats(0, 1, allow_nan=False),
    st.integers(0, 12),
    st.data(),
)
def test_a_rolling_restart_ends_and_keeps_its_promises(
    n: int, before: int, minimum: float, over: float, sick: int, data: st.DataObject
) -> None:
    """Instances that were asked to end, and new ones, come along in any order; the promises hold at each move.

    Some of the old ones are sick, where there is room for new ones beside them; they go first.
    """
    wanted = strategy(n, minimum, over)
    promised = wanted.document["upgradeStrategy"]
    old, ending, starting, ready = before, 0, 0, 0
    sick = min(sick, before) if math.floor(round(n * (1 + promised["maximumOverCapacity"]), 6)) > n else 0
    most = max(before, n * (1 + promised["maximumOverCapacity"]), n + 1)
    for _ in range(500):
        well = old - sick
        counts = Counts(old=old, old_healthy=well, old_active=old + ending, new=starting + ready, new_healthy=ready)
        move = rolling(wanted, counts)
        assert 0 <= move.kill <= old
        assert old + ending + starting + ready + move.start <= most + 1e-6
        if before <= n and move.kill:
            left = well - max(0, move.kill - sick) + ready
            assert left >= min(well + ready, n * promised["minimumHealthCapacity"] - 1e-6)
        sick -= min(sick, move.kill)
        old, ending, starting = old - move.kill, ending + move.kill, starting + move.start
        if (old, ending, ready) == (0, 0, n):
            return
        can = [name for name, count in (("ends", ending), ("runs", starting)) if count]
        assert can, "nothing can happen any more, and it is not done"
        if data.draw(st.sampled_from(can)) == "ends":
            ending -= 1
        else:
            starting, ready = starting - 1, ready + 1
    raise AssertionError("it does not end")
