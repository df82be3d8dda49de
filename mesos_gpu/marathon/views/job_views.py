"""What /v1/jobs shows: jobs, their runs and schedules, in Metronome's words. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from mesos_gpu.marathon.definitions.timestamps import timestamp
from mesos_gpu.marathon.model.instances import Phase
from mesos_gpu.marathon.model.jobs import FinishedRun, History, Job, Run, Schedule, TaskRecord
from mesos_gpu.marathon.state.state import State

Document = dict[str, Any]


def job_view(state: State, job: Job, embed: Collection[str]) -> Document:
    """Return a job with what is asked to be embedded: activeRuns, schedules, history, historySummary."""
    shown: Document = dict(job.definition)
    if "schedules" in embed:
        shown["schedules"] = schedule_views(job)
    if "activeRuns" in embed:
        shown["activeRuns"] = run_views(state, job)
    if "history" in embed:
        shown["history"] = _history(job.history)
    if "historySummary" in embed:
        shown["historySummary"] = _summary(job.history)
    return shown


def schedule_views(job: Job) -> list[Document]:
    """Return the schedules of a job."""
    return [schedule_view(schedule) for schedule in job.schedules.values()]


def schedule_view(schedule: Schedule) -> Document:
    """Return a schedule."""
    shown: Document = {
        "id": schedule.id,
        "cron": schedule.cron,
        "timezone": schedule.timezone,
        "startingDeadlineSeconds": schedule.starting_deadline_s,
        "concurrencyPolicy": schedule.concurrency,
        "enabled": schedule.enabled,
    }
    return {**shown, "nextRunAt": _time(schedule.next_s)} if schedule.next_s is not None else shown


def run_views(state: State, job: Job) -> list[Document]:
    """Return the runs of a job that are under way."""
    return [run_view(state, job.id, run) for run in job.runs.values()]


def run_view(state: State, job_id: str, run: Run, status: str | None = None) -> Document:
    """Return a run under way; `status` is how it is, by default what its instance says."""
    return {
        "id": run.id,
        "jobId": job_id,
        "status": status or _status(state, run),
        "createdAt": _time(run.created_s),
        "completedAt": None,
        "tasks": [_task(task) for task in run.tasks],
    }


def queue_views(state: State) -> list[Document]:
    """Return, job by job, the runs that wait for an offer."""
    waiting = set(state.waiting.values())
    found = [(job, [run for run in job.runs.values() if run.spec.id in waiting]) for job in state.jobs.values()]
    return [{"jobId": job.id, "runs": [{"runId": run.id} for run in runs]} for job, runs in found if runs]


def _status(state: State, run: Run) -> str:
    instances = state.instances_of(run.spec.id)
    if not instances:
        return "INITIAL"
    return "ACTIVE" if instances[0].phase in (Phase.RUNNING, Phase.KILLING, Phase.UNREACHABLE) else "STARTING"


def _task(task: TaskRecord) -> Document:
    shown: Document = {"id": task.id, "startedAt": _time(task.started_s), "status": task.state}
    return {**shown, "completedAt": _time(task.completed_s)} if task.completed_s is not None else shown


def _summary(history: History) -> Document:
    return {
        "successCount": history.successes,
        "failureCount": history.failures,
        "lastSuccessAt": None if history.last_success_s is None else _time(history.last_success_s),
        "lastFailureAt": None if history.last_failure_s is None else _time(history.last_failure_s),
    }


def _history(history: History) -> Document:
    return {
        **_summary(history),
        "successfulFinishedRuns": [_finished(run) for run in history.succeeded],
        "failedFinishedRuns": [_finished(run) for run in history.failed],
    }


def _finished(run: FinishedRun) -> Document:
    return {
        "id": run.id,
        "createdAt": _time(run.created_s),
        "finishedAt": _time(run.finished_s),
        "tasks": [task.id for task in run.tasks],
    }


def _time(at_s: float) -> str:
    """Return a time as Metronome writes it: `+0000` for `Z`."""
    return timestamp(at_s).replace("Z", "+0000")
