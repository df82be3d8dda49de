"""Tasks that may only run for so long (maxRuntimeSeconds)."""

from __future__ import annotations

from math import inf

from mesos_gpu.marathon.model.instances import Task
from mesos_gpu.marathon.state.state import Books


def run_limits(books: Books) -> dict[str, int]:
    """Return after how many seconds tasks are ended, by app and by run of a job; those without a limit are left out."""
    specs = [*books.apps(), *(run.spec for job in books.jobs.values() for run in job.runs.values())]
    return {spec.id: limit for spec in specs if (limit := spec.max_run_s) is not None}


class RunLimits(dict[str, int | None]):
    """The same by app, as far as somebody asks; None without a limit. Of thousands of runs that wait nobody does."""

    def __init__(self, books: Books) -> None:
        super().__init__()
        self._books = books

    def __missing__(self, app_id: str) -> int | None:
        spec = self._books.app(app_id)
        limit = self[app_id] = None if spec is None else spec.max_run_s
        return limit


def ends_s(task: Task, limit_s: int) -> float:
    """Return when a task has run for as long as it may; never while it does not run."""
    return inf if task.started_at_s is None else task.started_at_s + limit_s
