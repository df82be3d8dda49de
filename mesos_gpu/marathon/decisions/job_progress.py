"""Runs of jobs: started when it is time, ended when their task has, started again where the job wants that.

A run begins with its RunSpec, of which `progress` keeps one instance; it ends with it. What is decided about a task's
end is on disk, with the task's status, before the status is acknowledged: so no run is carried out twice.
"""

from __future__ import annotations

from mesos_gpu.errors import InvalidApp
from mesos_gpu.marathon.decisions import gangs
from mesos_gpu.marathon.decisions.run_limits import ends_s
from mesos_gpu.marathon.definitions.timestamps import timestamp
from mesos_gpu.marathon.model.instances import Cause, Instance, Phase
from mesos_gpu.marathon.model.job import run_spec
from mesos_gpu.marathon.model.job_dependencies import after_end, after_start, due
from mesos_gpu.marathon.model.jobs import Job, Run, new_run_id, run_of
from mesos_gpu.marathon.state.actions import Say
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.mesos.documents import TaskStatus
from mesos_gpu.mesos.ids import TaskId

KNOWN = "Reconciliation: Latest task state"
"""What a master says to who asks for a task that it knows. Source: Mesos src/master/master.cpp (reconcileTasks)."""


def watch_jobs(draft: Draft) -> None:
    """Start the runs that are due, and give up those that could not start in time."""
    for job in list(draft.jobs.values()):
        job = _by_the_clock(draft, job)
        at_s = job.next_event_s()
        if at_s is None or at_s > draft.now_s:
            continue
        _start_due(draft, job)
        for run in list(draft.jobs[job.id].runs.values()):
            if run.start_by_s is not None and not run.tasks and run.start_by_s <= draft.now_s:
                if not _may_have_started(draft, run):
                    draft.actions.append(Say(f"run {run.id} of job {job.id} could not start in time"))
                    finish(draft, draft.jobs[job.id], run, success=False)
                else:
                    draft.jobs.put(job.id, draft.jobs[job.id].with_run(run.unhurried()))


def _by_the_clock(draft: Draft, job: Job) -> Job:
    """Return a job whose schedules wait for no time that a clock that was ahead has led to."""
    for schedule in job.schedules.values():
        if schedule.misled(draft.now_s) and not schedule.due(draft.now_s):
            again = schedule.from_now(draft.now_s)
            if again.next_s != schedule.next_s:
                words = f"the clock has gone back; the next run is at {timestamp(again.next_s or 0)}"
                draft.actions.append(Say(f"schedule {schedule.id} of job {job.id}: {words}"))
            job = job.with_schedule(again)
            draft.jobs.put(job.id, job)
    return job


def start(draft: Draft, job: Job, run_id: str, *, start_by_s: float | None) -> None:
    """Begin a run. `start_by_s` is when it is too late to start; None: never."""
    spec = run_spec(job.definition, run_id, timestamp(draft.now_s), draft.settings.rules)
    restart = job.definition["run"]["restart"]
    deadline = restart.get("activeDeadlineSeconds")
    run = Run(
        id=run_id,
        created_s=draft.now_s,
        spec=spec,
        policy=restart["policy"],
        active_deadline_s=None if deadline is None else draft.now_s + deadline,
        start_by_s=start_by_s,
    )
    draft.jobs.put(job.id, job.with_run(run))
    for child in list(after_start(job.id, draft.jobs)):
        draft.jobs.put(child.id, child)
    draft.touched.add(spec.id)


def finish(draft: Draft, job: Job, run: Run, *, success: bool) -> None:
    """End a run; a task of it that still lives is ended too. The jobs that have waited for it alone start."""
    draft.jobs.put(job.id, job.finished(run, draft.now_s, success=success))
    forget(draft, run)
    for child in list(after_end(job.id, draft.jobs, success=success)):
        draft.jobs.put(child.id, child)
        if due(child):
            _start_by_itself(draft, child, start_by_s=None)


def forget(draft: Draft, run: Run) -> None:
    """Drop what is known about a run beside its job; its instance ends, since nothing asks for it any more."""
    for table in (draft.backoffs, draft.queue):
        table.drop(run.spec.id)
    draft.touched.add(run.spec.id)


def take_status(draft: Draft, instance: Instance, task_id: TaskId, status: TaskStatus, cause: Cause) -> None:
    """Take note of a status of a run's task, before the instance does; nothing happens to other instances."""
    named = run_of(instance.app_id)
    job = draft.jobs.get(named[0]) if named is not None else None
    run = job.runs.get(named[1]) if job is not None and named is not None else None
    if job is None or run is None:
        return
    ended, state = cause is Cause.TASK_ENDED, str(status["state"])
    if ended and _never_started(instance, status):
        return
    run = run.after(task_id, state, draft.now_s, ended=ended)
    if ended and _decides(draft, instance, run, state):
        finish(draft, job, run, success=state == "TASK_FINISHED")
    else:
        draft.jobs.put(job.id, job.with_run(run))


def _decides(draft: Draft, instance: Instance, run: Run, state: str) -> bool:
    """Return whether a run ends with this task of it."""
    if state == "TASK_FINISHED":
        others = [i for i in draft.instances_of(run.spec.id) if i.id != instance.id]
        return all(gangs.finished(other) for other in others)
    task, limit_s = instance.task, run.spec.max_run_s
    if task is not None and limit_s is not None and draft.now_s >= ends_s(task, limit_s):
        return True
    gave_way = task is not None and task.gives_way_to is not None
    return not gave_way and not run.starts_again(draft.now_s)


def _never_started(instance: Instance, status: TaskStatus) -> bool:
    """Return whether the task of an instance certainly never ran, so that another may take its place.

    The master refused it, or does not know it and nobody ever heard of it: it would have kept an end that we have
    not acknowledged. One that says the latest state that it knows of it knows it: that is what the agent said.
    """
    if instance.phase is not Phase.PROVISIONED:
        return False
    unknown = status["state"] == "TASK_GONE" and status.get("reason") == "REASON_RECONCILIATION"
    unknown = unknown and status.get("message") != KNOWN and status.get("source") != "SOURCE_AGENT"
    return status["state"] == "TASK_DROPPED" or unknown


def _start_due(draft: Draft, job: Job) -> None:
    for schedule in job.schedules.values():
        if not schedule.due(draft.now_s):
            continue
        at_s = schedule.latest(draft.now_s)
        job = draft.jobs[job.id].with_schedule(schedule.from_now(draft.now_s))
        draft.jobs.put(job.id, job)
        if at_s is None:
            draft.actions.append(Say(f"schedule {schedule.id} of job {job.id}: a run was missed, and is too late now"))
        elif schedule.concurrency == "FORBID" and job.runs:
            draft.actions.append(Say(f"schedule {schedule.id} of job {job.id}: a run is still active, none is started"))
        else:
            _start_by_itself(draft, job, start_by_s=at_s + schedule.starting_deadline_s)


def _start_by_itself(draft: Draft, job: Job, *, start_by_s: float | None) -> None:
    """Begin a run that nobody asked for, and so nobody can be told that it cannot be."""
    run_id = new_run_id(run_stamp(draft.now_s), draft.pick())
    try:
        start(draft, job, run_id, start_by_s=start_by_s)
    except InvalidApp as error:
        draft.actions.append(Say(f"job {job.id} cannot run in this Marathon any more: {error}"))


def _may_have_started(draft: Draft, run: Run) -> bool:
    return any(instance.active for instance in draft.instances_of(run.spec.id))


def run_stamp(now_s: float) -> str:
    """Return the time as the beginning of a run's id has it."""
    return "".join(char for char in timestamp(now_s)[:19] if char.isdigit())
