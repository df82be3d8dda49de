"""Who had what for how long: each change of an instance is put on the account in the same step, and so on disk with it.

A task counts from its launch until it has ended; that it is on an agent that is lost counts once it is back, for then
it ran on. GPUs that are put away for another (suspending.py) do not count. All that lives is counted up to
`counted_until_s` of the books, which goes on from hour to hour, and from there when it changes: so nothing has to be
written while nothing changes, and no time is counted twice, whatever is killed when.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.model.instances import Instance
from mesos_gpu.marathon.model.usage import (
    DAY_MS,
    DAYS_KEPT,
    HOUR_MS,
    HOURS_KEPT,
    NAMES_KEPT,
    NOTHING,
    OTHERS,
    Held,
    Period,
    Sum,
    Who,
    by_hour,
    hour_of,
    milliseconds,
    of_interval,
    of_reading,
)
from mesos_gpu.marathon.state.accounts import begin_ms_of, meter_of, split, who
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.marathon.state.events import Measured
from mesos_gpu.marathon.state.state import State
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.shares.gpu_shares import GPU_MEM

_OPEN_NAMES = 4 * NAMES_KEPT
"""So many sums of hours that are not over are kept by name."""


def held_by(spec: RunSpec, whole: Resources, default_user: str) -> Held:
    """Return what a task has that starts with `whole`."""
    shared = sum(last - first + 1 for each in whole for first, last in _units(each.name, each.amount))
    user = str(spec.document.get("user") or default_user)
    return Held(whole.milli("gpus"), whole.milli("cpus"), whole.milli("mem"), 1000 * shared, user)


def _units(name: str, amount: object) -> Iterator[tuple[int, int]]:
    if name == GPU_MEM and isinstance(amount, tuple):
        yield from amount


def account(draft: Draft, before: State) -> None:
    """Put on the account what follows from what one event has changed."""
    if not draft.settings.counts_usage:
        return
    hour_ms = hour_of(milliseconds(draft.now_s))
    if draft.counted_until_s is not None and milliseconds(draft.counted_until_s) > hour_ms + HOUR_MS:
        # The clock was ahead, and has been put right.
        draft.counted_until_s, draft.usage_hour_ms = hour_ms / 1000, hour_ms
    if hour_ms > draft.usage_hour_ms:
        _close_hours(draft, before, hour_ms)
        draft.usage_hour_ms = hour_ms
    for key in list(draft.instances.changes):
        _changed(draft, before, before.instances.get(key), draft.instances.get(key))


def take_measured(draft: Draft, event: Measured) -> None:
    """Put on the account what tasks were measured to use; of those that have ended meanwhile nothing."""
    hour_ms = hour_of(milliseconds(draft.now_s))
    for task_id, reading in event.readings.items():
        instance = draft.instances.get(event.instances.get(task_id, ""))
        meter = meter_of(draft, instance)
        if instance is not None and meter is not None and meter.task.id == task_id and meter.runs:
            _add(draft, hour_ms, who(instance, meter.held), of_reading(meter.held, reading))


def _changed(draft: Draft, before: State, was: Instance | None, now: Instance | None) -> None:
    old, new = meter_of(before, was), meter_of(draft, now)
    if old is None or was is None:
        return  # a task that has just started counts from then on by itself
    now_ms, begin_ms = milliseconds(draft.now_s), begin_ms_of(draft, old)
    if now is not None and new is not None and new.task.id == old.task.id:
        if (old.runs, old.held) != (new.runs, new.held):
            until_ms = max(begin_ms, now_ms)
            if old.runs or new.runs:  # a lost one that is back ran on
                _interval(draft, was, old.held, begin_ms, until_ms)
            draft.instances.put(now.id, replace(now, task=replace(new.task, counted_s=until_ms / 1000)))
        return
    ended_s = draft.ended.get(old.task.id)
    if old.runs:
        end_ms = now_ms if ended_s is None else milliseconds(ended_s)
        # Its agent may say that it ended before what was counted of it: then that is taken back.
        end_ms = max(milliseconds(old.task.staged_at_s), min(end_ms, max(begin_ms, now_ms)))
    else:
        end_ms = begin_ms if ended_s is None else max(begin_ms, min(milliseconds(ended_s), now_ms))
    _interval(draft, was, old.held, begin_ms, end_ms)
    _add(draft, hour_of(max(0, end_ms - 1)), who(was, old.held), Sum(tasks=1, mem=old.held.mem))


def _interval(draft: Draft, instance: Instance, held: Held, begin_ms: int, end_ms: int) -> None:
    for hour_ms, first, last in by_hour(begin_ms, end_ms):
        _add(draft, hour_ms, who(instance, held), of_interval(held, first, last))


def _add(draft: Draft, hour_ms: int, owner: Who, more: Sum) -> None:
    key = f"{hour_ms}\t{owner.key}"
    if key not in draft.usage_open and len(draft.usage_open) >= _OPEN_NAMES:
        key = f"{hour_ms}\t{replace(owner, app=OTHERS).key}"
    draft.usage_open.put(key, draft.usage_open.get(key, NOTHING) + more)


def _close_hours(draft: Draft, before: State, hour_ms: int) -> None:
    """Count all that lives up to this hour, put hours that are over together, and forget what is too old."""
    oldest_ms = hour_ms - HOURS_KEPT * HOUR_MS
    for instance in before.instances.values():
        meter = meter_of(before, instance)
        if meter is not None and meter.runs:
            # What lies longer back than hours are kept is not counted: nobody was here for more than a week.
            begin_ms = max(begin_ms_of(before, meter), oldest_ms)
            if begin_ms < hour_ms:
                _interval(draft, instance, meter.held, begin_ms, hour_ms)
                # Not without need: while nothing lives, an earlier one says the same.
                draft.counted_until_s = hour_ms / 1000
    over: dict[int, list[tuple[str, Sum]]] = {}
    for key in [key for key in draft.usage_open if split(key)[0] < hour_ms]:
        at_ms, owner = split(key)
        over.setdefault(at_ms, []).append((owner, draft.usage_open[key]))
        draft.usage_open.drop(key)
    for at_ms, sums in over.items():
        _fold(draft, Period(at_ms, HOUR_MS), sums)
    for period in list(draft.usage.values()):
        if period.length_ms == HOUR_MS and period.begin_ms < oldest_ms:
            draft.usage.drop(period.key)
            _fold(draft, Period(period.begin_ms - period.begin_ms % DAY_MS, DAY_MS), list(period.sums.items()))
    for period in list(draft.usage.values()):
        if period.begin_ms < hour_ms - DAYS_KEPT * DAY_MS:
            draft.usage.drop(period.key)


def _fold(draft: Draft, empty: Period, sums: list[tuple[str, Sum]]) -> None:
    draft.usage.put(empty.key, draft.usage.get(empty.key, empty).with_more(sums))
