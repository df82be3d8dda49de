"""Rolling upgrades of apps that are well, over any order of what may happen meanwhile.

The simulator comes upon such upgrades too rarely to be relied on for their arithmetic.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mesos_gpu.marathon.decisions.reversal import groups_before
from mesos_gpu.marathon.model.groups import Group, Root
from mesos_gpu.marathon.model.instances import Phase
from mesos_gpu.marathon.state.actions import Action, Answer, Kill, Launch
from mesos_gpu.marathon.state.events import CancelDeployment, PutGroup, Subscribed, Tick
from mesos_gpu.marathon.state.state import restored
from tests.support.histories import examples
from tests.support.marathon.builders import Run, app, only, status


class Upgrade(Run):
    """An app on agents with room for everything, and its tasks: those that come up, that run, and that are to end."""

    def __init__(self, instances: int, least: float, over: float) -> None:
        super().__init__()
        self.coming: list[str] = []
        self.running: list[str] = []
        self.ending: list[str] = []
        self.instances = instances
        self.least = math.ceil(round(instances * least, 6))
        most = math.floor(round(instances * (1 + over), 6))
        # Where not one may be missing and not one too many there would be no way on.
        self.most = most + (most == self.least)
        self.subscribe()
        strategy = {"minimumHealthCapacity": least, "maximumOverCapacity": over}
        self.put(app(instances=instances, upgradeStrategy=strategy))
        self.settle()
        assert len(self.running) == instances

    @property
    def well(self) -> int:
        """Instances that run and are to go on."""
        return sum(
            i.phase is Phase.RUNNING and i.task is not None and i.task.id not in self.state.kills
            for i in self.state.instances_of("/a")
        )

    def take(self, actions: list[Action]) -> None:
        for launch in only(actions, Launch):
            self.coming += launch.task_ids
        for kill in only(actions, Kill):
            if kill.task_id in self.running:
                self.running.remove(kill.task_id)
                self.ending.append(kill.task_id)

    def happen(self, what: str) -> None:
        """Let something happen, and see that no more is started and no more is ended than may be."""
        before, well = {i.id for i in self.state.instances_of("/a")}, self.well
        actions: list[Action] = []
        if what == "offer":
            actions = self.offer(cpus=100)
        elif what == "run" and self.coming:
            task_id = self.coming.pop(0)
            self.running.append(task_id)
            actions = self.do(status(task_id))
        elif what == "end" and self.ending:
            actions = self.do(status(self.ending.pop(0), "TASK_KILLED"))
        elif what == "fail" and self.running:
            well -= 1
            actions = self.do(status(self.running.pop(), "TASK_FAILED"))
        elif what == "late":
            actions = self.do(Tick(), after_s=31)
        elif what == "crash":
            self.state = restored(self.state.lasting)
            actions = self.do(Subscribed("F", "m", again=True))
        elif what == "change":
            actions = self.put({"id": "/a", "env": {"AT": str(self.now_s)}}, force=True)
        self.take(actions)
        mine = self.state.instances_of("/a")
        if {i.id for i in mine} - before:
            assert sum(i.wanted or i.active for i in mine) <= self.most
        if only(actions, Kill):
            assert self.well >= min(self.least, well)

    def settle(self) -> None:
        for _ in range(8 * self.instances + 8):
            for what in ("late", "offer", *["run"] * len(self.coming), *["end"] * len(self.ending)):
                self.happen(what)


# What an agent says of a crash's tasks would come by itself; here the answers to the questions are left out.
EVENTS = st.sampled_from(["offer", "offer", "run", "run", "end", "end", "fail", "late", "crash", "change"])


@settings(max_examples=examples(120))
@given(
    instances=st.integers(1, 5),
    least=st.sampled_from([0, 0.3, 0.5, 0.7, 1]),
    over=st.sampled_from([0, 0.34, 0.5, 1]),
    events=st.lists(EVENTS, max_size=25),
)
def test_an_upgrade_keeps_to_its_capacity_whatever_happens_and_ends(
    instances: int, least: float, over: float, events: list[str]
) -> None:
    run = Upgrade(instances, least, over)
    for what in ["change", *events]:
        run.happen(what)
    run.settle()
    assert not run.state.lasting.deployments
    spec = run.state.app("/a")
    assert spec is not None
    assert [i.version for i in run.state.instances_of("/a")] == [spec.version] * instances
    assert len(run.running) == instances


@pytest.mark.parametrize(
    ("instances", "least", "over", "killed", "started"),
    [
        (10, 1, 1, 0, 10),
        (10, 0.5, 0, 5, 0),
        (10, 1, 0, 0, 1),
        (1, 0, 0, 1, 0),
        (3, 0.7, 0.34, 0, 1),
        (4, 0.5, 0.5, 2, 2),
    ],
)
def test_the_first_step_is_that_of_the_table(
    instances: int, least: float, over: float, killed: int, started: int
) -> None:
    run = Upgrade(instances, least, over)
    run.happen("change")
    assert (len(run.ending), len(run.state.waiting)) == (killed, started)


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


def test_a_group_that_was_added_and_removed_since_stays_removed() -> None:
    after = Root("2", {"/b": Group("/b")})
    assert groups_before(_deployment("2"), (after, Root("1", {})), {}, ()) == {}


def test_a_deployment_whose_tree_is_forgotten_changes_no_groups() -> None:
    now = {"/a": Group("/a")}
    assert groups_before(_deployment("gone"), (Root("2"),), now, ()) == now


def _deployment(version: str) -> Any:
    from mesos_gpu.marathon.model.deployment import Deployment

    return Deployment("d", version, (), {}, {})
