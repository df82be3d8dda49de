"""What /v2/groups shows. Pure.

Source: Marathon api/v2/GroupsResource.scala.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mesos_gpu.marathon.definitions.app_ids import parent_id
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.model.groups import ROOT, Group, Root, within
from mesos_gpu.marathon.state.events import Moment
from mesos_gpu.marathon.state.state import State
from mesos_gpu.marathon.views.pod_views import pod_view
from mesos_gpu.marathon.views.tree import children
from mesos_gpu.marathon.views.views import app_view, embeds

_PARTS = frozenset({"groups", "apps", "pods"})


def group_embeds(asked: Sequence[str]) -> frozenset[str]:
    """Return what `?embed=` asks for: `groups`, `apps` and `pods` (all when none is named), and parts of apps."""
    parts = {name.removeprefix("group.") for name in asked} & _PARTS
    of_apps = embeds([name for name in asked if name.startswith("group.apps.")])
    return frozenset(parts or _PARTS) | of_apps


def group_view(
    state: State,
    root: Root,
    apps: Mapping[str, RunSpec],
    group_id: str,
    asked: Collection[str],
    moment: Moment,
) -> dict[str, Any]:
    """Return a group, with what is in it as far as it is asked for. `apps` has the pods too."""
    group = root.groups.get(group_id, Group(group_id))
    shown: dict[str, Any] = {
        "id": group_id,
        "dependencies": list(group.dependencies),
        "version": root.version,
        "enforceRole": group.enforce_role,
    }
    if "apps" in asked:
        inside = [spec for spec in _inside(apps, group_id) if not spec.is_pod]
        shown["apps"] = [app_view(state, spec, asked, moment) for spec in inside]
    if "pods" in asked:
        shown["pods"] = [pod_view(spec) for spec in _inside(apps, group_id) if spec.is_pod]
    if "groups" in asked:
        shown["groups"] = [
            group_view(state, root, apps, child.id, asked, moment) for child in children(root.groups, group_id)
        ]
    return shown


def group_apps(state: State, group_id: str, asked: Collection[str], moment: Moment) -> list[dict[str, Any]]:
    """Return every app in a group, at any depth, sorted by id."""
    inside = sorted(
        (s for s in state.apps() if not s.is_pod and (group_id == ROOT or within(s.id, group_id))), key=lambda s: s.id
    )
    return [app_view(state, spec, asked, moment) for spec in inside]


def _inside(apps: Mapping[str, RunSpec], group_id: str) -> list[RunSpec]:
    return [apps[app_id] for app_id in sorted(apps) if parent_id(app_id) == group_id]
