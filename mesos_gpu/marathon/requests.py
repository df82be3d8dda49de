"""The API's changes: each becomes a deployment. Raises what the caller did wrong; then nothing has changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from mesos_gpu.errors import BadInput, Conflict, InvalidApp, Locked, NotFound, Problem, TooMany
from mesos_gpu.marathon import lifecycle, progress
from mesos_gpu.marathon.actions import Answer, Publish
from mesos_gpu.marathon.app import canonical_id, read_app
from mesos_gpu.marathon.deployment import Deployment, plan
from mesos_gpu.marathon.events import CancelDeployment, KillTasks, PutApps, RemoveApp, ResetDelay, RestartApp
from mesos_gpu.marathon.instances import Instance, Phase, instance_of
from mesos_gpu.marathon.ports import service_ports, service_ports_of
from mesos_gpu.marathon.runspec import RunSpec, restarted, versioned
from mesos_gpu.marathon.state import Draft
from mesos_gpu.marathon.timestamps import later_than
from mesos_gpu.marathon.unsupported import refuse_unsupported

# An older form in an update replaces what it would become, and does not contradict it.
_OLDER_FORMS = {"ports": "portDefinitions", "uris": "fetch", "ipAddress": "networks"}


def put_apps(draft: Draft, event: PutApps) -> None:
    """Create or change apps. Raises InvalidApp, Conflict, Locked, NotFound or TooMany."""
    original: dict[str, RunSpec | None] = {}
    target: dict[str, RunSpec | None] = {}
    for document in event.documents:
        spec, before = _next_version(draft, document, event)
        original[spec.id], target[spec.id] = before, spec
    _deploy(draft, event.deployment_id, original, target, force=event.force)


def remove_app(draft: Draft, event: RemoveApp) -> None:
    """Remove an app; its deployment ends when its tasks have. Raises NotFound, Locked or TooMany."""
    spec = _existing(draft, event.app_id)
    _deploy(draft, event.deployment_id, {spec.id: spec}, {spec.id: None}, force=event.force)


def restart_app(draft: Draft, event: RestartApp) -> None:
    """Replace every instance of an app. Raises NotFound, Locked or TooMany."""
    spec = _existing(draft, event.app_id)
    new = restarted(spec, later_than(spec.version, draft.now_s))
    _deploy(draft, event.deployment_id, {spec.id: spec}, {spec.id: new}, force=event.force, restart=True)


def kill_tasks(draft: Draft, event: KillTasks) -> None:
    """End tasks; ids that nothing has are passed over. Raises BadInput for scale with wipe, Locked or TooMany."""
    if event.scale and event.wipe:
        raise BadInput("You cannot use scale and wipe at the same time.")
    chosen = [i for task_id in event.task_ids if (i := _with_task(draft, task_id)) is not None]
    if event.scale and chosen:
        _scale_down(draft, event, chosen)
        return
    for instance in chosen:
        if event.wipe or instance.task is None or instance.phase is Phase.UNREACHABLE:
            lifecycle.give_up(draft, instance)
        else:
            lifecycle.end(draft, instance.task)
    _answer(draft, event.deployment_id, later_than(None, draft.now_s), [i.task.id for i in chosen if i.task])


def cancel_deployment(draft: Draft, event: CancelDeployment) -> None:
    """Stop a deployment, and unless forced lead its apps back. Raises NotFound, or TooMany."""
    deployment = draft.deployments.get(event.deployment_id)
    if deployment is None:
        raise NotFound(f"DeploymentPlan {event.deployment_id} does not exist")
    progress.cancel(draft, deployment)
    if event.force:
        _answer(draft, event.deployment_id, deployment.version)
        return
    original: dict[str, RunSpec | None] = {app_id: draft.app(app_id) for app_id in deployment.target}
    target: dict[str, RunSpec | None] = {}
    for app_id, before in deployment.original.items():
        now = original[app_id]
        version = later_than(now.version if now else None, draft.now_s)
        target[app_id] = None if before is None else versioned(before.definition, version, now)
    _deploy(draft, event.new_deployment_id, original, target, force=True)


def reset_delay(draft: Draft, event: ResetDelay) -> None:
    """Forget an app's backoff. Raises NotFound when none of its instances waits for an offer."""
    if all(instance.app_id != event.app_id for instance in draft.waiting()):
        raise NotFound(f"Application {event.app_id} not found in tasks queue.")
    draft.backoffs.drop(event.app_id)


def _next_version(draft: Draft, document: Mapping[str, Any], event: PutApps) -> tuple[RunSpec, RunSpec | None]:
    given_id = document.get("id")
    app_id = canonical_id(given_id) if isinstance(given_id, str) and given_id else ""
    before = draft.app(app_id)
    if before is None and event.create is False:
        raise NotFound(f"App '{app_id}' does not exist")
    if event.partial and document.get("version") is not None:
        definition = _former(draft, app_id, document)
    else:
        base = before.definition if before is not None and event.partial else {}
        definition = _checked(draft, _merged(base, document))
    if before is not None and event.create is True:
        raise Conflict(f"An app with id [{app_id}] already exists.")
    if before is not None and definition == before.definition:
        return before, before
    version = later_than(before.version if before else None, draft.now_s)
    return versioned(definition, version, before), before


def _checked(draft: Draft, document: Mapping[str, Any]) -> Mapping[str, Any]:
    app = read_app(document, draft.settings.rules)
    refuse_unsupported(app, mesos_role=draft.settings.role)
    before = draft.app(app["id"])
    others = {
        port
        for versions in draft.versions.values()
        if versions[0].id != app["id"]
        for port in service_ports_of(versions[0].document)
    }
    return service_ports(app, before.document if before else None, others)


def _merged(base: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with the top-level keys of `document` over it; a null takes a key away."""
    replaced = {_OLDER_FORMS[key] for key in document if key in _OLDER_FORMS}
    kept = {key: value for key, value in base.items() if key not in replaced}
    return {**kept, **document}


def _former(draft: Draft, app_id: str, document: Mapping[str, Any]) -> Mapping[str, Any]:
    extra = sorted(key for key, value in document.items() if key not in ("id", "version") and value is not None)
    if extra:
        sentence = "The 'version' field may only be combined with the 'id' field."
        raise InvalidApp([Problem("/", sentence, f"{sentence} Here is also: {', '.join(extra)}", key=extra[0])])
    for spec in draft.versions.get(app_id) or ():
        if spec.version == document["version"]:
            return spec.definition
    raise NotFound(f"App '{app_id}' does not exist in version {document['version']}")


def _existing(draft: Draft, app_id: str) -> RunSpec:
    spec = draft.app(app_id)
    if spec is None:
        raise NotFound(f"App '{app_id}' does not exist")
    return spec


def _with_task(draft: Draft, task_id: str) -> Instance | None:
    instance = draft.instances.get(instance_of(task_id) or task_id)
    if instance is None or (instance.task is not None and task_id not in (instance.task.id, instance.id)):
        return None
    return instance


def _scale_down(draft: Draft, event: KillTasks, chosen: Sequence[Instance]) -> None:
    fewer = Counter(i.app_id for i in chosen if i.wanted)
    original: dict[str, RunSpec | None] = {}
    target: dict[str, RunSpec | None] = {}
    for app_id, count in fewer.items():
        spec = _existing(draft, app_id)
        definition = {**spec.definition, "instances": max(0, spec.instances - count)}
        original[app_id], target[app_id] = spec, versioned(definition, later_than(spec.version, draft.now_s), spec)
    _deploy(draft, event.deployment_id, original, target, force=event.force)
    for instance in chosen:
        lifecycle.give_up(draft, instance)


def _deploy(
    draft: Draft,
    deployment_id: str,
    original: Mapping[str, RunSpec | None],
    target: Mapping[str, RunSpec | None],
    *,
    force: bool,
    restart: bool = False,
) -> None:
    new = [spec.version for spec in target.values() if spec is not None]
    known = [spec.version for spec in original.values() if spec is not None]
    version = max(new) if new else later_than(max(known, default=None), draft.now_s)
    deployment = plan(deployment_id, version, original, target, restart=restart)
    _make_way(draft, deployment, force=force)
    for app_id, spec in target.items():
        if spec is None:
            before = draft.app(app_id)
            if before is not None and before.document["healthChecks"]:
                draft.actions.append(Publish("remove_health_check_event", {"appId": app_id}))
            draft.drop_app(app_id)
        elif spec is not original.get(app_id):
            draft.put_app(spec)
            _say_checks(draft, spec)
    progress.start(draft, deployment)
    _answer(draft, deployment.id, deployment.version)


def _say_checks(draft: Draft, spec: RunSpec) -> None:
    for check in spec.document["healthChecks"]:
        fields = {"appId": spec.id, "version": spec.version, "healthCheck": dict(check)}
        draft.actions.append(Publish("add_health_check_event", fields))


def _make_way(draft: Draft, deployment: Deployment, *, force: bool) -> None:
    if deployment.finished:
        return
    running = list(draft.deployments.values())
    in_the_way = [d for d in running if not set(d.apps).isdisjoint(deployment.apps)]
    if in_the_way and not force:
        shared = sorted(set(deployment.apps).intersection(*(d.apps for d in in_the_way[:1])))
        raise Locked(shared[0], [d.id for d in in_the_way])
    if len(running) - len(in_the_way) >= draft.settings.max_running_deployments:
        raise TooMany(
            f"Max number ({draft.settings.max_running_deployments}) of running deployments is achieved. "
            "Wait for existing deployments to complete or cancel one."
        )
    for other in in_the_way:
        progress.cancel(draft, other)


def _answer(draft: Draft, deployment_id: str, version: str, task_ids: Sequence[str] = ()) -> None:
    draft.actions.append(Answer(deployment_id, version, task_ids))
