"""What of a cluster somebody may see: Mesos filters what it shows by the lists view_frameworks, _tasks, _executors
and _roles (src/common/http.hpp, ObjectApprovers; src/authorizer/local/authorizer.cpp)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from mesos_gpu.mesos.resource import Resource
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.security.authorization import OPEN, Acls, Principal


class Viewer(Struct, frozen=True):
    """Somebody who looks. Infos are documents as in Mesos' JSON."""

    acls: Acls = OPEN
    principal: Principal | None = None

    @property
    def sees_all(self) -> bool:
        """Return whether nothing is hidden: there are no ACLs, and the viewer is not an executor."""
        return not self.acls.active and not (self.principal is not None and self.principal.is_executor)

    def framework(self, info: Mapping[str, Any]) -> bool:
        """Return whether a framework may be seen: that its user's may."""
        return self.acls.approved("view_frameworks", self.principal, info["user"])

    def task(self, user: str | None, framework_info: Mapping[str, Any]) -> bool:
        """Return whether a task may be seen; `user` is that of the task itself, None when it names none."""
        return self.acls.approved("view_tasks", self.principal, user or framework_info["user"])

    def executor(self, info: Mapping[str, Any], framework_info: Mapping[str, Any]) -> bool:
        """Return whether an executor may be seen."""
        return self.acls.approved("view_executors", self.principal, user_of(info, framework_info))

    def container(self, info: Mapping[str, Any], framework_info: Mapping[str, Any]) -> bool:
        """Return whether the containers of an executor may be seen."""
        return self.acls.approved("view_containers", self.principal, user_of(info, framework_info))

    def role(self, name: str) -> bool:
        """Return whether a role may be seen."""
        return self.acls.approved("view_roles", self.principal, name)

    def resource(self, resource: Resource) -> bool:
        """Return whether all the roles that a resource is reserved for and allocated to may be seen."""
        roles = [reservation.role for reservation in resource.reservations]
        if resource.allocation_role is not None:
            roles.append(resource.allocation_role)
        return all(map(self.role, roles))

    def resources(self, resources: Iterable[Resource]) -> Resources:
        """Return those that may be seen."""
        found = resources if isinstance(resources, Resources) else Resources(resources)
        return found if self.sees_all else found.filter(self.resource)

    def may(self, action: str, thing: str | None = None) -> bool:
        """Return whether an action that is no look at something may be done, as Acls.approved."""
        return self.acls.approved(action, self.principal, thing)


EVERYBODY = Viewer()
"""Who looks where no lists say otherwise."""


def user_of(info: Mapping[str, Any], framework_info: Mapping[str, Any]) -> str:
    """Return the user of an executor: its command's, else its framework's."""
    user: str = (info.get("command") or {}).get("user") or framework_info["user"]
    return user


def user_of_task(info: Mapping[str, Any]) -> str | None:
    """Return the user that a TaskInfo itself names: its command's, else its executor's; None when neither does."""
    for command in (info.get("command"), (info.get("executor") or {}).get("command")):
        if command and "user" in command:
            user: str = command["user"]
            return user
    return None
