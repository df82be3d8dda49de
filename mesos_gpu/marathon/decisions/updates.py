"""Task statuses: what each means for an instance, and the safety net of timeouts and reconciliation."""

from __future__ import annotations

from msgspec.structs import replace

from mesos_gpu.marathon.decisions import job_progress, lifecycle, residency, suspending
from mesos_gpu.marathon.decisions.health_updates import take_status_health
from mesos_gpu.marathon.decisions.run_limits import RunLimits, ends_s
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.definitions.timestamps import timestamp
from mesos_gpu.marathon.matching.checks import check_result
from mesos_gpu.marathon.model.backoff import after_failure
from mesos_gpu.marathon.model.deployment import Work
from mesos_gpu.marathon.model.health import mesos_level
from mesos_gpu.marathon.model.instances import (
    COMING_UP,
    FAILURES,
    Cause,
    ContainerTask,
    Goal,
    Instance,
    Phase,
    Task,
    cause_of,
    moved,
)
from mesos_gpu.marathon.model.jobs import run_of
from mesos_gpu.marathon.model.task_ids import app_of, instance_of
from mesos_gpu.marathon.state import pods
from mesos_gpu.marathon.state.actions import Acknowledge, Kill, Publish, Reconcile, Say
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.marathon.state.given_back import NO_CALLS
from mesos_gpu.marathon.state.run_times import learn
from mesos_gpu.marathon.state.settings import Settings
from mesos_gpu.mesos.documents import TaskStatus
from mesos_gpu.mesos.ids import TaskId
from mesos_gpu.mesos.shares.gpu_links import labelled_cards

MAX_MESSAGE = 10_000
"""Characters kept of a status message."""
# Nothing runs then, or it is being ended already.
_NOTHING_TO_END = (Cause.TASK_ENDED, Cause.TASK_UNREACHABLE, Cause.TASK_KILLING)


def take_status(draft: Draft, status: TaskStatus) -> None:
    """Take note of a status, and acknowledge it once that is on disk."""
    task_id = status["task_id"]["value"]
    cause = cause_of(status["state"], status.get("reason"))
    instance = draft.instances.get(instance_of(task_id) or "")
    if instance is not None and instance.task is not None and cause is Cause.TASK_ENDED and "uuid" in status:
        # What a master says by itself has no UUID, and its own time.
        draft.ended[instance.task.id] = pods.said_s(status, draft.now_s)
    if instance is not None and task_id == instance.place_id:
        residency.take_place(draft, instance, status)
    elif instance is None or instance.task is None or not instance.task.has(task_id):
        _take_unknown(draft, task_id, status, cause)
    elif instance.phase is Phase.ENDED:
        pass  # a member of a gang that has done its part and is kept: a network, or a genuine master, is late with this
    elif instance.task.containers:
        _take_container(draft, instance, instance.task, status)
    else:
        _take_known(draft, instance, instance.task, status, cause)
    if instance is not None and _drained(status):
        draft.backoffs.drop(instance.app_id)
    if "uuid" in status:
        draft.actions.append(Acknowledge(status))


def _drained(status: TaskStatus) -> bool:
    """Return whether a task has ended for its agent is drained: what its app did before says nothing about the next.

    Source: Marathon core/task/update/impl/steps/NotifyRateLimiterStepImpl.scala (agentDraining).
    """
    ended = status["state"] in ("TASK_KILLED", "TASK_GONE_BY_OPERATOR")
    return ended and status.get("reason") == "REASON_AGENT_DRAINING"


def _take_known(draft: Draft, instance: Instance, task: Task, status: TaskStatus, cause: Cause) -> None:
    spec = draft.spec_of(instance)  # a run of a job may be over, and its spec gone, after the next line
    job_progress.take_status(draft, instance, task.id, status, cause)
    after = _task_after(task, status, cause, draft.now_s)
    if _changed(task, after) or _health_changed(draft, instance, task, status):
        _publish_status(draft, instance, after, status)
    if cause is Cause.TASK_ENDED:
        _note_failure(draft, instance, task, status)
        if status["state"] == "TASK_FINISHED":
            learn(draft, draft.spec_of(instance), task, draft.ended.get(task.id, draft.now_s))
    _move(draft, instance, task, after, cause, spec, failed=status["state"] in FAILURES)
    known = draft.instances.get(instance.id)
    if cause is Cause.TASK_RUNNING and known is not None:
        take_status_health(draft, known, after, status)
        suspending.heard(draft, draft.instances[instance.id], str(status.get("message", "")))
        if instance.phase is Phase.UNREACHABLE:
            suspending.asked_anew(draft, draft.instances[instance.id])


def _take_container(draft: Draft, instance: Instance, task: Task, status: TaskStatus) -> None:
    """Take note of how one container of a pod is; what the instance is follows from all of them."""
    after = pods.task_after(task, status, draft.now_s)
    if after is None:
        return
    containers = zip(task.containers, after.containers, strict=True)
    if any(_changed(before, now) or before.healthy != now.healthy for before, now in containers):
        _publish_status(draft, instance, after, status)
    cause = pods.cause_of_all(after)
    failed = any(container.state in FAILURES for container in after.containers)
    if cause is Cause.TASK_ENDED and draft.app(instance.app_id) is not None:
        known = draft.failures.get(instance.app_id) or {}
        draft.failures.put(instance.app_id, pods.terminations(known, instance, after, draft.now_s))
    _move(draft, instance, task, after, cause, draft.spec_of(instance), failed=failed)
    if pods.verdict(after) != pods.verdict(task):
        draft.actions.append(pods.health_event(instance, after))


def _move(
    draft: Draft, instance: Instance, task: Task, after: Task, cause: Cause, spec: RunSpec | None, *, failed: bool
) -> None:
    """Do what follows from `cause` for an instance whose task was `task` and is `after`; `spec` is what it was of."""
    was_ending, before = task.id in draft.kills, instance
    instance = replace(moved(instance, cause, draft.now_s), task=after)
    if cause is Cause.TASK_ENDED:
        if draft.ordered and draft.waiting and spec is not None:
            draft.freed, draft.calls = (*draft.freed, (task, spec, draft.now_s)), NO_CALLS
        # A task that was asked to end and ended is not a failure, whatever its exit status.
        if failed and not was_ending:
            _note_backoff(draft, instance)
        if "TASK_GONE_BY_OPERATOR" in (after.state, *(container.state for container in after.containers)):
            # That agent will not come back, nor will what it kept (InstanceUpdater.shouldAbandonReservation).
            instance = replace(instance, reservation=None)
        elif residency.never_there(after):
            instance = residency.in_doubt(instance, draft.now_s)
        if after.gang is not None and after.state == "TASK_FINISHED" and instance.wanted and not was_ending:
            draft.put_instance(instance)  # it has done its part; when all have, they start again (gangs.mend)
            return
        lifecycle.after_end(draft, instance, replaced=_is_restarting(draft, instance.app_id))
        return
    if instance != before or not _all_begun(draft):
        draft.put_instance(instance)
    if cause is Cause.TASK_RUNNING and task.started_at_s is None:
        draft.tokens = draft.tokens.returned(most=draft.settings.launch_tokens)
    if cause is Cause.TASK_UNREACHABLE:
        _watch_unreachable(draft, instance)
        return
    known = draft.backoffs.get(instance.app_id)
    # An answer to a reconciliation is no sign of life: others of the app would wait for ever behind one that runs.
    # Source: Marathon core/task/update/impl/steps/NotifyRateLimiterStepImpl.scala (conditionUpdated).
    if known is not None and instance.phase is not Phase.KILLING and instance.condition != before.condition:
        draft.backoffs.put(instance.app_id, known.advanced(draft.now_s))
    if instance.goal is Goal.STOPPED:
        lifecycle.end_if_reachable(draft, instance)
    elif not instance.wanted:
        lifecycle.give_up(draft, instance)


def _all_begun(draft: Draft) -> bool:
    """Return whether each deployment was looked at in this process.

    Then a status that tells nothing new, as most answers to a reconciliation do, is nothing to write down, nor to look
    at an app's instances for.
    """
    return len(draft.pending) >= len(draft.deployments)


def _take_unknown(draft: Draft, task_id: TaskId, status: TaskStatus, cause: Cause) -> None:
    """A task that is not ours to keep is ended: it was given up, or its record was lost with an older store."""
    if cause not in _NOTHING_TO_END:
        agent_id = status.get("agent_id", {}).get("value")
        draft.actions += [Say(f"ending task {task_id}, which no app asks for"), Kill(task_id, agent_id)]
        return
    app_id = app_of(task_id)
    if app_id is not None and status["state"] != "TASK_UNKNOWN":
        instance_id = instance_of(task_id) or task_id
        fields = {"instanceId": instance_id, "runSpecId": app_id, "condition": status["state"].removeprefix("TASK_")}
        draft.actions.append(Publish("unknown_instance_terminated_event", fields))


def _task_after(task: Task, status: TaskStatus, cause: Cause, now_s: float) -> Task:
    infos = status.get("container_status", {}).get("network_infos", [])
    addresses = tuple(
        (address["ip_address"], address.get("protocol", "IPv4"))
        for info in infos
        for address in info.get("ip_addresses", [])
        if "ip_address" in address
    )
    running = cause is Cause.TASK_RUNNING
    return replace(
        task,
        state="TASK_UNREACHABLE" if cause is Cause.TASK_UNREACHABLE else status["state"],
        ip_addresses=addresses or task.ip_addresses,
        started_at_s=task.started_at_s or pods.said_s(status, now_s) if running else task.started_at_s,
        whole_cards=labelled_cards(status) or task.whole_cards,
        check_result=check_result(status["check_status"]) if "check_status" in status else task.check_result,
        unreachable_since_s=(task.unreachable_since_s or now_s) if cause is Cause.TASK_UNREACHABLE else None,
    )


def _note_failure(draft: Draft, instance: Instance, task: Task, status: TaskStatus) -> None:
    kept = draft.app(instance.app_id) is not None and run_of(instance.app_id) is None
    if status["state"] in ("TASK_FINISHED", "TASK_KILLED") or not kept:
        return
    failure = {
        "appId": instance.app_id,
        "host": task.host,
        "message": status.get("message", "")[:MAX_MESSAGE],
        "state": status["state"],
        "taskId": task.id,
        "timestamp": timestamp(draft.now_s),
        "version": task.version,
        "slaveId": task.agent_id,
    }
    draft.failures.put(instance.app_id, failure)


def _note_backoff(draft: Draft, instance: Instance) -> None:
    spec = draft.app(instance.app_id)
    # What an older version did says nothing about this one.
    if spec is not None and not lifecycle.outdated(instance, spec):
        draft.backoffs.put(spec.id, after_failure(draft.backoffs.get(spec.id), spec, draft.now_s))


def _watch_unreachable(draft: Draft, instance: Instance) -> None:
    """Forget an instance on a lost agent once its app says so; `progress` puts another in its place."""
    spec = draft.app(instance.app_id)
    strategy = spec.document["unreachableStrategy"] if spec is not None else {"expungeAfterSeconds": 0}
    if instance.goal is Goal.STOPPED:
        return  # it keeps its volumes there until its agent is back
    if not instance.wanted:
        lifecycle.give_up(draft, instance)
    elif strategy != "disabled" and instance.task is not None:
        since_s = instance.task.unreachable_since_s or draft.now_s
        if draft.now_s >= since_s + strategy["expungeAfterSeconds"]:
            lifecycle.give_up(draft, instance)
        else:
            draft.touched.add(instance.app_id)


def start_timeout_s(instance: Instance, settings: Settings) -> float:
    """Return how long the task of an instance that is coming up may take from its launch on."""
    return settings.confirm_timeout_s if instance.phase is Phase.PROVISIONED else settings.launch_timeout_s


def watch(draft: Draft) -> None:
    """Look after what should have happened by now: tasks that never ran, kills without answer, lost agents."""
    settings, limits = draft.settings, RunLimits(draft)
    residency.watch(draft)
    suspending.watch(draft)
    for instance in list(draft.instances.values()):
        task = instance.task
        if task is None or not instance.active:
            continue
        if instance.phase is Phase.UNREACHABLE:
            _watch_unreachable(draft, instance)
        elif task.id in draft.kills or not instance.wanted:
            lifecycle.end(draft, task)
        elif (limit_s := limits[instance.app_id]) is not None and draft.now_s >= ends_s(task, limit_s):
            draft.actions.append(Say(f"{task.id} has run for {limit_s} s, all it may; ending it"))
            lifecycle.end(draft, task)
        elif instance.phase in COMING_UP and draft.now_s >= task.staged_at_s + start_timeout_s(instance, settings):
            waited_s = start_timeout_s(instance, settings)
            draft.actions.append(Say(f"{task.id} is not running after {waited_s:g} s; ending it"))
            lifecycle.end(draft, task)
    if draft.subscribed and draft.reconcile_at_s is not None and draft.now_s >= draft.reconcile_at_s:
        reconcile(draft, again_in_s=settings.reconcile_interval_s)


def reconcile(draft: Draft, *, again_in_s: float) -> None:
    """Ask the master for the state of every task we know, then for the tasks that it knows."""
    active = [i.task for i in draft.instances.values() if i.task is not None and i.active]
    known = {task_id: task.agent_id for task in active for task_id in task.living_ids}
    known |= residency.places(draft.instances.values())
    if known:
        draft.actions.append(Reconcile(known))
    draft.actions.append(Reconcile({}))
    draft.reconcile_at_s = draft.now_s + again_in_s


def _is_restarting(draft: Draft, app_id: str) -> bool:
    return any(
        (Work.RESTART, app_id) in step.actions for d in draft.deployments.values() for step in d.steps[d.current :]
    )


def _changed(before: Task | ContainerTask, after: Task | ContainerTask) -> bool:
    """Return whether a status told something new, its health aside; answers to a reconciliation mostly do not.

    Source: Marathon core/task/Task.scala (update, updatedHealthOrState): what changes nothing is no event.
    """
    return after.state != before.state or after.check_result != before.check_result


def _health_changed(draft: Draft, instance: Instance, task: Task, status: TaskStatus) -> bool:
    spec = draft.spec_of(instance)
    index = None if spec is None else mesos_level(spec.document["healthChecks"])
    if index is None or "healthy" not in status:
        return False
    known = (draft.health.get(task.id) or {}).get(index)
    return known is None or known.alive != status["healthy"]


def _publish_status(draft: Draft, instance: Instance, task: Task, status: TaskStatus) -> None:
    fields = {
        "slaveId": task.agent_id,
        "taskId": status["task_id"]["value"],
        "taskStatus": status["state"],
        "message": status.get("message", "")[:MAX_MESSAGE],
        "appId": instance.app_id,
        "host": task.host,
        "ipAddresses": [{"ipAddress": ip, "protocol": protocol} for ip, protocol in task.ip_addresses],
        "ports": list(task.ports),
        "version": task.version,
    }
    draft.actions.append(Publish("status_update_event", fields))
