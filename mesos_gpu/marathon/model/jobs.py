"""Jobs: what runs to its end, when asked or by a schedule (Metronome's model). Values, and what follows from time.

A run is carried out by an instance of its own, of a RunSpec that only lives as long as the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from mesos_gpu.marathon.definitions.cron import next_time
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.mesos.ids import TaskId

KEPT_RUNS = 10
"""Finished runs that a job's history has, of each kind."""
CORRECTION_S = 3 * 3600
"""A clock that goes back by more is taken to be put right. Source: Debian's cron(8), on changes of the clock."""
_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghjkmnpqrstuvwxyz23456789"


class Schedule(Struct, frozen=True):
    """When runs start by themselves. `next_s` is when the next one is due; None when none ever will be."""

    id: str
    cron: str
    timezone: str
    starting_deadline_s: int
    concurrency: str
    """ALLOW or FORBID."""
    enabled: bool
    next_s: float | None = None
    found_s: float | None = None
    """What the clock said when `next_s` was found; None in what an older version kept."""

    def from_now(self, now_s: float) -> Schedule:
        """Return the schedule with its next time after `now_s`."""
        return replace(self, next_s=next_time(self.cron, self.timezone, now_s), found_s=now_s)

    @property
    def as_asked(self) -> Schedule:
        """Return the schedule without what follows from the time."""
        return replace(self, next_s=None, found_s=None)

    def misled(self, now_s: float) -> bool:
        """Return whether the next time was found on a clock that was ahead, and has been put right since.

        Less than CORRECTION_S is not a correction: what has run is not to run again for it.
        """
        if not self.enabled or self.next_s is None:
            return False
        return self.found_s is None or now_s < self.found_s - CORRECTION_S

    def due(self, now_s: float) -> bool:
        """Return whether a run should have started by now."""
        return self.enabled and self.next_s is not None and self.next_s <= now_s

    def latest(self, now_s: float) -> float | None:
        """Return the last time at which a run was due and may still start; None when all have been missed.

        Of several that were missed, for example while this Marathon was away, only the last counts.
        """
        found, at_s = None, self.next_s
        limit_s = now_s - self.starting_deadline_s
        if at_s is not None and at_s < limit_s:
            at_s = next_time(self.cron, self.timezone, limit_s - 0.001)
        while at_s is not None and at_s <= now_s:
            found, at_s = at_s, next_time(self.cron, self.timezone, at_s)
        return found


class TaskRecord(Struct, frozen=True):
    """One task of a run. `state` is Mesos'."""

    id: TaskId
    started_s: float
    state: str
    completed_s: float | None = None


class Run(Struct, frozen=True):
    """A run under way. Times are seconds since the epoch."""

    id: str
    created_s: float
    spec: RunSpec
    policy: str
    """NEVER or ON_FAILURE."""
    active_deadline_s: float | None = None
    """Until when a failed run starts again; None: always."""
    start_by_s: float | None = None
    """Until when its first task must have started; None: any time."""
    tasks: tuple[TaskRecord, ...] = ()

    def after(self, task_id: TaskId, state: str, now_s: float, *, ended: bool) -> Run:
        """Return the run after news about one of its tasks."""
        known = {task.id: task for task in self.tasks}
        before = known.get(task_id, TaskRecord(task_id, now_s, state))
        known[task_id] = replace(before, state=state, completed_s=now_s if ended else before.completed_s)
        return replace(self, tasks=tuple(known.values())[-KEPT_RUNS:])

    def unhurried(self) -> Run:
        """Return the run without a time by which it must have started."""
        return replace(self, start_by_s=None)

    def starts_again(self, now_s: float) -> bool:
        """Return whether a failed run starts again."""
        return self.policy == "ON_FAILURE" and (self.active_deadline_s is None or now_s < self.active_deadline_s)


class FinishedRun(Struct, frozen=True):
    """A run that has ended."""

    id: str
    created_s: float
    finished_s: float
    success: bool
    tasks: tuple[TaskRecord, ...] = ()


class History(Struct, frozen=True):
    """How a job's runs came out. The last runs of each kind are kept, newest first."""

    successes: int = 0
    failures: int = 0
    last_success_s: float | None = None
    last_failure_s: float | None = None
    succeeded: tuple[FinishedRun, ...] = ()
    failed: tuple[FinishedRun, ...] = ()

    def after(self, run: FinishedRun) -> History:
        """Return the history with one more run."""
        if run.success:
            kept = (run, *self.succeeded)[:KEPT_RUNS]
            return replace(self, successes=self.successes + 1, last_success_s=run.finished_s, succeeded=kept)
        kept = (run, *self.failed)[:KEPT_RUNS]
        return replace(self, failures=self.failures + 1, last_failure_s=run.finished_s, failed=kept)

    def find(self, run_id: str) -> FinishedRun | None:
        """Return a run that is still known."""
        return next((run for run in (*self.succeeded, *self.failed) if run.id == run_id), None)


class Job(Struct, frozen=True):
    """A job. `definition` is canonical, without schedules."""

    definition: Mapping[str, Any]
    schedules: Mapping[str, Schedule] = field(default_factory=dict)
    runs: Mapping[str, Run] = field(default_factory=dict)
    history: History = field(default_factory=History)
    succeeded: frozenset[str] = frozenset()
    """Those of the jobs that it depends on whose latest run has succeeded, after the last run of this one."""

    @property
    def id(self) -> str:
        """Return the job's id."""
        return str(self.definition["id"])

    def with_run(self, run: Run) -> Job:
        """Return the job with a run added or changed."""
        return replace(self, runs={**self.runs, run.id: run})

    def with_schedule(self, schedule: Schedule) -> Job:
        """Return the job with a schedule added or changed."""
        return replace(self, schedules={**self.schedules, schedule.id: schedule})

    def finished(self, run: Run, now_s: float, *, success: bool) -> Job:
        """Return the job after one of its runs has ended; the jobs that it depends on must succeed again then."""
        ended = FinishedRun(run.id, run.created_s, now_s, success, run.tasks)
        left = {run_id: other for run_id, other in self.runs.items() if run_id != run.id}
        return replace(self, runs=left, history=self.history.after(ended), succeeded=frozenset())

    def next_event_s(self) -> float | None:
        """Return when the passing of time next matters to this job."""
        times = [s.next_s for s in self.schedules.values() if s.enabled and s.next_s is not None]
        for run in self.runs.values():
            if run.start_by_s is not None and not run.tasks:
                times.append(run.start_by_s)
        return min(times, default=None)


def new_run_id(stamp: str, number: int) -> str:
    """Return an id such as 20261121160000Xk3vq out of a time (`20261121160000`) and any number.

    There is an upper-case letter in it, as in no name of an app: so a run's instances are never taken for an app's.
    """
    letters = []
    for _ in range(5):
        number, place = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[place])
    letters[0] = letters[0].upper() if letters[0].isalpha() else "X"
    return stamp + "".join(letters)


def run_spec_id(job_id: str, run_id: str) -> str:
    """Return the id of the RunSpec of a run."""
    return f"/{job_id}/{run_id}"


def run_spec_in(jobs: Mapping[str, Job], spec_id: str) -> RunSpec | None:
    """Return the RunSpec of a run under way; None when the id is that of no such run."""
    named = run_of(spec_id)
    job = jobs.get(named[0]) if named is not None else None
    run = job.runs.get(named[1]) if job is not None and named is not None else None
    return run.spec if run is not None else None


@lru_cache(maxsize=65536)
def run_of(spec_id: str) -> tuple[str, str] | None:
    """Return the ids of job and run that a RunSpec's id stands for; None for an app's or a pod's."""
    job_id, _, run_id = spec_id[1:].partition("/")
    return (job_id, run_id) if run_id and run_id != run_id.lower() else None
