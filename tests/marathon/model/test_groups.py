"""The tree of groups, pure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import InvalidApp
from mesos_gpu.marathon.model.deployment import plan
from mesos_gpu.marathon.model.groups import Group, all_groups, ancestors, conflicts, depths, enforced, needs, within
from tests.support.golden import Golden
from tests.support.marathon.builders import spec

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
