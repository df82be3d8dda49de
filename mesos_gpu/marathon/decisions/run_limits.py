"""Tasks that may only run for so long (maxRuntimeSeconds)."""

from __future__ import annotations

from math import inf

from mesos_gpu.marathon.model.instances import Task
from mesos_gpu.marathon.state.state import Books


def run_limits(books: Books) -> dict[str, int]:
    """Return after how many seconds tasks are ended, by app and by run of a job; those without a limit are left out."""
    specs = [*books.apps(), *(run.spec for job in books.jobs.values() for run in job.runs.values())]
    return {spec.id: limit for spec in specs if (limit := spec.max_run_s) is not None}


def ends_s(task: Task, limit_s: int) -> float:
    """Return when a task has run for as long as it may; never while it does not run."""
    return inf if task.started_at_s is None else task.started_at_s + limit_s
