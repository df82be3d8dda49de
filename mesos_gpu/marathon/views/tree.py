"""The tree as it is and as it was: which apps and groups there are in a version.

Source: Marathon state/RootGroup.scala, core/group/impl/GroupManagerImpl.scala.
"""

from __future__ import annotations

from collections.abc import Mapping

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.model.groups import ROOT, Group, Root, all_groups, within
from mesos_gpu.marathon.state.state import State

Versions = Mapping[str, tuple[RunSpec, ...]]


def apps_at(versions: Versions, version: str, kept_of_each: int) -> dict[str, RunSpec] | None:
    """Return the apps of the tree in an earlier version; None when one has changed so often that it is forgotten.

    `kept_of_each` versions are kept. An app that has been removed since is not there: its versions went with it.
    """
    found = {}
    for app_id, kept in versions.items():
        then = next((spec for spec in kept if spec.version <= version), None)
        if then is not None:
            found[app_id] = then
        elif len(kept) >= kept_of_each:
            return None
    return found


def current_root(state: State) -> Root:
    """Return the present groups, and the version of the whole."""
    root = state.roots[0] if state.roots else Root()
    newest = max((spec.version for spec in state.apps()), default=root.version)
    return Root(max(root.version, newest), all_groups(root.groups, state.versions))


def versions_of(state: State, group_id: str) -> list[str]:
    """Return the versions of the whole in which a group was there, newest first."""
    return [root.version for root in state.roots if group_id == ROOT or group_id in root.groups]


def children(groups: Mapping[str, Group], group_id: str) -> list[Group]:
    """Return the groups directly in a group, sorted by id."""
    inside = [group for group in groups.values() if within(group.id, group_id)]
    depth = 0 if group_id == ROOT else group_id.count("/")
    return sorted((group for group in inside if group.id.count("/") == depth + 1), key=lambda group: group.id)
