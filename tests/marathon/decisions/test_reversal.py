"""What a deployment did to groups is taken back with it."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.marathon.decisions.reversal import groups_before
from mesos_gpu.marathon.model.groups import Group, Root
from mesos_gpu.marathon.state.actions import Answer
from mesos_gpu.marathon.state.events import CancelDeployment, PutGroup
from tests.support.marathon.builders import Run, app, only


@pytest.fixture
def run() -> Run:
    made = Run()
    made.subscribe()
    return made


def put(run: Run, group_id: str, **document: Any) -> str:
    deployment_id = f"d{run.now_s}"
    run.do(PutGroup(group_id, document, deployment_id, force=True), after_s=1)
    return deployment_id


def inner(app_id: str) -> dict[str, Any]:
    return app(app_id, gpus=1)


def groups(run: Run) -> set[str]:
    return set(run.state.lasting.roots[0].groups)


def test_new_groups_go_with_the_deployment_that_made_them(run: Run) -> None:
    put(run, "/old", apps=[])
    made = put(run, "/new", groups=[{"id": "deep", "apps": [inner("web")]}])
    assert groups(run) == {"/old", "/new", "/new/deep"}
    (answer,) = only(run.do(CancelDeployment(made, "back"), after_s=1), Answer)
    assert answer.deployment_id == "back"
    assert run.state.app("/new/deep/web") is None
    assert groups(run) == {"/old"}


def test_a_group_that_others_have_used_meanwhile_stays(run: Run) -> None:
    made = put(run, "/new", apps=[inner("web")])
    run.put(app("/new/other"))
    run.do(CancelDeployment(made, "back"), after_s=1)
    assert run.state.app("/new/web") is None
    assert run.state.app("/new/other") is not None
    assert groups(run) == {"/new"}


def test_a_forced_cancellation_leaves_groups_where_they_are(run: Run) -> None:
    made = put(run, "/new", apps=[inner("web")])
    run.do(CancelDeployment(made, "back", force=True), after_s=1)
    assert groups(run) == {"/new"}


def test_of_dependencies_only_what_the_deployment_changed_is_taken_back() -> None:
    before = Root("1", {"/a": Group("/a", ("/x", "/y"))})
    after = Root("2", {"/a": Group("/a", ("/y", "/z")), "/b": Group("/b", ("/a",))})
    now = {"/a": Group("/a", ("/y", "/z", "/w")), "/b": Group("/b", ("/a", "/c"))}
    found = groups_before(_deployment("2"), (after, before), now, ())
    assert found == {"/a": Group("/a", ("/y", "/w", "/x")), "/b": Group("/b", ("/c",))}


def test_a_group_that_was_removed_comes_back_with_its_dependencies() -> None:
    before, after = Root("1", {"/a": Group("/a", ("/x",))}), Root("2", {})
    assert groups_before(_deployment("2"), (after, before), {}, ()) == before.groups
    made_anew = {"/a": Group("/a", ("/q",))}
    assert groups_before(_deployment("2"), (after, before), made_anew, ())["/a"].dependencies == ("/q", "/x")


def test_a_deployment_whose_tree_is_forgotten_changes_no_groups() -> None:
    now = {"/a": Group("/a")}
    assert groups_before(_deployment("gone"), (Root("2"),), now, ()) == now


def _deployment(version: str) -> Any:
    from mesos_gpu.marathon.model.deployment import Deployment

    return Deployment("d", version, (), {}, {})
