"""Bringing the number of instances to what is asked: within a deployment step by step, and at all other times."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

from msgspec.structs import replace

from mesos_gpu.marathon.decisions import gangs, lifecycle
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.constraints import from_fullest
from mesos_gpu.marathon.model.deployment import Counts, Deployment, Work, rolling
from mesos_gpu.marathon.model.health import verdict
from mesos_gpu.marathon.model.instances import Goal, Instance, Phase
from mesos_gpu.marathon.state import pods
from mesos_gpu.marathon.state.actions import Publish
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.marathon.views.views import deployment_event

# Who goes first when there are too many: those that have come least far.
_KILL_ORDER = (
    Phase.SCHEDULED,
    Phase.UNREACHABLE,
    Phase.PROVISIONED,
    Phase.STAGING,
    Phase.STARTING,
    Phase.RUNNING,
    Phase.KILLING,
    Phase.ENDED,
)


def settle(draft: Draft) -> None:
    """Carry every deployment as far as it goes now, and keep the count of all apps that something happened to."""
    while draft.touched or draft.came_on:
        touched, draft.touched = draft.touched, set()
        came_on, draft.came_on = draft.came_on - touched, set()
        touched.update(app_id for app_id in came_on if not _others_come(draft, app_id))
        if not touched:
            return
        busy: set[str] = set()
        for deployment in list(draft.deployments.values()):
            busy.update(deployment.apps)
            if not touched.isdisjoint(deployment.apps):
                _advance(draft, deployment, touched)
        for app_id in sorted(touched - busy):
            spec = draft.app(app_id)
            if spec is None:
                _stop(draft, app_id)
            else:
                _scale(draft, spec)


def _others_come(draft: Draft, app_id: str) -> bool:
    """Return whether an app of which some have come on cannot be done yet, as others come up.

    Then there is nothing to decide: no more are there, and no fewer. But for gangs, and for one that is restarted:
    there each that runs lets an old one go.
    """
    if not draft.coming_up.of(app_id):
        return False
    spec = draft.app(app_id)
    if spec is None or "gang" in spec.document:
        return False
    steps = (step for d in draft.deployments_of(app_id) for step in d.steps[d.current :])
    return not any((Work.RESTART, app_id) in step.actions for step in steps)


def start(draft: Draft, deployment: Deployment) -> None:
    """Begin a deployment; one without steps has already ended."""
    draft.actions.append(Publish("deployment_info", deployment_event(deployment)))
    if deployment.finished:
        draft.actions.append(Publish("deployment_success", _ended(deployment)))
        return
    for app_id in deployment.apps:
        if any((Work.RESTART, app_id) in step.actions for step in deployment.steps):
            draft.backoffs.drop(app_id)
    draft.deployments.put(deployment.id, deployment)
    draft.touched.update(deployment.apps)


def cancel(draft: Draft, deployment: Deployment) -> None:
    """End a deployment where it is; what it started stays."""
    _drop(draft, deployment)
    draft.actions.append(Publish("deployment_failed", {**_ended(deployment), "reason": "canceled"}))


def _advance(draft: Draft, deployment: Deployment, touched: Collection[str]) -> None:
    while not deployment.finished:
        step, pending = draft.pending.get(deployment.id) or (-1, frozenset())
        actions = deployment.steps[deployment.current].actions
        if step == deployment.current:
            # Nothing has happened to the others: what they wait for has not come, and what was done is done.
            actions = tuple((work, app_id) for work, app_id in actions if app_id in touched)
        # Each action moves on, also when another of the step is not done.
        done = {app_id: _work(draft, work, app_id) for work, app_id in actions}
        pending = (pending - done.keys()) | {app_id for app_id, is_done in done.items() if not is_done}
        draft.pending.put(deployment.id, (deployment.current, pending))
        if pending:
            return
        draft.actions.append(Publish("deployment_step_success", deployment_event(deployment)))
        deployment = dataclasses.replace(deployment, current=deployment.current + 1)
        draft.deployments.put(deployment.id, deployment)
    _drop(draft, deployment)
    draft.actions.append(Publish("deployment_success", _ended(deployment)))


def _drop(draft: Draft, deployment: Deployment) -> None:
    draft.deployments.drop(deployment.id)
    draft.pending.drop(deployment.id)
    draft.touched.update(deployment.apps)


def _work(draft: Draft, work: Work, app_id: str) -> bool:
    """Do what can be done now for one action; return whether it is done."""
    spec = draft.app(app_id)
    if work is Work.STOP:
        return _stop(draft, app_id) if spec is None else True
    if spec is None or work is Work.START:
        return True
    return _scale(draft, spec) if work is Work.SCALE else _restart(draft, spec)


def _stop(draft: Draft, app_id: str) -> bool:
    for instance in draft.instances_of(app_id):
        if instance.goal is not Goal.DECOMMISSIONED:
            lifecycle.give_up(draft, instance)
    return not draft.instances_of(app_id)


def _scale(draft: Draft, spec: RunSpec) -> bool:
    _mend(draft, spec)
    spec = draft.app(spec.id) or spec
    members = _at_work(draft, spec)
    counted = [i for i in members if i.wanted and not _replaceable(i, spec, draft.now_s)]
    missing = spec.instances - len(counted)
    lifecycle.create(draft, spec, missing)
    for instance in victims(draft, counted, spec, -missing):
        lifecycle.retire(draft, instance)
    return (
        missing == 0 and all(ready(draft, i) or gangs.finished(i) for i in counted) and all(i.wanted for i in members)
    )


def _mend(draft: Draft, spec: RunSpec) -> None:
    if "gang" in spec.document:
        lost = [i for i in draft.instances_of(spec.id) if _replaceable(i, spec, draft.now_s)]
        gangs.mend(draft, spec, lost)


def _restart(draft: Draft, spec: RunSpec) -> bool:
    _mend(draft, spec)
    spec = draft.app(spec.id) or spec
    for instance in draft.instances_of(spec.id):
        if instance.wanted and not instance.active and not instance.task and lifecycle.outdated(instance, spec):
            if instance.reservation is None:
                draft.drop_instance(instance)
            else:
                draft.put_instance(replace(instance, version=spec.version))
    members = [i for i in _at_work(draft, spec) if not (i.wanted and _replaceable(i, spec, draft.now_s))]
    old = [i for i in members if i.wanted and lifecycle.outdated(i, spec)]
    new = [i for i in members if i.wanted and not lifecycle.outdated(i, spec)]
    counts = Counts(
        old=len(old),
        old_healthy=sum(healthy(draft, i) for i in old),
        old_active=len(members) - len(new),
        new=len(new),
        new_healthy=sum(ready(draft, i) for i in new),
    )
    move = rolling(spec, counts, resident=spec.resident)
    for instance in victims(draft, old, spec, move.kill):
        lifecycle.retire(draft, instance)
    lifecycle.create(draft, spec, move.start)
    for instance in victims(draft, new, spec, len(new) - spec.instances):
        lifecycle.retire(draft, instance)
    return len(members) == len(new) == spec.instances and all(ready(draft, i) or gangs.finished(i) for i in new)


def _at_work(draft: Draft, spec: RunSpec) -> list[Instance]:
    """Return the instances of an app but those that only keep volumes for later."""
    return [instance for instance in draft.instances_of(spec.id) if not instance.resting]


def healthy(draft: Draft, instance: Instance) -> bool:
    """Return whether an instance runs and is healthy by its own version's checks; without any, running is enough."""
    if instance.phase is not Phase.RUNNING or instance.task is None or instance.task.id in draft.kills:
        return False
    spec = draft.spec_of(instance)
    if spec is not None and spec.is_pod:
        return pods.healthy(spec, instance.task)
    if spec is None or not spec.document["healthChecks"]:
        return True
    return verdict(draft.health.get(instance.task.id)) is True


def ready(draft: Draft, instance: Instance) -> bool:
    """Return whether a deployment may count a new instance: healthy, and ready where the app has a readiness check."""
    if not healthy(draft, instance):
        return False
    spec = draft.spec_of(instance)
    if spec is None or not spec.document["readinessChecks"] or instance.task is None:
        return True
    found = draft.readiness.get(instance.task.id)
    return found is not None and found.ready


def victims(draft: Draft, candidates: Sequence[Instance], spec: RunSpec, count: int) -> list[Instance]:
    """Return the `count` instances to end first.

    Those that are being ended anyway, those that keep a GROUP_BY from being balanced, those that have come least far,
    the unhealthy, then by `killSelection`.
    """
    youngest_first = spec.document["killSelection"] == "YOUNGEST_FIRST"

    def rank(instance: Instance) -> tuple[int, bool, float, str]:
        began_s = instance.task.started_at_s or instance.task.staged_at_s if instance.task else instance.since_s
        return (
            _KILL_ORDER.index(instance.phase),
            healthy(draft, instance),
            -began_s if youngest_first else began_s,
            instance.id,
        )

    if spec.gang_size > 1:
        ends = [i for i in candidates if i.task is not None and i.task.id in draft.kills]
        return gangs.whole([*ends, *sorted((i for i in candidates if i not in ends), key=rank)], max(0, count))
    ending = [i for i in candidates if i.task is not None and i.task.id in draft.kills][: max(0, count)]
    others = sorted((i for i in candidates if i not in ending), key=rank)
    return ending + from_fullest(others, spec.document["constraints"], max(0, count - len(ending)))


def _replaceable(instance: Instance, spec: RunSpec, now_s: float) -> bool:
    """Return whether an instance on a lost agent has been away so long that another takes its place."""
    strategy = spec.document["unreachableStrategy"]
    if instance.phase is not Phase.UNREACHABLE or strategy == "disabled" or instance.task is None:
        return False
    since_s = instance.task.unreachable_since_s
    return since_s is not None and now_s >= since_s + float(strategy["inactiveAfterSeconds"])


def _ended(deployment: Deployment) -> dict[str, Any]:
    return {"id": deployment.id, "plan": deployment_event(deployment)["plan"]}
