"""When something that waits is expected to start: time is let pass on a copy of the state. Pure.

Runs of jobs and one-off runs end after as long as earlier ones took, or as long as they may (`maxRuntimeSeconds`); the
others run on.
Three copies are played: one in which all is over early, one in which it takes its usual time, one in which it is late.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf

from msgspec import Struct

from mesos_gpu.errors import NotFound
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.machines import Machine
from mesos_gpu.marathon.model.instances import Instance
from mesos_gpu.marathon.model.jobs import Job, run_of
from mesos_gpu.marathon.simulation.replica import Lasts, Replica, Start
from mesos_gpu.marathon.state.events import Moment
from mesos_gpu.marathon.state.run_times import times_of
from mesos_gpu.marathon.state.settings import Settings
from mesos_gpu.marathon.state.state import State
from mesos_gpu.mesos.ids import Role

QUANTILES = (0.1, 0.5, 0.9)
"""Of the times that earlier runs took: early, usual, late."""
USUAL = 0.5
HORIZON_S = 30 * 86400.0
"""So far ahead is looked."""


class StartEstimate(Struct, frozen=True):
    """When what waits is expected to start, in seconds from now: early, usual, late; None when no end of it is seen."""

    app: str
    waiting: int
    first_s: tuple[float | None, ...]
    """The first instance."""
    last_s: tuple[float | None, ...]
    """The last one."""
    seen: int
    """Of the tasks that run: how many end as earlier runs of theirs did,"""
    asked: int
    """how many when they may run no longer,"""
    unknown: int
    """and of how many no end is known."""
    starts: tuple[Start, ...] = ()
    """Where those that wait start in the usual case, as far as that is seen."""


def estimate_start(
    state: State,
    name: str,
    machines: Sequence[Machine],
    settings: Settings,
    moment: Moment,
    headroom: Mapping[Role, Mapping[str, int]] | None = None,
) -> StartEstimate:
    """Return when the instances of an app or pod that wait, or the runs of a job, are expected to start.

    Raises NotFound when there is no such thing.
    """
    if state.app(name) is None and name not in state.jobs:
        raise NotFound(f"there is no app, pod or job {name!r}")
    mine = {key for key, app_id in state.waiting.items() if name in (app_id, _job_of(app_id))}
    first: list[float | None] = []
    last: list[float | None] = []
    usual: tuple[Start, ...] = ()
    for quantile in QUANTILES if mine else ():
        replica = Replica(state, machines, settings, moment, headroom or {}, _lasts(state, quantile))
        replica.settle_what_is_under_way()
        replica.play(horizon_s=HORIZON_S, until=lambda now: mine.isdisjoint(now.waiting))
        starts = [start for start in replica.starts if start.instance in mine]
        usual = tuple(starts) if quantile == USUAL else usual
        times = sorted(start.after_s for start in starts)
        first.append(times[0] if times else None)
        last.append(times[-1] if len(times) >= len(mine) else None)
    bases = [_basis(state, instance) for instance in state.instances.values() if instance.task is not None]
    counts = {kind: bases.count(kind) for kind in ("seen", "asked", "unknown")}
    return StartEstimate(name, len(mine), _ordered(first), _ordered(last), **counts, starts=usual)


def _ordered(times: Iterable[float | None]) -> tuple[float | None, ...]:
    """Return early, usual and late in this order: what ends early may let others in first."""
    return tuple(None if at == inf else at for at in sorted(inf if at is None else at for at in times))


def _lasts(state: State, quantile: float) -> Lasts:
    """Return what says for how long tasks run on, at a quantile of the times that were seen."""
    times = {job_id: run_times(job) for job_id, job in state.jobs.items()}
    by_gpus: dict[int, list[float]] = {}
    for job_id, job in state.jobs.items():
        by_gpus.setdefault(int(job.definition["run"].get("gpus", 0)), []).extend(times[job_id])

    def lasts(spec: RunSpec, age_s: float) -> float | None:
        job_id, most_s = _job_of(spec.id), longest_s(state, spec)
        once = times_of(state, spec)
        if job_id is None and not once:
            return None if most_s is None else max(0.0, most_s - age_s)
        for seen in (once,) if job_id is None else (times.get(job_id, ()), by_gpus.get(spec.gpus, ())):
            left = sorted(time_s - age_s for time_s in seen if time_s > age_s)
            if left:
                usual = left[min(len(left) - 1, int(quantile * len(left)))]
                return usual if most_s is None else min(usual, max(0.0, most_s - age_s))
        return None if most_s is None else max(0.0, most_s - age_s)

    return lasts


def _basis(state: State, instance: Instance) -> str:
    spec, job_id = state.spec_of(instance), _job_of(instance.app_id)
    if job_id is not None and job_id in state.jobs and run_times(state.jobs[job_id]):
        return "seen"
    if spec is not None and times_of(state, spec):
        return "seen"
    return "asked" if spec is not None and longest_s(state, spec) is not None else "unknown"


def run_times(job: Job) -> tuple[float, ...]:
    """Return how long the tasks of earlier runs took that have succeeded, in seconds."""
    return tuple(
        task.completed_s - task.started_s
        for run in job.history.succeeded
        for task in run.tasks
        if task.completed_s is not None and task.state == "TASK_FINISHED"
    )


def longest_s(state: State, spec: RunSpec) -> float | None:
    """Return for how long a task may run at most, where that is asked for."""
    job_id = _job_of(spec.id)
    job = state.jobs.get(job_id) if job_id is not None else None
    found = spec.document.get("maxRuntimeSeconds")
    if found is None and job is not None:
        found = job.definition["run"].get("maxRuntimeSeconds")
    return None if found is None else float(found)


def _job_of(app_id: str) -> str | None:
    run = run_of(app_id)
    return None if run is None else run[0]
