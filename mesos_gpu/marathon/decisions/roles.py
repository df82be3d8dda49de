"""The roles of this framework: its own, and those of groups whose apps run in the group's role.

Source: Marathon util/RoleSettings.scala.
"""

from __future__ import annotations

from mesos_gpu.marathon.state.actions import UpdateRoles
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.mesos.ids import Role


def ask_for_roles(draft: Draft) -> None:
    """Tell the master the roles that apps run in, when they are others than it knows; called after every event.

    A role stays while an instance has it, also when its app is gone.
    """
    if not draft.subscribed or (draft.roles and not draft.versions.changes):
        return
    own = draft.settings.role
    wanted = draft.roles | {own} | {Role(spec.document["role"]) for spec in draft.apps()}
    if wanted not in (draft.roles, {own}):
        draft.actions.append(UpdateRoles(sorted(wanted)))
    draft.roles = frozenset(wanted)
