"""What results of checks do: events, the end of tasks that stay unhealthy, readiness.

Source: Marathon core/health/impl/HealthCheckActor.scala, core/readiness/impl/ReadinessCheckExecutorImpl.scala.
"""

from __future__ import annotations

from msgspec.structs import replace

from mesos_gpu.marathon.decisions import lifecycle
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.model.health import Health, ignores_failure, is_mesos_level, mesos_level, must_end, verdict
from mesos_gpu.marathon.model.instances import Instance, Phase, Task
from mesos_gpu.marathon.model.task_ids import instance_of
from mesos_gpu.marathon.state.actions import Publish
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.marathon.state.events import HealthChecked, ReadinessChecked
from mesos_gpu.mesos.documents import TaskStatus
from mesos_gpu.mesos.ids import TaskId

_CHANGED = "REASON_TASK_HEALTH_CHECK_STATUS_UPDATED"


def take_health(draft: Draft, event: HealthChecked) -> None:
    """Take note of a check that Marathon ran; one of a task that is gone is passed over."""
    found = _checked(draft, event.task_id, event.index)
    if found is not None:
        _note(draft, *found, event.index, alive=event.alive, cause=event.cause or "")


def take_status_health(draft: Draft, instance: Instance, task: Task, status: TaskStatus) -> None:
    """Take note of the verdict of a Mesos-level check that a status carries."""
    spec = draft.spec_of(instance)
    if "healthy" not in status or spec is None:
        return
    index = mesos_level(spec.document["healthChecks"])
    if index is None:
        return
    known = (draft.health.get(task.id) or {}).get(index)
    uuid = status.get("uuid")
    if known is not None and uuid is not None and uuid == known.status_uuid:
        return
    # An answer to a question is no new result; it only tells one who knows nothing.
    if known is None or status.get("reason") == _CHANGED:
        _note(draft, instance, task, spec, index, alive=bool(status["healthy"]), cause=str(status.get("message", "")))
        results = draft.health.get(task.id) or {}
        if index in results:
            draft.health.put(task.id, {**results, index: replace(results[index], status_uuid=uuid)})


def take_readiness(draft: Draft, event: ReadinessChecked) -> None:
    """Take note of a readiness check; a task that was ready once stays so."""
    instance = draft.instances.get(instance_of(event.task_id) or "")
    if instance is None or instance.task is None or instance.task.id != event.task_id:
        return
    known = draft.readiness.get(event.task_id)
    if known is None or not known.ready:
        draft.readiness.put(event.task_id, event)
        draft.touched.add(instance.app_id)


def _checked(draft: Draft, task_id: TaskId, index: int) -> tuple[Instance, Task, RunSpec] | None:
    instance = draft.instances.get(instance_of(task_id) or "")
    if instance is None or instance.task is None or instance.task.id != task_id:
        return None
    spec = draft.spec_of(instance)
    if spec is None or index >= len(spec.document["healthChecks"]):
        return None
    return instance, instance.task, spec


def _note(draft: Draft, instance: Instance, task: Task, spec: RunSpec, index: int, *, alive: bool, cause: str) -> None:
    check, results = spec.document["healthChecks"][index], draft.health.get(task.id) or {}
    before = results.get(index, Health())
    if alive:
        after = before.after_success(draft.now_s)
    else:
        started_s = task.started_at_s if instance.phase is Phase.RUNNING else None
        # The executor keeps to the grace period of its checks by itself.
        if not is_mesos_level(check) and ignores_failure(check, before, started_s, draft.now_s):
            return
        after = before.after_failure(draft.now_s, cause)
        failed = {"appId": spec.id, "taskId": instance.id, "healthCheck": dict(check)}
        draft.actions.append(Publish("failed_health_check_event", failed))
        if must_end(check, before, after) and instance.phase is Phase.RUNNING:
            _end(draft, instance, task, cause)
    draft.health.put(task.id, {**results, index: after})
    _say_change(draft, instance, before if index in results else None, after, verdict(results))
    draft.touched.add(instance.app_id)


def _end(draft: Draft, instance: Instance, task: Task, cause: str) -> None:
    fields = {
        "appId": instance.app_id,
        "taskId": task.id,
        "instanceId": instance.id,
        "version": task.version,
        "reason": cause,
        "host": task.host,
        "slaveId": task.agent_id,
    }
    draft.actions.append(Publish("unhealthy_instance_kill_event", fields))
    lifecycle.end(draft, task)


def _say_change(draft: Draft, instance: Instance, before: Health | None, after: Health, was: bool | None) -> None:
    version = instance.version
    if before is None or before.alive != after.alive:
        fields = {"appId": instance.app_id, "instanceId": instance.id, "version": version, "alive": after.alive}
        draft.actions.append(Publish("health_status_changed_event", fields))
    now = verdict(draft.health.get(instance.task.id if instance.task else ""))
    if now != was:
        changed = {
            "instanceId": instance.id,
            "runSpecId": instance.app_id,
            "healthy": now,
            "runSpecVersion": version,
        }
        draft.actions.append(Publish("instance_health_changed_event", changed))
