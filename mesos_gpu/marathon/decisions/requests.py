"""The API's changes: each becomes a deployment. Raises what the caller did wrong; then nothing has changed."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from mesos_gpu.errors import BadInput, Conflict, InvalidApp, Locked, MesosGpuError, NotFound, Problem, TooMany
from mesos_gpu.marathon.decisions import gangs, lifecycle, progress
from mesos_gpu.marathon.decisions.reversal import groups_before
from mesos_gpu.marathon.definitions.app import canonical_id, read_app
from mesos_gpu.marathon.definitions.app_ids import parent_id, top_group
from mesos_gpu.marathon.definitions.app_settings import AppRules
from mesos_gpu.marathon.definitions.external_rules import name_conflicts
from mesos_gpu.marathon.definitions.ports import ServicePorts, service_ports
from mesos_gpu.marathon.definitions.resident_rules import resident_changes
from mesos_gpu.marathon.definitions.runspec import RunSpec, restarted, versioned
from mesos_gpu.marathon.definitions.timestamps import later_than
from mesos_gpu.marathon.model.deployment import Deployment, plan
from mesos_gpu.marathon.model.groups import Group, Root, all_groups, conflicts, depths, enforced, is_top_level
from mesos_gpu.marathon.model.instances import Instance, Phase
from mesos_gpu.marathon.model.jobs import run_of
from mesos_gpu.marathon.model.task_ids import instance_of
from mesos_gpu.marathon.state.actions import Answer, Publish
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.marathon.state.events import CancelDeployment, KillTasks, PutApps, RemoveApp, ResetDelay, RestartApp
from mesos_gpu.mesos.ids import TaskId

# An older form in an update replaces what it would become, and does not contradict it.
_OLDER_FORMS = {"ports": "portDefinitions", "uris": "fetch", "ipAddress": "networks"}

MAX_INSTANCES = 50_000
"""Of one app or pod. Nobody has run more with Marathon, and a typing error must not end this process."""


class NoPortLeft(MesosGpuError):
    """All service ports are taken; Marathon answers 500."""


def put_apps(draft: Draft, event: PutApps) -> None:
    """Create or change apps. Raises InvalidApp, Conflict, Locked, NotFound or TooMany."""
    original: dict[str, RunSpec | None] = {}
    target: dict[str, RunSpec | None] = {}
    version, groups, change = next_version(draft), draft.groups(), Change(draft)
    for document in event.documents:
        spec, before = _next_spec(draft, document, event, version, groups, change)
        original[spec.id], target[spec.id] = before, spec
        change.add(spec)
    deploy(draft, event.deployment_id, original, target, force=event.force, version=version)


def remove_app(draft: Draft, event: RemoveApp) -> None:
    """Remove an app; its deployment ends when its tasks have. Raises NotFound, Locked or TooMany."""
    spec = _existing(draft, event.app_id)
    version = next_version(draft)
    deploy(draft, event.deployment_id, {spec.id: spec}, {spec.id: None}, force=event.force, version=version)


def restart_app(draft: Draft, event: RestartApp) -> None:
    """Replace every instance of an app. Raises NotFound, Locked or TooMany."""
    spec = _existing(draft, event.app_id)
    version = next_version(draft)
    new = {spec.id: restarted(spec, version)}
    deploy(draft, event.deployment_id, {spec.id: spec}, new, force=event.force, version=version, restart=True)


def kill_tasks(draft: Draft, event: KillTasks) -> None:
    """End tasks; ids that nothing has are passed over. Raises BadInput for scale with wipe, Locked or TooMany."""
    if event.scale and event.wipe:
        raise BadInput("You cannot use scale and wipe at the same time.")
    chosen = [i for task_id in event.task_ids if (i := _with_task(draft, task_id)) is not None]
    if event.scale or event.wipe:
        chosen = gangs.with_mates(draft, chosen)
    if event.scale and chosen:
        _scale_down(draft, event, chosen)
        return
    for instance in chosen:
        if event.wipe:
            lifecycle.give_up(draft, instance)
        elif instance.reservation is not None:
            lifecycle.end_if_reachable(draft, instance)
        elif instance.task is None or instance.phase is Phase.UNREACHABLE:
            lifecycle.give_up(draft, instance)
        else:
            lifecycle.end(draft, instance.task)
    ended = [task_id for i in chosen if (task_id := i.shown_task_id) is not None]
    answer(draft, event.deployment_id, later_than(None, draft.now_s), ended)


def cancel_deployment(draft: Draft, event: CancelDeployment) -> None:
    """Stop a deployment, and unless forced restore its apps. Raises NotFound, or TooMany."""
    deployment = draft.deployments.get(event.deployment_id)
    if deployment is None:
        raise NotFound(f"DeploymentPlan {event.deployment_id} does not exist")
    progress.cancel(draft, deployment)
    if event.force:
        answer(draft, event.deployment_id, deployment.version)
        return
    version = next_version(draft)
    original: dict[str, RunSpec | None] = {app_id: draft.app(app_id) for app_id in deployment.target}
    target: dict[str, RunSpec | None] = {}
    for app_id, before in deployment.original.items():
        now = original[app_id]
        target[app_id] = None if before is None else versioned(before.definition, version, now)
    left = {spec.id for spec in draft.apps()} - target.keys() | {app_id for app_id, spec in target.items() if spec}
    groups = groups_before(deployment, draft.roots, draft.groups(), left)
    deploy(draft, event.new_deployment_id, original, target, force=True, version=version, groups=groups)


def reset_delay(draft: Draft, event: ResetDelay) -> None:
    """Forget an app's backoff. Raises NotFound when none of its instances waits for an offer."""
    if all(instance.app_id != event.app_id for instance in draft.waiting_instances()):
        raise NotFound(f"Application {event.app_id} not found in tasks queue.")
    draft.backoffs.drop(event.app_id)


def next_version(draft: Draft) -> str:
    """Return the version of a change made now: later than every one there is, of the tree and of every app."""
    known = [spec.version for spec in draft.apps()]
    return later_than(max([*known, *(root.version for root in draft.roots[:1])], default=None), draft.now_s)


class Change:
    """What apps of one change have to know of each other, kept so that thousands of them are read in one pass."""

    def __init__(self, draft: Draft) -> None:
        self.ports = ServicePorts((spec.id, spec.document) for spec in draft.apps())
        self.count = 0
        """How many apps have been read."""

    def add(self, spec: RunSpec) -> None:
        """The next app has been read."""
        self.ports.add(spec.id, spec.document)
        self.count += 1


def redefined(
    draft: Draft, document: object, version: str, *, base: str, groups: Mapping[str, Group], change: Change
) -> RunSpec:
    """Return the app that a whole document in a group's list of apps defines; the present one when it says the same.

    `groups` are those that are to be; `change` has the apps of the same change before it. Raises InvalidApp, or
    Conflict when a pod has its id.
    """
    definition = _checked(draft, document, groups, change, base=base)
    before = draft.app(definition["id"])
    if before is not None and before.is_pod:
        raise Conflict(f"A pod with id [{before.id}] already exists.")
    if before is not None and definition == before.definition:
        return before
    return versioned(definition, version, before)


def _next_spec(
    draft: Draft,
    document: Mapping[str, Any],
    event: PutApps,
    version: str,
    groups: Mapping[str, Group],
    change: Change,
) -> tuple[RunSpec, RunSpec | None]:
    given_id = document.get("id")
    app_id = canonical_id(given_id) if isinstance(given_id, str) and given_id else ""
    before = draft.app(app_id)
    if before is not None and before.is_pod:
        raise Conflict(f"A pod with id [{before.id}] already exists.")
    if before is None and event.create is False:
        raise NotFound(f"App '{app_id}' does not exist")
    if event.partial and document.get("version") is not None:
        definition = _former(draft, app_id, document)
    else:
        base = before.definition if before is not None and event.partial else {}
        definition = _checked(draft, _merged(base, document), groups, change)
    if before is not None and event.create is True:
        raise Conflict(f"An app with id [{app_id}] already exists.")
    if before is not None and definition == before.definition:
        return before, before
    return versioned(definition, version, before), before


def _checked(
    draft: Draft, document: object, groups: Mapping[str, Group], change: Change, *, base: str = "/"
) -> Mapping[str, Any]:
    app = read_app(document, rules_for(draft, document, groups, base), base=base)
    before = draft.app(app["id"])
    used = change.ports.of_others(app["id"])
    try:
        complete = service_ports(app, before.document if before else None, used, draft.settings.service_ports)
    except ValueError as error:
        raise NoPortLeft(str(error)) from None
    if before is not None and (problems := list(resident_changes(before, RunSpec(complete), change.count))):
        raise InvalidApp(problems)
    return complete


def rules_for(draft: Draft, document: object, groups: Mapping[str, Group], base: str) -> AppRules:
    """Return the rules for an app or a pod, among them which groups enforce their role: its own may be new."""
    names = enforced(groups)
    given = document.get("id") if isinstance(document, Mapping) else None
    if draft.settings.groups_enforce_role and isinstance(given, str) and given:
        group = top_group(canonical_id(given, base))
        if group is not None and f"/{group}" not in groups:
            names |= {group}
    return dataclasses.replace(draft.settings.rules, enforced_groups=names)


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
    if instance is None or instance.released or run_of(instance.app_id) is not None:
        return None  # runs of jobs are stopped at /v1/jobs
    if task_id == instance.id or instance.task is None or instance.task.has(task_id):
        return instance
    return instance if task_id == instance.task.id else None


def _scale_down(draft: Draft, event: KillTasks, chosen: Sequence[Instance]) -> None:
    version = next_version(draft)
    fewer = Counter(i.app_id for i in chosen if i.wanted)
    original: dict[str, RunSpec | None] = {}
    target: dict[str, RunSpec | None] = {}
    for app_id, count in fewer.items():
        spec = _existing(draft, app_id)
        definition = {**spec.definition, "instances": max(0, spec.instances - count)}
        original[app_id], target[app_id] = spec, versioned(definition, version, spec)
    deploy(draft, event.deployment_id, original, target, force=event.force, version=version)
    for instance in chosen:
        lifecycle.retire(draft, instance)


def deploy(
    draft: Draft,
    deployment_id: str,
    original: Mapping[str, RunSpec | None],
    target: Mapping[str, RunSpec | None],
    *,
    force: bool,
    version: str,
    restart: bool = False,
    groups: Mapping[str, Group] | None = None,
    changed_group: str | None = None,
) -> None:
    """Lead from `original` to `target`, and to these `groups` (None: as they are), as one deployment.

    `changed_group` is the group that the change is about, by default that of its first app. Raises InvalidApp when
    the tree as a whole could not be, Locked or TooMany.
    """
    wanted = {spec.id: spec for spec in draft.apps()}
    for app_id, spec in target.items():
        wanted.pop(app_id, None)
        if spec is not None:
            wanted[app_id] = spec
    said = draft.groups() if groups is None else groups
    tree = all_groups(said, wanted)
    if draft.settings.groups_enforce_role:
        new = [group for group in tree.values() if is_top_level(group.id) and group.id not in said]
        tree |= {group.id: replace(group, enforce_role=True) for group in new}
    named = name_conflicts({app_id: spec.document for app_id, spec in wanted.items() if not spec.is_pod})
    if problems := conflicts(wanted, tree) + named + _too_many(draft, wanted) + _too_large(target):
        raise InvalidApp(problems)
    deployment = plan(deployment_id, version, original, target, restart=restart, depths=depths(wanted, tree))
    _make_way(draft, deployment, force=force)
    if not deployment.finished or groups is not None:
        draft.put_root(Root(version, tree))
        group_id = changed_group or parent_id(min(target, default="/x"))
        draft.actions.append(Publish("group_change_success", {"groupId": group_id, "version": version}))
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
    answer(draft, deployment.id, deployment.version, deployment=deployment)


def _too_many(draft: Draft, wanted: Mapping[str, RunSpec]) -> list[Problem]:
    """Return a problem when there would be more apps than may be, and more than there are."""
    limit, count = draft.settings.max_apps, sum(not spec.is_pod for spec in wanted.values())
    if limit is None or count <= max(limit, sum(not spec.is_pod for spec in draft.apps())):
        return []
    sentence = (
        f"This Marathon instance may only handle up to {limit} Apps! (Override with command line option --max_apps)"
    )
    return [Problem("/", sentence, sentence, "remove apps that are not needed")]


def _too_large(target: Mapping[str, RunSpec | None]) -> list[Problem]:
    """Return a problem for every app or pod of more instances than one Marathon can look after."""
    sentence = f"at most {MAX_INSTANCES} instances of one app or pod are looked after"
    return [
        Problem("/instances", sentence, f"{sentence}, and {spec.id} asks for {spec.instances}", "make it several apps")
        for spec in target.values()
        if spec is not None and spec.instances > MAX_INSTANCES
    ]


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


def answer(
    draft: Draft,
    deployment_id: str,
    version: str,
    task_ids: Sequence[TaskId] = (),
    *,
    deployment: Deployment | None = None,
) -> None:
    """Answer the call that asked for a change."""
    draft.actions.append(Answer(deployment_id, version, task_ids, deployment))
