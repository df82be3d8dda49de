"""Changes of groups: a tree is given, and a deployment leads to it. Raises what the caller did wrong."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from mesos_gpu.errors import Conflict, InvalidApp, NotFound, Problem
from mesos_gpu.marathon.decisions import pod_requests, requests
from mesos_gpu.marathon.definitions.app import canonical_id
from mesos_gpu.marathon.definitions.app_ids import parent_id
from mesos_gpu.marathon.definitions.app_schema import GROUP
from mesos_gpu.marathon.definitions.runspec import RunSpec, versioned
from mesos_gpu.marathon.model.groups import ROOT, Group, Root, is_top_level, within
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.marathon.state.events import EnforceRole, PutGroup, RemoveGroup
from mesos_gpu.marathon.views.tree import apps_at

Document = Mapping[str, Any]
_ALONE = ("version", "scaleBy")
_CONTENT = ("apps", "groups", "pods")


def put_group(draft: Draft, event: PutGroup) -> None:
    """Create or change a group. Raises InvalidApp, Conflict, Locked, NotFound or TooMany."""
    group_id, document = event.group_id, _clean(event.document)
    problems = GROUP.shape_problems(document)
    if problems:
        raise InvalidApp(problems, stage="Invalid JSON")
    if (taken := draft.app(group_id)) is not None:
        raise Conflict(f"{'A pod' if taken.is_pod else 'An app'} with the path {group_id} already exists.")
    exists = group_id == ROOT or group_id in draft.groups()
    if event.create and exists:
        raise Conflict(f"Group {group_id} is already created. Use PUT to change this group.")
    version = requests.next_version(draft)
    for key in _ALONE:
        if key in document and set(document) - {key, "id"}:
            sentence = f"The '{key}' field may not be combined with other fields."
            raise InvalidApp([Problem("/", sentence, sentence, "send it alone", key=key)])
    if "version" in document:
        tree = _former(draft, group_id, str(document["version"]), version)
    elif "scaleBy" in document:
        tree = _scaled(draft, group_id, float(document["scaleBy"]), version, exists=exists)
    else:
        tree = Tree(draft, version)
        tree.put(group_id, document, "")
    _deploy(draft, event.deployment_id, group_id, tree, version, force=event.force)


def remove_group(draft: Draft, event: RemoveGroup) -> None:
    """Remove a group and everything in it. Raises NotFound, Locked or TooMany."""
    if event.group_id != ROOT and event.group_id not in draft.groups():
        raise NotFound(f"Group '{event.group_id}' does not exist")
    version = requests.next_version(draft)
    tree = Tree(draft, version)
    tree.remove(event.group_id)
    _deploy(draft, event.deployment_id, event.group_id, tree, version, force=event.force)


def enforce_role(draft: Draft, event: EnforceRole) -> None:
    """Say whether the apps of a top-level group must have its role. Raises NotFound; InvalidApp for a deeper one."""
    if event.group_id not in draft.groups():
        raise NotFound(f"Group '{event.group_id}' does not exist")
    _top_level_only(event.group_id, "")
    version = requests.next_version(draft)
    tree = Tree(draft, version)
    tree.groups[event.group_id] = replace(tree.groups[event.group_id], enforce_role=event.enforce_role)
    draft.put_root(Root(version, tree.groups))
    requests.answer(draft, event.deployment_id, version)


class Tree:
    """Apps and groups as they are to be, in the making."""

    def __init__(self, draft: Draft, version: str) -> None:
        self.apps: dict[str, RunSpec] = {spec.id: spec for spec in draft.apps()}
        self.groups: dict[str, Group] = draft.groups()
        self._draft, self._version = draft, version
        self._change = requests.Change(draft)

    def remove(self, group_id: str) -> None:
        """Take out a group with all that is in it; of the root, only what is in it."""
        for app_id in [app_id for app_id in self.apps if within(app_id, group_id)]:
            del self.apps[app_id]
        for other in [other for other in self.groups if other == group_id or within(other, group_id)]:
            del self.groups[other]

    def put(self, group_id: str, document: Document, path: str) -> None:
        """Set a group to what `document` (found at `path`) says of it; lists that are given replace what was there."""
        before = self.groups.get(group_id)
        enforces = self._draft.settings.groups_enforce_role and is_top_level(group_id)
        group = before or Group(group_id, enforce_role=enforces)
        if "dependencies" in document:
            listed = [canonical_id(item, group_id) for item in document["dependencies"]]
            group = replace(group, dependencies=tuple(dict.fromkeys(listed)))
        if "enforceRole" in document and bool(document["enforceRole"]) != group.enforce_role:
            _top_level_only(group_id, path)
            if before is not None and any(key in document for key in _CONTENT):
                sentence = "enforceRole cannot be updated in a request along with other group or service updates."
                raise InvalidApp([Problem(f"{path}/enforceRole", sentence, sentence, "change it in a call of its own")])
            group = replace(group, enforce_role=bool(document["enforceRole"]))
        if group_id != ROOT:
            self.groups[group_id] = group
        if "apps" in document:
            self._put_apps(group_id, document["apps"], path)
        if "pods" in document:
            self._put_pods(group_id, document["pods"], path)
        if "groups" in document:
            self._put_groups(group_id, document["groups"], path)

    def _put_apps(self, group_id: str, documents: list[Document], path: str) -> None:
        def read(document: Document) -> RunSpec:
            draft, version = self._draft, self._version
            spec = requests.redefined(draft, document, version, base=group_id, groups=self.groups, change=self._change)
            self._change.add(spec)
            return spec

        given = _read_all(documents, f"{path}/apps", group_id, read)
        self._replace(group_id, given, pods=False)

    def _put_pods(self, group_id: str, documents: list[Document], path: str) -> None:
        def read(document: Document) -> RunSpec:
            return pod_requests.redefined(self._draft, document, self._version, base=group_id, groups=self.groups)

        self._replace(group_id, _read_all(documents, f"{path}/pods", group_id, read), pods=True)

    def _replace(self, group_id: str, given: Mapping[str, RunSpec], *, pods: bool) -> None:
        for app_id, spec in list(self.apps.items()):
            if spec.is_pod is pods and parent_id(app_id) == group_id:
                del self.apps[app_id]
        both = sorted(given.keys() & self.apps.keys())
        if both:
            sentence = f"Applications and Pods may not share the same id: {both[0]}"
            raise InvalidApp([Problem("/", sentence, sentence, "choose another id")])
        self.apps.update(given)

    def _put_groups(self, group_id: str, documents: list[Document], path: str) -> None:
        named = {}
        for index, document in enumerate(documents):
            place = f"{path}/groups({index})"
            if "id" not in document:
                raise InvalidApp([Problem(f"{place}/id", "error.path.missing", "`id` is missing", "add `id`")])
            child = canonical_id(document["id"], group_id)
            try:
                _child_only(child, group_id)
            except InvalidApp as error:
                raise InvalidApp([_at(place, problem) for problem in error.problems]) from None
            named[child] = (document, place)
        for other in [other for other in self.groups if parent_id(other) == group_id and other not in named]:
            self.remove(other)
        for child, (document, place) in named.items():
            self.put(child, document, place)


def _deploy(draft: Draft, deployment_id: str, group_id: str, tree: Tree, version: str, *, force: bool) -> None:
    before = {spec.id: spec for spec in draft.apps()}
    # Not a set: the order of what is put is that of what is told, and of apps from then on.
    changed = [app_id for app_id in {**before, **tree.apps} if before.get(app_id) is not tree.apps.get(app_id)]
    requests.deploy(
        draft,
        deployment_id,
        {app_id: before.get(app_id) for app_id in changed},
        {app_id: tree.apps.get(app_id) for app_id in changed},
        force=force,
        version=version,
        groups=tree.groups,
        changed_group=group_id,
    )


def _former(draft: Draft, group_id: str, wanted: str, version: str) -> Tree:
    """Return the tree with one group as it was in an earlier version of the whole."""
    root = next((root for root in draft.roots if root.version == wanted), None)
    then = apps_at(draft.versions, wanted, draft.settings.max_versions) if root is not None else None
    if root is None or then is None or not (group_id == ROOT or group_id in root.groups):
        sentence = f"Group {group_id} not available in version {wanted}"
        raise InvalidApp([Problem("/version", sentence, sentence, "see /v2/groups/versions")])
    tree = Tree(draft, version)
    now = dict(tree.apps)
    tree.remove(group_id)
    for app_id, spec in then.items():
        if within(app_id, group_id):
            same = app_id in now and now[app_id].definition == spec.definition
            tree.apps[app_id] = now[app_id] if same else versioned(spec.definition, version, now.get(app_id))
    for other, group in root.groups.items():
        if other == group_id or within(other, group_id):
            tree.groups[other] = group
    return tree


def _scaled(draft: Draft, group_id: str, factor: float, version: str, *, exists: bool) -> Tree:
    if not exists:
        raise NotFound(f"Group '{group_id}' does not exist")
    tree = Tree(draft, version)
    for app_id, spec in tree.apps.items():
        # Rounded first: 10 * 1.1 is a hair over 11 in binary, and ceil would make it 12.
        instances = math.ceil(round(spec.instances * factor, 6))
        if within(app_id, group_id) and not spec.is_pod and instances != spec.instances:
            tree.apps[app_id] = versioned({**spec.definition, "instances": instances}, version, spec)
    return tree


def _read_all(
    documents: list[Document], path: str, group_id: str, read: Callable[[Document], RunSpec]
) -> dict[str, RunSpec]:
    """Return the apps or pods of a list, all of which must lie in the group. Raises InvalidApp with every problem."""
    given: dict[str, RunSpec] = {}
    problems: list[Problem] = []
    stage = None
    for index, document in enumerate(documents):
        try:
            spec = read(document)
            _child_only(spec.id, group_id)
        except InvalidApp as error:
            stage = stage or error.stage
            problems += [_at(f"{path}({index})", problem) for problem in error.problems]
            continue
        given[spec.id] = spec
    if stage is not None:
        raise InvalidApp(problems, stage=stage)
    return given


def _clean(document: Any) -> dict[str, Any]:
    """Return a group's document without nulls, which mean that a key is absent; apps are left as they are."""
    cleaned = {key: value for key, value in document.items() if value is not None}
    if isinstance(cleaned.get("groups"), list):
        cleaned["groups"] = [_clean(item) if isinstance(item, Mapping) else item for item in cleaned["groups"]]
    return cleaned


def _top_level_only(group_id: str, path: str) -> None:
    if group_id == ROOT or parent_id(group_id) != ROOT:
        sentence = "enforceRole can only be set on top-level groups"
        raise InvalidApp([Problem(f"{path}/enforceRole", sentence, sentence, None)])


def _child_only(item_id: str, group_id: str) -> None:
    if parent_id(item_id) != group_id or item_id == ROOT:
        sentence = f"identifier {item_id} is not child of {group_id}. Hint: use relative paths."
        raise InvalidApp([Problem("/id", sentence, sentence, f"put it under {group_id}, or into its own group")])


def _at(path: str, problem: Problem) -> Problem:
    return dataclasses.replace(problem, path=path + ("" if problem.path == "/" else problem.path))
