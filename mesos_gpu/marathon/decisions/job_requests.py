"""What is asked about jobs. Raises what the caller did wrong; then nothing has changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace
from typing_extensions import assert_never

from mesos_gpu.errors import Conflict, InvalidApp, NotFound
from mesos_gpu.marathon.decisions import job_progress
from mesos_gpu.marathon.model.job import read_job, read_schedule
from mesos_gpu.marathon.model.job_dependencies import children, dependency_problems, redefined
from mesos_gpu.marathon.model.jobs import Job, Schedule
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.marathon.state.events import JobEvent, PutJob, PutSchedule, RemoveJob, RemoveSchedule, StartRun, StopRun


def take(draft: Draft, event: JobEvent) -> None:
    """Do what is asked. Raises InvalidApp, Conflict or NotFound."""
    match event:
        case PutJob():
            put_job(draft, event)
        case RemoveJob():
            remove_job(draft, event)
        case PutSchedule():
            put_schedule(draft, event)
        case RemoveSchedule():
            remove_schedule(draft, event)
        case StartRun():
            start_run(draft, event)
        case StopRun():
            stop_run(draft, event)
        case _:
            assert_never(event)


def put_job(draft: Draft, event: PutJob) -> None:
    """Create a job, or change one; runs under way stay as they are. Raises InvalidApp, Conflict or NotFound."""
    asked = read_job(event.document, draft.settings.rules)
    before = draft.jobs.get(asked.definition["id"])
    if event.create and before is not None:
        raise Conflict(f"Job '{before.id}' already exists")
    if not event.create and before is None:
        raise NotFound(f"Job '{asked.definition['id']}' does not exist", id=asked.definition["id"])
    schedules = {item.id: _timed(draft, before, item) for item in asked.schedules}
    kept = schedules if before is None or event.with_schedules else before.schedules
    _refuse_dependencies(draft, asked.definition, kept)
    job = redefined(before or Job(asked.definition), asked.definition)
    draft.jobs.put(job.id, replace(job, schedules=kept))


def remove_job(draft: Draft, event: RemoveJob) -> None:
    """Forget a job with its history.

    Raises NotFound, or Conflict while others depend on it, and while it runs unless its runs are to be stopped.
    """
    job = _existing(draft, event.job_id)
    if depending := [child.id for child in children(job.id, draft.jobs)]:
        raise Conflict(f"There are jobs with a dependency on {job.id}. children=[{', '.join(depending)}]")
    if job.runs and not event.stop_runs:
        raise Conflict(f"Job '{job.id}' has {len(job.runs)} active runs; stop them, or use stopCurrentJobRuns=true")
    for run in job.runs.values():
        job_progress.forget(draft, run)
    draft.jobs.drop(job.id)


def put_schedule(draft: Draft, event: PutSchedule) -> None:
    """Create a schedule, or replace one. Raises InvalidApp, Conflict or NotFound."""
    job = _existing(draft, event.job_id)
    schedule = read_schedule(event.document)
    if event.create and schedule.id in job.schedules:
        raise Conflict(f"Schedule '{schedule.id}' already exists")
    if not event.create and schedule.id not in job.schedules:
        raise NotFound(f"Schedule '{schedule.id}' does not exist", id=schedule.id)
    _refuse_dependencies(draft, job.definition, [schedule])
    draft.jobs.put(job.id, job.with_schedule(_timed(draft, job, schedule)))


def remove_schedule(draft: Draft, event: RemoveSchedule) -> None:
    """Forget a schedule. Raises NotFound."""
    job = _existing(draft, event.job_id)
    if event.schedule_id not in job.schedules:
        raise NotFound(f"Schedule '{event.schedule_id}' does not exist", id=event.schedule_id)
    left = {key: item for key, item in job.schedules.items() if key != event.schedule_id}
    draft.jobs.put(job.id, replace(job, schedules=left))


def start_run(draft: Draft, event: StartRun) -> None:
    """Start a run now. Raises NotFound, or Conflict where the job already has a run of that id."""
    job = _existing(draft, event.job_id)
    if event.run_id in job.runs:
        raise Conflict(f"Job '{job.id}' already has a run '{event.run_id}'")
    job_progress.start(draft, job, event.run_id, start_by_s=None)


def stop_run(draft: Draft, event: StopRun) -> None:
    """End a run; it has failed then. Raises NotFound."""
    job = _existing(draft, event.job_id)
    run = job.runs.get(event.run_id)
    if run is None:
        raise NotFound(f"JobRun '{event.run_id}' does not exist")
    job_progress.finish(draft, job, run, success=False)


def _existing(draft: Draft, job_id: str) -> Job:
    job = draft.jobs.get(job_id)
    if job is None:
        raise NotFound(f"Job '{job_id}' does not exist")
    return job


def _refuse_dependencies(draft: Draft, definition: Mapping[str, Any], schedules: Iterable[object]) -> None:
    """Raise InvalidApp when a job cannot depend on what it names."""
    if problems := list(dependency_problems(definition, schedules, draft.jobs)):
        raise InvalidApp(problems)


def _timed(draft: Draft, job: Job | None, schedule: Schedule) -> Schedule:
    """Return a schedule with its next time; one that says the same as before keeps the time it waits for."""
    before = job.schedules.get(schedule.id) if job is not None else None
    if before is not None and before.as_asked == schedule:
        return before
    return schedule.from_now(draft.now_s) if schedule.enabled else schedule
