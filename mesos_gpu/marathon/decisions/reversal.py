"""Taking a deployment back: its apps to what they were, and of its groups what nobody else has used since.

Source: Marathon core/deployment/impl/DeploymentPlanReverter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from mesos_gpu.marathon.model.deployment import Deployment
from mesos_gpu.marathon.model.groups import Group, Root, within


def groups_before(
    deployment: Deployment, roots: Sequence[Root], groups: Mapping[str, Group], app_ids: Iterable[str]
) -> dict[str, Group]:
    """Return `groups`, those of now, without what a deployment has done to them.

    `roots` are the kept versions of the tree, newest first, and `app_ids` the apps that are left once those of the
    deployment are what they were. Other deployments may have changed the same groups meanwhile: a group that was added
    goes only when it is empty, and of dependencies only those that were added or removed are taken back.
    """
    index = next((i for i, root in enumerate(roots) if root.version == deployment.version), None)
    if index is None:
        return dict(groups)
    after = roots[index].groups
    before = roots[index + 1].groups if index + 1 < len(roots) else {}
    left, apps = dict(groups), list(app_ids)
    # The inner ones first: when they are gone, the outer one may be empty.
    for group_id in sorted({*before, *after}, key=lambda name: (-name.count("/"), name)):
        old, new = before.get(group_id), after.get(group_id)
        now = left.get(group_id)
        if old is not None and new is None:
            left[group_id] = old if now is None else _with(now, old.dependencies, ())
        elif now is None or new is None:
            continue
        elif old is not None:
            left[group_id] = _with(now, _less(old, new), _less(new, old))
        elif now.dependencies == new.dependencies and not any(within(item, group_id) for item in (*apps, *left)):
            del left[group_id]
        else:
            left[group_id] = _with(now, (), new.dependencies)
    return left


def _less(one: Group, other: Group) -> tuple[str, ...]:
    return tuple(item for item in one.dependencies if item not in other.dependencies)


def _with(group: Group, more: Iterable[str], less: Iterable[str]) -> Group:
    wanted = [item for item in (*group.dependencies, *more) if item not in set(less)]
    return replace(group, dependencies=tuple(dict.fromkeys(wanted)))
