"""Why a job does not run: the document of one of its runs, and what is to be said where none waits. Pure.

Source: Metronome's API (jobs with activeRuns, schedules and history; /v1/queue, the runs that wait for an offer).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mesos_gpu.marathon.definitions.app_settings import AppRules
from mesos_gpu.marathon.model.job import read_job, run_spec
from mesos_gpu.marathon.why.answer import Answer
from mesos_gpu.marathon.why.request import Request, request_of

_ASKED = ("id", "description", "labels", "run")
_LIVE = ("TASK_STAGING", "TASK_STARTING", "TASK_RUNNING", "TASK_KILLING", "TASK_UNREACHABLE")


def run_document(job: Mapping[str, Any], role: str | None) -> dict[str, Any]:
    """Return a run of a job as if it were an app, by the job's name; `role` is the Marathon's.

    Raises InvalidApp for what no job of ours could be.
    """
    definition = read_job({key: job[key] for key in _ASKED if key in job}, AppRules()).definition
    document = dict(run_spec(definition, "x", "1970-01-01T00:00:00.000Z", AppRules()).document)
    return {**document, "id": str(job.get("id")), "tasks": [], **({"role": role} if role else {})}


def request_of_run(document: Mapping[str, Any]) -> Request:
    """Return what a run, as `run_document` has it, requests."""
    return request_of(document, is_job=True)


def without_wait(job: Mapping[str, Any]) -> Answer:
    """Return what is to be said of a job of which no run waits."""
    name, runs = str(job.get("id")), job.get("activeRuns") or []
    live = [run for run in runs if any(task.get("status") in _LIVE for task in run.get("tasks") or [])]
    if runs:
        state = "running" if len(live) == len(runs) else "starting"
        words = f"{name} does not wait for resources: {len(live)} of {len(runs)} active runs "
        remedies = [f"`mesos-gpu job history {name}` shows its runs", f"`mesos-gpu task log {name}` what they write"]
        return Answer(name, state, words + ("has a task." if len(live) == 1 else "have one."), (), {}, tuple(remedies))
    start = f"`mesos-gpu job run {name}` runs it now"
    times = sorted(str(one["nextRunAt"]) for one in job.get("schedules") or [] if one.get("nextRunAt"))
    words = f"the next run is due at {times[0]}" if times else "none was asked for, and no schedule asks for one"
    history = job.get("historySummary") or {}
    failed, succeeded = history.get("lastFailureAt"), history.get("lastSuccessAt")
    remedies = [start]
    if failed and str(failed) > str(succeeded or ""):
        words += f". The last one failed, at {failed}"
        remedies = [f"`mesos-gpu task log {name}` shows what the last one wrote", start]
    return Answer(name, "stopped", f"{name} has no run at the moment: {words}.", (), {}, tuple(remedies))
