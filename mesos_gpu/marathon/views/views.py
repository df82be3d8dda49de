"""What the API shows of the state: apps, tasks, deployments, the queue. Pure.

Source: Marathon docs/docs/rest-api/public/api/v2/*.raml and raml/*Conversion.scala.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import inf
from typing import Any

from mesos_gpu.marathon.definitions.ports import service_ports_of
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.definitions.timestamps import timestamp
from mesos_gpu.marathon.matching.nvlink import cards_shown
from mesos_gpu.marathon.matching.reasons import Reason
from mesos_gpu.marathon.model.backoff import ready_at
from mesos_gpu.marathon.model.deployment import Deployment, Work
from mesos_gpu.marathon.model.health import Health, Results, verdict
from mesos_gpu.marathon.model.instances import Instance, Task
from mesos_gpu.marathon.model.reservations import Reservation
from mesos_gpu.marathon.state.events import Moment
from mesos_gpu.marathon.state.queue_entry import Place, QueueEntry, funnel
from mesos_gpu.marathon.state.state import State
from mesos_gpu.marathon.views.pod_views import pod_task_views, pod_view
from mesos_gpu.marathon.views.suspensions import suspensions_for, unanswered
from mesos_gpu.marathon.views.task_stats import task_stats
from mesos_gpu.marathon.views.volume_views import local_volumes

Document = dict[str, Any]

EMBEDS = frozenset({"tasks", "counts", "deployments", "readiness", "lastTaskFailure", "taskStats"})


def embeds(asked: Collection[str]) -> frozenset[str]:
    """Return what `?embed=` asks for, without prefixes; what we do not know is ignored."""
    names = {name.rpartition(".")[2] for name in asked}
    if "failures" in names:
        names |= {"tasks", "lastTaskFailure", "deployments"}
    if "tasks" in names:
        names.add("deployments")
    return frozenset(names) & EMBEDS


def is_healthy(state: State, instance: Instance) -> bool | None:
    """Return whether the task of an instance is healthy by its checks; None when it has none, or no result yet."""
    return verdict(state.health.get(instance.task.id)) if instance.task is not None else None


def app_view(
    state: State, spec: RunSpec, embed: Collection[str] = ("counts", "deployments"), moment: Moment | None = None
) -> Document:
    """Return an app with what is asked to be embedded; `taskStats` needs the moment, for the ages of tasks."""
    shown: Document = dict(spec.document)
    instances = state.instances_of(spec.id)
    if "counts" in embed:
        states = [i.task.state for i in instances if i.task is not None]
        shown |= {
            "tasksStaged": states.count("TASK_STAGING"),
            "tasksRunning": states.count("TASK_RUNNING"),
            "tasksHealthy": sum(is_healthy(state, i) is True for i in instances),
            "tasksUnhealthy": sum(is_healthy(state, i) is False for i in instances),
        }
    if "deployments" in embed:
        shown["deployments"] = [{"id": deployment.id} for deployment in state.deployments_of(spec.id)]
    if "tasks" in embed:
        shown["tasks"] = task_views(instances, health=state.health, cards="gpuCards" in embed)
    if "readiness" in embed:
        shown["readinessCheckResults"] = readiness_views(state, [spec.id])
    if "taskStats" in embed and moment is not None:
        shown["tasksStats"] = task_stats(state, spec, instances, moment)
    failure = state.failures.get(spec.id)
    if "lastTaskFailure" in embed and failure is not None:
        shown["lastTaskFailure"] = dict(failure)
    return shown


def task_views(
    instances: Iterable[Instance],
    spec: RunSpec | None = None,
    *,
    health: Mapping[str, Results] | None = None,
    cards: bool = False,
) -> list[Document]:
    """Return the tasks of instances; one that waits for an offer has none (it shows in /v2/queue).

    One with volumes keeps its last task beside them, until the next takes its place. With `spec` they carry their
    app's service ports, with `health` the results of their checks, with `cards` which whole GPUs they have.
    """
    found = health or {}
    views: list[Document] = []
    for instance in instances:
        task = instance.task
        if task is not None and task.containers:
            views += pod_task_views(instance, task, cards=cards)
        elif task is not None:
            shown = _task_view(instance, task, spec, found.get(task.id))
            of_it = cards_shown(task) if cards else None
            views.append(shown if of_it is None else {**shown, "gpuCards": of_it})
        elif instance.reservation is not None and instance.shown_task_id is not None:
            views.append(_past_task(instance, instance.reservation, spec))
    return views


def _past_task(instance: Instance, kept: Reservation, spec: RunSpec | None) -> Document:
    """Return the task that used volumes last; it has neither times nor ports any more."""
    shown: Document = {
        "appId": instance.app_id,
        "id": kept.last_task_id,
        "host": kept.host,
        "state": kept.last_state,
        "role": instance.role,
        "slaveId": kept.agent_id,
        "localVolumes": local_volumes(instance),
        "ipAddresses": [],
        "ports": [],
    }
    if spec is not None:
        shown["servicePorts"] = service_ports_of(spec.document)
    places = (("region", kept.region), ("zone", kept.zone))
    return {**shown, **{key: value for key, value in places if value is not None}}


def readiness_views(state: State, app_ids: Iterable[str]) -> list[Document]:
    """Return the results of readiness checks of apps, as deployments show them."""
    shown = []
    for app_id in app_ids:
        for instance in state.instances_of(app_id):
            found = state.readiness.get(instance.task.id) if instance.task is not None else None
            if found is not None:
                result: Document = {"name": found.name, "taskId": found.task_id, "ready": found.ready}
                shown.append({**result, "lastResponse": dict(found.response)} if found.response else result)
    return shown


def _task_view(instance: Instance, task: Task, spec: RunSpec | None, results: Results | None) -> Document:
    shown: Document = {
        "appId": instance.app_id,
        "id": task.id,
        "host": task.host,
        "state": task.state,
        "role": instance.role,
        "slaveId": task.agent_id,
        "localVolumes": local_volumes(instance),
        "ipAddresses": [{"ipAddress": ip, "protocol": protocol} for ip, protocol in task.ip_addresses],
        "ports": list(task.ports),
        "stagedAt": timestamp(task.staged_at_s),
        "version": task.version,
    }
    if task.started_at_s is not None:
        shown["startedAt"] = timestamp(task.started_at_s)
    if spec is not None:
        shown["servicePorts"] = service_ports_of(spec.document)
    if results:
        shown["healthCheckResults"] = [_health_view(instance, results[index]) for index in sorted(results)]
    if task.check_result is not None:
        shown["checkResult"] = dict(task.check_result)
    if task.gang is not None:
        gang = task.gang
        shown["gang"] = {"id": gang.id, "rank": gang.rank, "size": gang.size, "masterPort": gang.master_port}
    if task.suspension:
        since = timestamp(task.suspension_s)
        shown["suspension"] = {"state": task.suspension, "for": task.suspended_for, "since": since, **unanswered(task)}
    if (no := task.refusal) is not None:
        said = {"what": no.what, "reason": no.reason, "for": no.asked_for, "at": timestamp(no.at_s)}
        shown["suspensionRefused"] = said
    for key, value in (("region", task.region), ("zone", task.zone)):
        if value is not None:
            shown[key] = value
    return shown


def _health_view(instance: Instance, health: Health) -> Document:
    shown: Document = {
        "alive": health.alive,
        "consecutiveFailures": health.consecutive_failures,
        "instanceId": instance.id,
    }
    times = {
        "firstSuccess": health.first_success_s,
        "lastSuccess": health.last_success_s,
        "lastFailure": health.last_failure_s,
    }
    shown |= {name: timestamp(at_s) for name, at_s in times.items() if at_s is not None}
    if health.last_failure_cause is not None:
        shown["lastFailureCause"] = health.last_failure_cause
    return shown


def deployment_view(state: State, deployment: Deployment) -> Document:
    """Return a deployment as /v2/deployments lists it."""
    steps = _steps(deployment)
    current = steps[deployment.current]["actions"] if not deployment.finished else []
    return {
        "id": deployment.id,
        "version": deployment.version,
        "affectedApps": [app_id for app_id in deployment.apps if not deployment.is_pod(app_id)],
        "affectedPods": [app_id for app_id in deployment.apps if deployment.is_pod(app_id)],
        "steps": steps,
        "currentActions": [
            {
                **action,
                "readinessCheckResults": readiness_views(state, [action[key] for key in ("app",) if key in action]),
            }
            for action in current
        ],
        "currentStep": min(deployment.current + 1, len(steps)),
        "totalSteps": len(steps),
    }


def deployment_event(deployment: Deployment) -> Document:
    """Return the plan and its present step, as events carry them."""
    steps = _steps(deployment)
    return {
        "plan": {"id": deployment.id, "version": deployment.version, "steps": steps},
        "currentStep": {"actions": []} if deployment.finished else steps[deployment.current],
    }


def queue_view(state: State, moment: Moment, *, last_offers: bool = False) -> list[Document]:
    """Return the apps that wait for offers, and why the offers so far did not do."""
    counts: dict[str, list[Instance]] = {}
    for instance_id, app_id in state.waiting.items():
        counts.setdefault(app_id, []).append(state.instances[instance_id])
    waiting = [spec for spec in state.apps() if spec.id in counts]
    shown = [_queued(state, spec, counts[spec.id], moment, last_offers=last_offers) for spec in waiting]
    suspensions = suspensions_for(state, waiting)
    return [
        item if spec.id not in suspensions else {**item, "suspensions": suspensions[spec.id]}
        for spec, item in zip(waiting, shown, strict=True)
    ]


def _queued(state: State, spec: RunSpec, waiting: list[Instance], moment: Moment, *, last_offers: bool) -> Document:
    since_s = min(instance.since_s for instance in waiting)
    entry = state.queue.get(spec.id) or QueueEntry(since_s)
    left_s = max(0, round(ready_at(state.backoffs.get(spec.id), spec) - moment.now_s))
    summary: Document = {"processedOffersCount": entry.processed, "unusedOffersCount": entry.unused}
    if entry.last_unused_s is not None:
        summary["lastUnusedOfferAt"] = timestamp(entry.last_unused_s)
    if entry.last_used_s is not None:
        summary["lastUsedOfferAt"] = timestamp(entry.last_used_s)
    last = [unused.reasons[0] for unused in entry.last_offers.values()]
    summary["rejectSummaryLastOffers"] = funnel({reason: last.count(reason) for reason in Reason}, len(last))
    summary["rejectSummaryLaunchAttempt"] = funnel(entry.rejected, sum(entry.rejected.values()))
    shown: Document = {
        "count": len(waiting),
        "delay": {"timeLeftSeconds": left_s, "overdue": left_s == 0},
        "since": timestamp(since_s),
        "processedOffersSummary": summary,
        **({"pod": pod_view(spec)} if spec.is_pod else {"app": dict(spec.document)}),
        "role": spec.document["role"],
    }
    if (place := state.places.get(spec.id)) is not None:
        shown["order"] = _place_view(place)
    if last_offers:
        shown["lastUnusedOffers"] = [
            {"offer": _offer(u.offer), "reason": [r.value for r in u.reasons], "timestamp": timestamp(u.at_s)}
            for u in entry.last_offers.values()
        ]
    return shown


def _place_view(place: Place) -> Document:
    """Return how near an app is to its start, where an order of what waits was asked for."""
    shown: Document = {"place": place.number, "members": place.size, "membersThatFit": place.fits}
    if place.at_s is not None:
        shown["startsBy"] = timestamp(place.at_s) if place.at_s < inf else None
    if place.behind is not None:
        shown["behind"] = place.behind
    return shown


def _offer(offer: Mapping[str, Any]) -> Document:
    return {
        "id": offer["id"]["value"],
        "hostname": offer["hostname"],
        "agentId": offer["agent_id"]["value"],
        "resources": [
            {key: resource[key] for key in ("name", "role", "scalar", "ranges", "set") if key in resource}
            for resource in offer.get("resources", [])
        ],
        "attributes": list(offer.get("attributes", [])),
    }


def steps_view(deployment: Deployment) -> list[Document]:
    """Return the steps of a deployment."""
    return _steps(deployment)


def _steps(deployment: Deployment) -> list[Document]:
    return [
        {"actions": [_action(work, app_id, is_pod=deployment.is_pod(app_id)) for work, app_id in step.actions]}
        for step in deployment.steps
    ]


def _action(work: Work, app_id: str, *, is_pod: bool) -> Document:
    if is_pod:
        return {"action": work.value.replace("Application", "Pod"), "pod": app_id}
    return {"action": work.value, "app": app_id}
