"""What is ended so that others can start: with notice, and a record of who took what."""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from mesos_gpu.marathon.decisions import lifecycle, suspending
from mesos_gpu.marathon.definitions.timestamps import timestamp
from mesos_gpu.marathon.matching.asks import grace_s
from mesos_gpu.marathon.model.jobs import run_of
from mesos_gpu.marathon.state.actions import Publish, Say
from mesos_gpu.marathon.state.draft import Draft


def give_way(draft: Draft, units: Collection[str], taker: str) -> None:
    """Ask for the end of these instances and gangs, by their ids, for the app `taker`; they will wait again.

    Their processes get TERM first, and KILL after taskKillGracePeriodSeconds.
    """
    first = draft.app(taker)
    for instance in list(draft.instances.values()) if units else ():
        task, spec = instance.task, draft.spec_of(instance)
        if task is None or spec is None or first is None or not instance.active:
            continue
        if (task.gang.id if task.gang is not None else instance.id) not in units:
            continue
        if suspending.gives_gpus(spec):
            suspending.suspend(draft, instance, task, taker)
            continue
        ran_s = round(draft.now_s - (task.started_at_s or task.staged_at_s), 3)
        fields = {
            "appId": instance.app_id,
            "taskId": task.id,
            "instanceId": instance.id,
            "slaveId": task.agent_id,
            "host": task.host,
            "gpus": spec.gpus,
            "ranSeconds": ran_s,
            "priority": spec.priority,
            "takenBy": taker,
            "takenByPriority": first.priority,
            "graceSeconds": grace_s(spec),
        }
        draft.actions += [
            Publish("instance_preempted_event", fields),
            Say(f"{task.id} ({spec.gpus} GPUs, priority {spec.priority}) gives way to {taker} ({first.priority})"),
        ]
        if run_of(instance.app_id) is None:
            message = f"gave way to {taker}, whose priority is {first.priority} (its own: {spec.priority})"
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
        lifecycle.end(draft, task)
