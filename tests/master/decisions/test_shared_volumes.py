"""Shared persistent volumes: offered also while they are in use, held by many tasks, counted once, never lost."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mesos_gpu.errors import BadInput, BadResources, Conflict
from mesos_gpu.master.decisions import launching, operations, subscriptions, updates
from mesos_gpu.master.decisions.offering import offer_resources
from mesos_gpu.master.model.model import Framework, Offer
from mesos_gpu.master.state.actions import Action, RunTask, RunTaskGroup
from mesos_gpu.master.views.metrics import snapshot
from mesos_gpu.master.views.views import roles_view, state_view
from mesos_gpu.mesos.conversions import applied, conversions
from mesos_gpu.mesos.resource import Document, Resource
from mesos_gpu.mesos.resources import Resources, validate
from tests.support.histories import examples
from tests.support.master.build import NOW, add_framework, check_books, events, later, resources_of, status, task_info
from tests.support.master.operations import CAPABLE, ROLE, World, dynamic, operation, volume

CAN = "RESERVATION_REFINEMENT SHARED_RESOURCES"
SMALL = "cpus:0.1;mem:32"


def shared(size: float = 64.0, name: str = "vol-1", **more: Any) -> Document:
    return volume(size, name, shared={}, **more)


def one(document: Document) -> Resources:
    return Resources.from_json([document])


class Shared(World):
    """A master with an agent and two frameworks of the role; the first has made a shared volume of 64 MB of disk."""

    def __init__(self) -> None:
        super().__init__(CAPABLE, CAN)
        self.accept(operation("RESERVE", dynamic("disk", 128), name=None), operation("CREATE", shared(), name=None))
        (self.volume,) = self.agent.total.shared()
        self.other: Framework = add_framework(
            self.state, "other", capabilities=f"GPU_RESOURCES MULTI_ROLE {CAN}", roles=[ROLE]
        )

    def offered_to(self, framework: Framework) -> Offer:
        """All that is free goes to one framework."""
        self.take_back(self.framework, self.other)
        for other in (self.framework, self.other):
            turn = subscriptions.revive if other is framework else subscriptions.suppress
            turn(self.state, other, [])
        offer_resources(self.state, NOW)
        (offer,) = framework.offers.values()
        return offer

    def take_back(self, *frameworks: Framework) -> None:
        for framework in frameworks:
            for offer in list(framework.offers.values()):
                self.state.drop_offer(offer)

    def task(self, name: str, *resources: Document) -> Document:
        return {**task_info(self.agent, name), "resources": [*resources_of(SMALL), *resources]}

    def accept_for(self, framework: Framework, *asked: Document) -> list[Action]:
        body = {"offer_ids": [{"value": self.offered_to(framework).id}], "operations": list(asked)}
        actions = launching.accept(self.state, framework, {**body, "filters": {"refuse_seconds": 0}}, NOW)
        check_books(self.state)
        return actions

    def launch(self, framework: Framework, *names: str) -> list[Action]:
        tasks = [self.task(name, shared()) for name in names]
        return self.accept_for(framework, {"type": "LAUNCH", "launch": {"task_infos": tasks}})

    def end(self, framework: Framework, name: str) -> None:
        updates.status_update(
            self.state, self.agent.id, framework.id, status(self.agent, name, "TASK_FINISHED"), "TASK_FINISHED"
        )
        check_books(self.state)


@pytest.fixture
def world() -> Shared:
    return Shared()


def refusals(actions: list[Action]) -> list[str]:
    return [event["status"]["message"] for event in events(actions, "UPDATE")]


def test_a_volume_is_offered_while_tasks_of_two_frameworks_use_it(world: Shared) -> None:
    assert [type(action) for action in world.launch(world.framework, "a", "b")] == [RunTask, RunTask]
    assert [type(action) for action in world.launch(world.other, "c")] == [RunTask]
    for framework in (world.framework, world.other):
        (shown,) = [r for r in world.offered_to(framework).document["resources"] if "shared" in r]
        assert shown["disk"]["persistence"]["id"] == "vol-1"
    assert {key: used.shared().single() == used.shared() for key, used in world.agent.used.items()} == {
        world.framework.id: False,
        world.other.id: True,
    }
    world.end(world.framework, "a")
    world.end(world.framework, "b")
    assert world.agent.used_total.shared().unallocated() == one(shared()), "one task still has it"
    world.end(world.other, "c")
    assert world.agent.used_total == Resources()


def test_it_counts_once_wherever_numbers_are_shown(world: Shared) -> None:
    world.launch(world.framework, "a", "b")
    world.launch(world.other, "c")
    world.offered_to(world.other)
    state = world.state
    metrics = snapshot(state, NOW, {})
    assert metrics["master/disk_used"] == 64.0
    assert metrics["allocator/mesos/resources/disk/offered_or_allocated"] == 1000.0, "the rest is offered"
    assert metrics[f"allocator/mesos/quota/roles/{ROLE}/resources/disk/consumed"] == 128.0, "what is reserved"
    shown = state_view(state, {}, {}, None)
    assert shown["slaves"][0]["used_resources"]["disk"] == 64.0
    assert [framework["used_resources"]["disk"] for framework in shown["frameworks"]] == [64.0, 64.0]
    (role,) = [role for role in roles_view(state)["roles"] if role["name"] == ROLE]
    assert (role["allocated"]["disk"], role["resources"]["disk"], role["reserved"]["disk"]) == (64.0, 1000.0, 128.0)
    tree = state.allocator_feed.allocator.tree
    assert tree.held(ROLE)["disk"] == 1_000_000


def test_only_frameworks_that_can_share_are_offered_it(world: Shared) -> None:
    plain = add_framework(
        world.state, "plain", capabilities="GPU_RESOURCES MULTI_ROLE RESERVATION_REFINEMENT", roles=[ROLE]
    )
    world.take_back(world.framework, world.other)
    for framework in (world.framework, world.other):
        framework.suppressed.add(ROLE)
    world.state.allocation_due = True
    offer_resources(world.state, NOW)
    (offer,) = plain.offers.values()
    assert not offer.resources.shared()
    assert offer.resources.milli("disk") == 936_000


def both_hold_offers(world: Shared) -> tuple[Offer, Offer]:
    """What a task frees goes to the other framework while the first has an offer of all else: the volume is in both."""
    world.launch(world.framework, "a")
    offer = world.offered_to(world.framework)
    world.end(world.framework, "a")
    subscriptions.suppress(world.state, world.framework, [])
    subscriptions.revive(world.state, world.other, [])
    offer_resources(world.state, NOW)
    check_books(world.state)
    (other,) = world.other.offers.values()
    return offer, other


def test_two_frameworks_hold_offers_of_it_and_both_use_them(world: Shared) -> None:
    pair = both_hold_offers(world)
    assert [offer.resources.shared().single().milli("disk") for offer in pair] == [64_000, 64_000]
    assert pair[1].resources.milli("cpus") == 100
    for offer, framework in zip(pair, (world.framework, world.other), strict=True):
        asked = {"type": "LAUNCH", "launch": {"task_infos": [world.task(f"of-{framework.name}", shared())]}}
        body = {"offer_ids": [{"value": offer.id}], "operations": [asked]}
        assert [type(a) for a in launching.accept(world.state, framework, body, NOW)] == [RunTask]
        check_books(world.state)
    assert [r.copies for r in world.agent.used_total.shared()] == [2]


def test_one_allocation_offers_it_once(world: Shared) -> None:
    world.take_back(world.framework, world.other)
    world.state.allocation_due = True
    offer_resources(world.state, NOW)
    assert sum(len(offer.resources.shared()) for offer in world.agent.offers.values()) == 1
    check_books(world.state)


def test_destroy_is_refused_while_anyone_uses_it(world: Shared) -> None:
    world.launch(world.other, "c")
    asked = operation("DESTROY", shared(), name="d")
    (event,) = events(world.accept_for(world.framework, asked), "UPDATE_OPERATION_STATUS")
    assert event["status"]["message"].startswith("Persistent volumes in use; on agent ")
    with pytest.raises(BadInput, match="Persistent volumes in use"):
        operations.operate(world.state, world.agent, operation("DESTROY", shared(), name=None))
    world.end(world.other, "c")
    assert operations.operate(world.state, world.agent, operation("DESTROY", shared(), name=None))


def test_destroy_takes_back_the_offers_that_others_have_of_it(world: Shared) -> None:
    mine, theirs = both_hold_offers(world)
    body = {"offer_ids": [{"value": mine.id}], "operations": [operation("DESTROY", shared(), name=None)]}
    actions = launching.accept(world.state, world.framework, body, NOW)
    check_books(world.state)
    assert events(actions, "RESCIND") == [{"offer_id": {"value": theirs.id}}]
    assert not world.agent.total.shared()
    assert world.agent.total.reserved(ROLE).milli("disk") == 128_000, "plain disk again"


def test_an_operator_creates_and_destroys_and_takes_every_offer_of_it_back(world: Shared) -> None:
    assert operations.operate(world.state, world.agent, operation("CREATE", shared(32, "v2"), name=None))
    check_books(world.state)
    world.offered_to(world.framework)
    actions = operations.operate(world.state, world.agent, operation("DESTROY", shared(32, "v2"), name=None))
    check_books(world.state)
    assert len(events(actions, "RESCIND")) == 1
    assert [v.persistence_id for v in world.agent.total.shared()] == ["vol-1"]


def test_one_copy_serves_every_task_of_an_accept_and_of_a_group(world: Shared) -> None:
    executor = {
        "type": "DEFAULT",
        "executor_id": {"value": "e"},
        "framework_id": {"value": world.framework.id},
        "resources": resources_of("cpus:0.1;mem:32;disk:8"),
    }
    group = {"executor": executor, "task_group": {"tasks": [world.task("g1", shared()), world.task("g2", shared())]}}
    actions = world.accept_for(
        world.framework,
        {"type": "LAUNCH", "launch": {"task_infos": [world.task("a", shared()), world.task("b", shared())]}},
        {"type": "LAUNCH_GROUP", "launch_group": group},
        operation("CREATE", shared(16, "v2"), name=None),
        {"type": "LAUNCH", "launch": {"task_infos": [world.task("c", shared(), shared(16, "v2"))]}},
        operation("DESTROY", shared(16, "v2"), name="d"),
    )
    assert [type(a) for a in actions if isinstance(a, (RunTask, RunTaskGroup))] == [
        *(RunTask, RunTask, RunTaskGroup, RunTask),
    ]
    (event,) = events(actions, "UPDATE_OPERATION_STATUS")
    assert event["status"]["message"].startswith("Persistent volumes in use; on agent ")
    copies = {r.persistence_id: r.copies for r in world.agent.used_total.shared()}
    assert copies == {"vol-1": 5, "v2": 1}


def test_what_was_not_offered_cannot_be_had_by_sharing(world: Shared) -> None:
    tasks = [world.task("x", shared(63)), world.task("y", shared(64, "strange")), world.task("z", volume(64))]
    actions = world.accept_for(world.framework, {"type": "LAUNCH", "launch": {"task_infos": tasks}})
    assert len(refusals(actions)) == 3
    assert all("is more than available" in words for words in refusals(actions))


def test_executors_of_launch_may_not_hold_shared_volumes(world: Shared) -> None:
    task = world.task("t")
    executor = {"executor_id": {"value": "e"}, "command": {"value": "x"}, "resources": [shared()]}
    del task["command"]
    asked = {"type": "LAUNCH", "launch": {"task_infos": [{**task, "executor": executor}]}}
    (words,) = refusals(world.accept_for(world.framework, asked))
    assert words.startswith("Executor resources disk(allocated: slave_public)")
    assert words.endswith("<SHARED>:64<1> should not contain any shared resources")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            {"type": "GROW_VOLUME", "grow_volume": {"volume": shared(), "addition": dynamic("disk", 1)}},
            "Growing a shared persistent volume is not supported",
        ),
        (
            {"type": "SHRINK_VOLUME", "shrink_volume": {"volume": shared(), "subtract": {"value": 1}}},
            "Shrinking a shared persistent volume is not supported",
        ),
        (operation("UNRESERVE", shared()), "cannot be unreserved directly"),
        (operation("CREATE", shared()), "Persistence ID 'vol-1' is not unique"),
        (operation("DESTROY", shared(), shared()), "Persistent volumes not found"),
        (operation("DESTROY", volume()), "Persistent volumes not found"),
        (operation("RESERVE", dynamic("gpus", 1, shared={})), "Resource gpus cannot be shared"),
        (operation("CREATE", dynamic("disk", 1, shared={})), "Only persistent volumes can be shared"),
    ],
)
def test_what_mesos_refuses_of_it_is_refused(world: Shared, asked: Document, words: str) -> None:
    (event,) = events(world.accept_for(world.framework, {**asked, "id": {"value": "op"}}), "UPDATE_OPERATION_STATUS")
    assert words in event["status"]["message"]


def test_a_copy_that_is_left_keeps_a_volume_from_being_destroyed() -> None:
    twice = one(shared()) + one(shared())
    with pytest.raises(BadResources, match="cannot be removed due to additional shared copies"):
        applied(twice, conversions(operation("DESTROY", shared())))
    assert applied(one(shared()), conversions(operation("DESTROY", shared()))) == one(dynamic("disk", 64))


def test_a_name_that_is_shared_is_no_sharing() -> None:
    """Values are not fields: a volume at the path `shared`, or with the id `revocable`, is an ordinary one."""
    disk = {"persistence": {"id": "revocable"}, "volume": {"mode": "RW", "container_path": "shared"}}
    named = Resource.from_json(dynamic("disk", 8, disk=disk))
    assert (named.shared, named.revocable) == (False, False)
    assert Resource.from_json(shared()).shared
    assert validate([shared()]) is None


copies = st.integers(0, 4)


@given(copies, copies, copies)
def test_copies_add_up_and_amounts_do_not(here: int, there: int, gone: int) -> None:
    def times(n: int) -> Resources:
        return sum([one(shared())] * n, Resources())

    both = times(here) + times(there)
    assert both == times(here + there)
    assert both.milli("disk") == (64_000 if here + there else 0)
    assert both - times(gone) == times(max(0, here + there - gone))
    assert both.contains(times(gone)) == (gone <= here + there)
    assert (both - times(there) + times(there) == both) or not both
    assert both + one(shared(65)) != both + one(shared(64)), "another size is another volume"
    assert both.base() == (Resources([]) if not both else one({**dynamic("disk", 64), "reservations": []}))


@settings(max_examples=examples(40))
@given(st.randoms(use_true_random=False))
def test_whatever_happens_the_books_add_up(dice: Random) -> None:
    world = Shared()
    running: dict[str, Framework] = {}
    for step in range(25):
        framework = dice.choice([world.framework, world.other])
        what = dice.choice(["launch", "launch", "end", "end", "destroy", "create", "operate", "decline", "cycle"])
        alive = any(v.persistence_id == "vol-1" for v in world.agent.total.shared())
        if what == "launch":
            names = [f"t{step}-{number}" for number in range(dice.choice((1, 1, 2)))]
            started = [a for a in world.launch(framework, *names) if isinstance(a, RunTask)]
            running |= {action.task["task_id"]["value"]: framework for action in started}
            assert alive or not started
        elif what == "end" and running:
            name = dice.choice(sorted(running))
            world.end(running.pop(name), name)
        elif what == "destroy":
            world.accept_for(framework, operation("DESTROY", shared(), name=None))
        elif what == "create":
            world.accept_for(framework, operation("CREATE", shared(), name=None))
        elif what == "operate":
            asked = operation(dice.choice(("CREATE", "DESTROY")), shared(), name=None)
            with suppress(BadInput, Conflict):
                operations.operate(world.state, world.agent, asked)
        elif what == "decline":
            offer = world.offered_to(framework)
            launching.decline(world.state, framework, {"offer_ids": [{"value": offer.id}]}, later(step))
        else:
            world.framework.suppressed.clear()
            world.other.suppressed.clear()
            offer_resources(world.state, later(step))
        check_books(world.state)
        now = {v.persistence_id for v in world.agent.total.shared()}
        held = {v.persistence_id: v.copies for v in world.agent.used_total.shared()}
        assert held.get("vol-1", 0) == len(running)
        assert not running or "vol-1" in now, "what is in use is not destroyed"
        assert world.agent.free.shared() == world.agent.total.shared()
        assert world.agent.total.milli("disk") == 1_000_000
