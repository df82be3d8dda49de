"""Checks each decision of Marathon: what is saved, launched and added to an app, and the tree of groups."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

from mesos_gpu.errors import MesosGpuError
from mesos_gpu.marathon.engine import scheduler
from mesos_gpu.marathon.model.groups import conflicts, depths
from mesos_gpu.marathon.model.instances import Instance, Phase
from mesos_gpu.marathon.model.task_ids import instance_of
from mesos_gpu.marathon.state.actions import Action, Launch, Save
from mesos_gpu.marathon.state.events import Event, Moment
from mesos_gpu.marathon.state.settings import Settings
from mesos_gpu.marathon.state.state import Lasting, State, restored
from mesos_gpu.marathon.views.tree import current_root
from tests.support.marathon.saved import Saved

if TYPE_CHECKING:
    from tests.sim.world import World

_DECIDES = "handle"
_DERIVED = ("members", "waiting", "coming_up", "timely")
"""What a new process makes of the rows that are on disk, and a running one keeps up to date."""
_EVERY = 20
"""So many decisions come between two comparisons of that."""


def install(world: World) -> None:
    """Check all decisions from now on. For good."""
    real, count = getattr(scheduler, _DECIDES), 0

    @wraps(real)
    def handle(before: State, event: Event, moment: Moment, settings: Settings) -> tuple[State, Sequence[Action]]:
        nonlocal count
        after, actions = real(before, event, moment, settings)
        count += 1
        for wrong in _wrong(before, after, actions, moment.now_s, derived=count % _EVERY == 0):
            world.finding(f"after {type(event).__name__}: {wrong}")
        return after, actions

    setattr(scheduler, _DECIDES, handle)


def _wrong(before: State, after: State, actions: Sequence[Action], now_s: float, *, derived: bool) -> Iterator[str]:
    if any(isinstance(action, Save) for action in actions[1:]):
        yield "something is done before it is saved"
    yield from _unsaved(before.lasting, after.lasting, actions)
    yield from _unrecorded(after, actions)
    yield from too_many(before, after, now_s)
    known = {instance.task.id for instance in after.lasting.instances.values() if instance.task is not None}
    if not {*after.health, *after.readiness} <= known:
        yield "results of checks are kept of tasks that do not exist"
    if after.lasting.roots is not before.lasting.roots or after.lasting.versions is not before.lasting.versions:
        yield from _broken_tree(after)
    if derived:
        again = restored(after.lasting)
        for name in _DERIVED:
            if dict(getattr(again, name)) != dict(getattr(after, name)):
                yield f"a new process would have other {name}"


def _unsaved(before: Lasting, after: Lasting, actions: Sequence[Action]) -> Iterator[str]:
    if before is after:
        return
    disk = Saved(before)
    for action in actions:
        if isinstance(action, Save):
            disk.save(action)
    if disk.load() != after:
        yield "what is saved is not what was decided"


def _unrecorded(after: State, actions: Sequence[Action]) -> Iterator[str]:
    """Tell which tasks are launched that no record names."""
    for action in actions:
        for task_id in action.task_ids if isinstance(action, Launch) else ():
            instance = after.lasting.instances.get(instance_of(task_id) or "")
            if instance is None or instance.task is None or not instance.task.has(task_id):
                yield f"{task_id} is launched without a record"


def too_many(before: State, after: State, now_s: float) -> Iterator[str]:
    """Tell which apps get an instance beyond what their upgrade strategy allows, read once more here."""
    added = {i.app_id for key, i in after.lasting.instances.items() if key not in before.lasting.instances}
    for app_id in sorted(added):
        spec = after.app(app_id)
        if spec is None:
            yield f"{app_id} gets an instance, and is not known"
            continue
        strategy = spec.document["upgradeStrategy"]
        least = math.ceil(spec.instances * strategy["minimumHealthCapacity"])
        most = math.floor(spec.instances * (1 + strategy["maximumOverCapacity"]))
        # If no instance may be missing and none may be added, nothing could be replaced: one more is allowed.
        most += least == most
        # Those that are ended for good make room at once, lost ones after inactiveAfterSeconds.
        unreachable = spec.document["unreachableStrategy"]
        kept = [i for i in after.instances_of(app_id) if i.wanted and not _given_up(i, unreachable, now_s)]
        if len(kept) > most:
            yield f"{app_id} has {len(kept)} instances; its strategy allows {most}"


def _given_up(instance: Instance, strategy: Any, now_s: float) -> bool:
    """Return whether an instance has been unreachable for inactiveAfterSeconds."""
    if instance.phase is not Phase.UNREACHABLE or not isinstance(strategy, Mapping) or instance.task is None:
        return False
    since_s = instance.task.unreachable_since_s
    return since_s is not None and now_s >= since_s + float(strategy["inactiveAfterSeconds"])


def _broken_tree(state: State) -> Iterator[str]:
    groups = current_root(state).groups
    try:
        depths({spec.id: spec for spec in state.apps()}, groups)
    except MesosGpuError as error:
        yield f"apps depend on each other: {error}"
    if found := conflicts([spec.id for spec in state.apps()], groups):
        yield f"an app and a group have one id: {found}"
