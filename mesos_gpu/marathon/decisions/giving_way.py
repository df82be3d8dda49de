"""Who gives way so that another app can start: ended with notice, or suspended where that is agreed to."""

from __future__ import annotations

from collections.abc import Collection

from mesos_gpu.marathon.decisions import lifecycle, suspending
from mesos_gpu.marathon.state.draft import Draft


def give_way(draft: Draft, units: Collection[str], taker: str) -> None:
    """Ask for the end of these instances and gangs, by their ids, for the app `taker`; they will wait again."""
    for instance in list(draft.instances.values()) if units else ():
        task, spec = instance.task, draft.spec_of(instance)
        if task is None or spec is None or draft.app(taker) is None or not instance.active:
            continue
        if (task.gang.id if task.gang is not None else instance.id) not in units:
            continue
        if suspending.gives_gpus(spec):
            suspending.suspend(draft, instance, task, taker)
        else:
            lifecycle.end_for(draft, instance, task, taker)
