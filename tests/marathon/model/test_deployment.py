"""Plans, and the arithmetic of rolling restarts."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mesos_gpu.errors import InvalidApp
from mesos_gpu.marathon.definitions.runspec import RunSpec, restarted, versioned
from mesos_gpu.marathon.model.backoff import after_failure, ready_at
from mesos_gpu.marathon.model.deployment import Counts, Rolling, Work, plan, rolling
from mesos_gpu.marathon.model.groups import Group, all_groups, ancestors, conflicts, depths, enforced, needs, within
from mesos_gpu.marathon.model.instances import NEXT_PHASE, Cause, IllegalTransition, Instance, Phase, cause_of, moved
from mesos_gpu.marathon.model.launch_tokens import LaunchTokens
from mesos_gpu.marathon.model.task_ids import app_of, instance_of, new_instance_id
from tests.support.golden import Golden
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


NAMES = [f"/a{n}" for n in range(6)]


def test_who_is_in_whom() -> None:
    assert within("/a/b/c", "/a")
    assert within("/a", "/")
    assert not within("/ab", "/a")
    assert not within("/a", "/a")
    assert ancestors("/a/b/c") == ("/a/b", "/a")
    assert ancestors("/a") == ()


def test_ids_imply_their_groups_and_what_was_said_stays() -> None:
    said = {"/x": Group("/x", enforce_role=True), "/y/z": Group("/y/z")}
    assert set(all_groups(said, ["/a/b/c", "/d"])) == {"/x", "/y", "/y/z", "/a", "/a/b"}
    assert enforced(all_groups(said, [])) == {"x"}


def test_an_app_and_a_group_do_not_share_an_id(golden: Golden) -> None:
    (problem,) = conflicts(["/a", "/b"], {"/a": Group("/a")})
    assert problem.code == golden


def test_a_group_that_is_named_stands_for_all_in_it() -> None:
    apps = {s.id: s for s in (spec("/db/one"), spec("/db/deep/two"), spec("/web/x"), spec("/other"))}
    groups = all_groups({"/web": Group("/web", dependencies=("/db", "/nowhere"))}, apps)
    assert needs(apps, groups) == {"/web/x": {"/db/one", "/db/deep/two"}}


@given(st.sets(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=12))
def test_depths_put_everyone_after_those_it_waits_for_or_name_a_circle(edges: set[tuple[str, str]]) -> None:
    apps = {name: spec(name, dependencies=[b for a, b in edges if a == name]) for name in NAMES}
    waits = needs(apps, {})
    try:
        found = depths(apps, {})
    except InvalidApp as error:
        circle = {name for name in NAMES if name in str(error)}
        assert circle, "somebody is named"
        assert all(waits.get(name, frozenset()) & circle for name in circle), "each waits for another of them"
        return
    for app_id, others in waits.items():
        assert all(found[app_id] > found.get(other, 0) for other in others)


def test_a_long_chain_is_no_trouble() -> None:
    apps = {f"/a{n}": spec(f"/a{n}", dependencies=[f"/a{n - 1}"] if n else []) for n in range(1200)}
    assert depths(apps, {})["/a1199"] == 1199


def test_a_plan_goes_by_depth_and_stops_come_first() -> None:
    old = {"/gone": spec("/gone"), "/db": None, "/web": spec("/web")}
    new = {"/gone": None, "/db": spec("/db"), "/web": spec("/web", mem=64)}
    steps = plan("d", "v", old, new, depths={"/web": 1}).steps
    assert [[(work.value, app) for work, app in step.actions] for step in steps] == [
        [("StopApplication", "/gone")],
        [("StartApplication", "/db")],
        [("ScaleApplication", "/db")],
        [("RestartApplication", "/web")],
    ]


@pytest.mark.parametrize("ids", [("/a", "/b"), ("/a/b", "/a/c")])
def test_who_waits_for_itself_waits_for_ever(ids: tuple[str, str]) -> None:
    one, other = ids
    with pytest.raises(InvalidApp, match="cyclic"):
        depths({one: spec(one, dependencies=[other]), other: spec(other, dependencies=[one])}, {})


def test_delays_grow_by_the_factor_from_one_second() -> None:
    known, delays = None, []
    for n in range(3):
        known = after_failure(known, spec(), 100.0 + n)
        delays.append(known.delay_s)
    assert delays == pytest.approx([1, 1.15, 1.3225])


def test_the_longest_delay_is_reached_after_about_42_failures() -> None:
    known, count, waited = after_failure(None, spec(), 0.0), 1, 0.0
    while known.delay_s < 300:
        waited += known.delay_s
        known = after_failure(known, spec(), known.until_s)
        count += 1
    assert 41 <= count <= 43
    assert 30 * 60 < waited < 38 * 60


def test_the_longest_delay_caps_the_first_one() -> None:
    known = after_failure(None, spec(backoffSeconds=60, maxLaunchDelaySeconds=10), 0.0)
    assert known.delay_s == 10


def test_a_sign_of_life_counts_the_same_delay_anew() -> None:
    known = after_failure(None, spec(), 0.0).advanced(50.0)
    assert (known.delay_s, known.until_s) == (1.0, 51.0)


def test_an_app_that_lived_long_enough_starts_from_the_first_delay() -> None:
    known = after_failure(after_failure(None, spec(), 0.0), spec(), 1.0)
    assert not known.forgotten(301.0)
    assert known.forgotten(301.1)
    assert after_failure(known, spec(), 302.0).delay_s == 1.0


def test_another_configuration_does_not_wait() -> None:
    old, new = spec(), spec(version="2024-01-01T00:00:00.000Z")
    known = after_failure(None, old, 100.0)
    assert ready_at(known, old) == 101.0
    assert ready_at(known, new) == 0.0
    assert ready_at(None, old) == 0.0
    assert after_failure(known, new, 100.5).delay_s == 1.0


@given(st.lists(st.sampled_from(["take", "return", "wait"]), max_size=40), st.integers(1, 5))
def test_there_are_never_more_tokens_than_allowed_nor_fewer_than_none(steps: list[str], most: int) -> None:
    tokens, now_s = LaunchTokens(), 100.0
    for step in steps:
        now_s += 31 if step == "wait" else 1
        tokens = tokens.at(now_s, most=most, interval_s=30)
        tokens = {"take": tokens.taken(1), "return": tokens.returned(most=most), "wait": tokens}[step]
        assert 0 <= tokens.left <= most
        assert tokens.refresh_s > now_s
        if step == "wait":
            assert tokens.left == most


UUID = "9f3a1c1e-0b6e-5c7a-9d3f-0a1b2c3d4e5f"
INSTANCE = Instance(f"a.instance-{UUID}", "/a", "v", "*", 1.0)


@pytest.mark.parametrize(("phase", "cause"), list(product(Phase, Cause)))
def test_each_pair_of_phase_and_cause_is_in_the_table_or_illegal(phase: Phase, cause: Cause) -> None:
    instance = replace(INSTANCE, phase=phase)
    if (phase, cause) in NEXT_PHASE:
        assert moved(instance, cause, 5.0).phase is NEXT_PHASE[phase, cause]
    else:
        with pytest.raises(IllegalTransition, match=phase.value):
            moved(instance, cause, 5.0)


def test_an_active_instance_takes_every_news_of_its_task() -> None:
    news = [cause for cause in Cause if cause.name.startswith("TASK_")]
    active = [phase for phase in Phase if phase not in (Phase.SCHEDULED, Phase.ENDED)]
    assert all((phase, cause) in NEXT_PHASE for phase in active for cause in news)


def test_late_news_never_takes_an_instance_back() -> None:
    order = [Phase.PROVISIONED, Phase.STAGING, Phase.STARTING, Phase.RUNNING, Phase.KILLING]
    for (phase, cause), then in NEXT_PHASE.items():
        if phase in order and then in order and cause is not Cause.LAUNCHED:
            assert order.index(then) >= order.index(phase)


def test_an_instance_remembers_since_when_it_is_in_its_phase() -> None:
    launched = moved(INSTANCE, Cause.LAUNCHED, 5.0)
    assert launched.since_s == 5.0
    running = moved(launched, Cause.TASK_RUNNING, 6.0)
    assert moved(running, Cause.TASK_RUNNING, 7.0).since_s == 6.0


def test_ids_lead_back_to_app_and_instance() -> None:
    instance_id = new_instance_id("/prod/web", UUID)
    assert instance_id == f"prod_web.instance-{UUID}"
    task_id = Instance(instance_id, "/prod/web", "v", "*", 1.0).next_task_id
    assert task_id == f"{instance_id}._app.1"
    assert instance_of(task_id) == instance_id
    assert app_of(task_id) == "/prod/web"


@pytest.mark.parametrize("task_id", ["", "x", "never-was", "a.instance-1", f"a.instance-{UUID}", "a.1234._app.1"])
def test_ids_of_others_are_not_taken_for_ours(task_id: str) -> None:
    assert instance_of(task_id) is None


@pytest.mark.parametrize(
    ("state", "reason", "cause"),
    [
        ("TASK_STAGING", None, Cause.TASK_STAGING),
        ("TASK_STARTING", None, Cause.TASK_STARTING),
        ("TASK_RUNNING", None, Cause.TASK_RUNNING),
        ("TASK_KILLING", None, Cause.TASK_KILLING),
        ("TASK_UNREACHABLE", None, Cause.TASK_UNREACHABLE),
        ("TASK_UNKNOWN", None, Cause.TASK_ENDED),
        ("TASK_FINISHED", None, Cause.TASK_ENDED),
        ("TASK_GONE_BY_OPERATOR", None, Cause.TASK_ENDED),
        ("TASK_LOST", "REASON_INVALID_OFFERS", Cause.TASK_ENDED),
        ("TASK_LOST", "REASON_RECONCILIATION", Cause.TASK_UNREACHABLE),
        ("TASK_LOST", "REASON_SLAVE_REMOVED", Cause.TASK_UNREACHABLE),
    ],
)
def test_task_states_mean_causes(state: str, reason: str | None, cause: Cause) -> None:
    assert cause_of(state, reason) is cause


def test_a_state_that_mesos_has_not_is_refused() -> None:
    with pytest.raises(IllegalTransition, match="TASK_DANCING"):
        cause_of("TASK_DANCING", None)
