"""What is done to single instances: created, ended, given up, started again."""

from __future__ import annotations

from msgspec.structs import replace

from mesos_gpu.marathon.decisions import residency
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.definitions.timestamps import timestamp
from mesos_gpu.marathon.matching.queue_requests import grace_s
from mesos_gpu.marathon.model.instances import Cause, Goal, Instance, Phase, Task, moved
from mesos_gpu.marathon.model.jobs import run_of
from mesos_gpu.marathon.model.task_ids import new_instance_id
from mesos_gpu.marathon.state.actions import Kill, Publish, Say
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.mesos.ids import Role


def create(draft: Draft, spec: RunSpec, count: int) -> None:
    """Add instances of `spec` that wait for an offer; those that were shelved with their volumes come back first."""
    if count <= 0:
        return
    shelved = [instance for instance in draft.instances_of(spec.id) if instance.resting][:count]
    for instance in shelved:
        _reschedule(draft, replace(instance, goal=Goal.RUNNING), spec)
    for _ in range(count - len(shelved)):
        instance_id = new_instance_id(spec.id, draft.new_id())
        draft.put_instance(Instance(instance_id, spec.id, spec.version, Role(spec.document["role"]), draft.now_s))


def give_up(draft: Draft, instance: Instance) -> None:
    """Let an instance end for good.

    One without a task goes at once, and so does one on a lost agent: should its task come back it is unknown, and
    unknown tasks are ended.
    """
    if not instance.active or instance.phase is Phase.UNREACHABLE:
        draft.drop_instance(instance)
        _say_if_app_is_gone(draft, instance.app_id)
        return
    draft.put_instance(replace(instance, goal=Goal.DECOMMISSIONED))
    if instance.task is not None:
        end(draft, instance.task)


def retire(draft: Draft, instance: Instance) -> None:
    """Let an instance end that is one too many; its volumes, if it has some, are kept for a next one.

    Source: Marathon DeploymentActor.scaleRunnable and TaskReplaceActor (Goal.Stopped).
    """
    if instance.reservation is None:
        give_up(draft, instance)
    elif instance.phase is Phase.SCHEDULED:
        draft.put_instance(replace(moved(instance, Cause.SHELVED, draft.now_s), goal=Goal.STOPPED))
    elif not instance.active:
        draft.put_instance(replace(instance, goal=Goal.STOPPED))  # asked for twice, or ended just now
    else:
        draft.put_instance(replace(instance, goal=Goal.STOPPED))
        end_if_reachable(draft, instance)


def end_if_reachable(draft: Draft, instance: Instance) -> None:
    """Ask for the end of an instance's task; on a lost agent nobody can, and the instance must wait for that agent."""
    if instance.task is not None and instance.active and instance.phase is not Phase.UNREACHABLE:
        end(draft, instance.task)


def end(draft: Draft, task: Task) -> None:
    """Ask the master to end a task, unless that was just done; the answer comes as a status.

    Of a pod, every container's: one that was ended alone would end the others, but only if it ended badly.
    """
    asked_s = draft.kills.get(task.id)
    if asked_s is not None and draft.now_s < asked_s + draft.settings.kill_retry_s:
        return
    draft.kills.put(task.id, draft.now_s)
    if draft.subscribed:
        draft.actions += [Kill(task_id, task.agent_id) for task_id in task.living_ids]


def end_for(draft: Draft, instance: Instance, task: Task, taker: str, because: str = "") -> None:
    """Ask for the end of a task for the app `taker`; its instance will wait again.

    `because` says why it was not suspended, where that was tried. Its processes get TERM first, and KILL after
    taskKillGracePeriodSeconds. Nothing is done where one of both apps is gone.
    """
    spec, first = draft.spec_of(instance), draft.app(taker)
    if spec is None or first is None:
        return
    fields = {
        "appId": instance.app_id,
        "taskId": task.id,
        "instanceId": instance.id,
        "slaveId": task.agent_id,
        "host": task.host,
        "gpus": spec.gpus,
        "ranSeconds": round(draft.now_s - (task.started_at_s or task.staged_at_s), 3),
        "priority": spec.priority,
        "takenBy": taker,
        "takenByPriority": first.priority,
        "graceSeconds": grace_s(spec),
    }
    if because:
        fields["reason"] = because
    why = f": {because}" if because else ""
    draft.actions += [
        Publish("instance_preempted_event", fields),
        Say(f"{task.id} ({spec.gpus} GPUs, priority {spec.priority}) gives way to {taker} ({first.priority}){why}"),
    ]
    if run_of(instance.app_id) is None:
        message = f"gave way to {taker}, whose priority is {first.priority} (its own: {spec.priority}){why}"
        draft.failures.put(
            instance.app_id,
            {
                "appId": instance.app_id,
                "host": task.host,
                "message": message,
                "state": "TASK_KILLED",
                "taskId": task.id,
                "timestamp": timestamp(draft.now_s),
                "version": task.version,
                "slaveId": task.agent_id,
            },
        )
    draft.put_instance(replace(instance, task=replace(task, gives_way_to=taker)))
    end(draft, task)


def after_end(draft: Draft, instance: Instance, *, replaced: bool) -> None:
    """Decide what becomes of an instance whose task has ended: forgotten, or waiting for a new task.

    `replaced`: a deployment puts a new instance in its place.
    """
    spec = draft.app(instance.app_id)
    kept = instance.reservation is not None and instance.goal is not Goal.DECOMMISSIONED
    if spec is None or not (kept or instance.wanted) or (not kept and replaced and outdated(instance, spec)):
        draft.drop_instance(instance)
        _say_if_app_is_gone(draft, instance.app_id)
        return
    if instance.task is not None:
        draft.kills.drop(instance.task.id)
        if instance.reservation is not None and not residency.never_there(instance.task):
            # That of a pod is a name of ours for several.
            task_id = None if instance.task.containers else instance.task.id
            used = replace(instance.reservation, last_task_id=task_id, last_state=instance.task.state)
            instance = replace(instance, reservation=used)
    if instance.wanted:
        _reschedule(draft, instance, spec)
    else:
        draft.put_instance(replace(instance, task=None))


def _reschedule(draft: Draft, instance: Instance, spec: RunSpec) -> None:
    draft.put_instance(replace(moved(instance, Cause.RESCHEDULED, draft.now_s), task=None, version=spec.version))


def outdated(instance: Instance, spec: RunSpec) -> bool:
    """Return whether an instance was made for an older configuration of its app."""
    return instance.version < spec.config_version


def _say_if_app_is_gone(draft: Draft, app_id: str) -> None:
    if run_of(app_id) is None and draft.app(app_id) is None and not draft.has_members(app_id):
        draft.actions.append(Publish("app_terminated_event", {"appId": app_id}))
