"""Gangs that run: they end together, start again together, and are one where an app is scaled or restarted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mesos_gpu.marathon.decisions import lifecycle
from mesos_gpu.marathon.definitions.runspec import RunSpec, versioned
from mesos_gpu.marathon.definitions.timestamps import later_than
from mesos_gpu.marathon.model.instances import Instance, Phase
from mesos_gpu.marathon.model.jobs import run_of
from mesos_gpu.marathon.state.actions import Say
from mesos_gpu.marathon.state.draft import Draft


def finished(instance: Instance) -> bool:
    """Return whether it is a member of a gang that has done its work, while others may still be at theirs."""
    return instance.wanted and instance.phase is Phase.ENDED and instance.task is not None


def by_gang(instances: Iterable[Instance]) -> dict[str, list[Instance]]:
    """Return those that are members of gangs, by the gang's id."""
    found: dict[str, list[Instance]] = {}
    for instance in instances:
        if instance.task is not None and instance.task.gang is not None:
            found.setdefault(instance.task.gang.id, []).append(instance)
    return found


def mend(draft: Draft, spec: RunSpec, lost: Iterable[Instance]) -> None:
    """End what is left of gangs of which a member is gone; start those again that have finished as a whole.

    `lost` are instances that nobody waits for any more, as their agents have been away for too long.
    """
    gone = {instance.id for instance in lost}
    for members in by_gang(draft.instances_of(spec.id)).values():
        task = members[0].task
        size = task.gang.size if task is not None and task.gang is not None else 0
        if len(members) == size and gone.isdisjoint(i.id for i in members):
            if not all(finished(i) for i in members):
                continue
        elif any(i.wanted and i.task is not None and i.task.id not in draft.kills for i in members):
            _say(draft, spec, members)
        for instance in members:
            if instance.phase is Phase.ENDED:
                lifecycle.after_end(draft, instance, replaced=False)
            elif instance.phase is Phase.UNREACHABLE:
                lifecycle.give_up(draft, instance)
            elif instance.task is not None:
                lifecycle.end(draft, instance.task)


def _say(draft: Draft, spec: RunSpec, members: Sequence[Instance]) -> None:
    """Tell that a gang ends as it is no longer whole; where it is not to start again, its app is so much smaller."""
    ends = spec.document["gang"]["onFailure"] == "END" and run_of(spec.id) is None
    what = "the app does without it" if ends else "it starts again as a whole"
    draft.actions.append(Say(f"a gang of {spec.id} has lost a member: its other {len(members)} are ended, and {what}"))
    if ends:
        fewer = {**spec.definition, "instances": max(0, spec.instances - spec.gang_size)}
        draft.put_app(versioned(fewer, later_than(spec.version, draft.now_s), spec))


def with_mates(draft: Draft, chosen: Sequence[Instance]) -> list[Instance]:
    """Return instances with all those that are in a gang with one of them."""
    gangs = set(by_gang(chosen))
    apps = {i.app_id for i in chosen}
    mates = [i for app_id in sorted(apps) for i in draft.instances_of(app_id)] if gangs else []
    names = {i.id for i in chosen}
    return [*chosen, *(i for i in mates if i.id not in names and set(by_gang([i])) & gangs)]


def whole(ordered: Sequence[Instance], count: int) -> list[Instance]:
    """Return `count` of them at most, the first in order, but of each gang all or none."""
    gangs = by_gang(ordered)
    chosen: dict[str, Instance] = {}
    for instance in ordered:
        gang = instance.task.gang if instance.task is not None else None
        unit = [instance] if gang is None else gangs[gang.id]
        if instance.id not in chosen and len(chosen) + len(unit) <= count:
            chosen.update({each.id: each for each in unit})
    return list(chosen.values())
