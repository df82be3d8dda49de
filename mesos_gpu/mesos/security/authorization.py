"""Who may do what: access control lists (`--acls`), judged as Mesos' local authorizer judges them.

A list belongs to an action; its entries are compared in order with who asks and with what is asked for, and the first
that matches decides. Without any that does, `permissive` decides, true by default.
Source: Mesos include/mesos/authorizer/acls.proto, src/authorizer/local/authorizer.cpp, docs/authorization.md.
"""

from __future__ import annotations

import difflib
import enum
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mesos_gpu.errors import BadFlag

PRINCIPALS = "principals"
BELOW = "/%"
"""Ends a role that stands for all roles below it."""
ENDPOINTS = (
    "/containers",
    "/containerizer/debug",
    "/files/debug",
    "/logging/toggle",
    "/metrics/snapshot",
    "/monitor/statistics",
)
"""The only paths that `get_endpoints` can be about (src/common/authorization.cpp)."""


class Kind(enum.Enum):
    """What the objects of an action's list are."""

    ROLES = "roles"
    NAMED = "named"
    PATHS = "paths"
    IMPLICIT = "implicit"
    """There is only one object, or all are alike: ANY or NONE can be said of it."""


_OF_ROLES = (
    "register_frameworks",
    "reserve_resources",
    "create_volumes",
    "resize_volumes",
    "get_quotas",
    "update_quotas",
    "view_roles",
    "update_weights",
    "create_block_disks",
    "destroy_block_disks",
    "create_mount_disks",
    "destroy_mount_disks",
    "destroy_raw_disks",
)
_OF_USERS = (
    "run_tasks",
    "view_frameworks",
    "view_tasks",
    "view_executors",
    "view_containers",
    "access_sandboxes",
    "attach_containers_input",
    "attach_containers_output",
    "launch_nested_containers_as_user",
    "launch_nested_containers_under_parent_with_user",
    "launch_nested_container_sessions_as_user",
    "launch_nested_container_sessions_under_parent_with_user",
    "kill_nested_containers",
    "wait_nested_containers",
    "remove_nested_containers",
)
_IMPLICIT = {
    "access_mesos_logs": "logs",
    "view_flags": "flags",
    "set_log_level": "level",
    "register_agents": "agents",
    "update_maintenance_schedules": "machines",
    "get_maintenance_schedules": "machines",
    "start_maintenances": "machines",
    "stop_maintenances": "machines",
    "get_maintenance_statuses": "machines",
    "drain_agents": "agents",
    "deactivate_agents": "agents",
    "reactivate_agents": "agents",
    "mark_agents_gone": "agents",
    **{f"{what}_standalone_containers": "users" for what in ("launch", "kill", "wait", "remove", "view")},
    "modify_resource_provider_configs": "resource_providers",
    "mark_resource_providers_gone": "resource_providers",
    "view_resource_providers": "resource_providers",
    "prune_images": "images",
}
ACTIONS: Mapping[str, tuple[str, Kind]] = {
    **{name: ("roles", Kind.ROLES) for name in _OF_ROLES},
    **{name: ("users", Kind.NAMED) for name in _OF_USERS},
    **{name: (objects, Kind.IMPLICIT) for name, objects in _IMPLICIT.items()},
    "teardown_frameworks": ("framework_principals", Kind.NAMED),
    "unreserve_resources": ("reserver_principals", Kind.NAMED),
    "destroy_volumes": ("creator_principals", Kind.NAMED),
    "get_endpoints": ("paths", Kind.PATHS),
}
"""By the name of its list: the field of its objects, and what these are."""
_OF_EXECUTORS = frozenset(
    {
        "launch_nested_containers_as_user",
        "launch_nested_containers_under_parent_with_user",
        "launch_nested_container_sessions_as_user",
        "launch_nested_container_sessions_under_parent_with_user",
        "wait_nested_containers",
        "kill_nested_containers",
        "remove_nested_containers",
        "attach_containers_output",
    }
)
"""The actions that an executor can take on containers below its own; with or without ACLs it can take no other.

Source: Mesos src/authorizer/local/authorizer.cpp, getImplicitExecutorObjectApprover.
"""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who was authenticated: a name, or (an executor with a token) claims alone."""

    value: str | None = None
    claims: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_executor(self) -> bool:
        """Return whether this is an executor: only tokens of executors have claims."""
        return bool(self.claims)

    def __str__(self) -> str:
        """Return the name; with claims, JSON of all there is, as Mesos prints it."""
        if self.value is not None and not self.claims:
            return self.value
        return json.dumps(
            {**({} if self.value is None else {"value": self.value}), "claims": dict(self.claims)},
            separators=(",", ":"),
        )


class Breadth(enum.Enum):
    """How much an entity stands for."""

    SOME = "SOME"
    ANY = "ANY"
    NONE = "NONE"


@dataclass(frozen=True, slots=True)
class Entity:
    """Principals or objects: those named, any, or none."""

    breadth: Breadth = Breadth.SOME
    values: frozenset[str] = frozenset()

    def matched_by(self, name: str | None) -> bool:
        """Return whether an entry with this entity is about `name`; None stands for anybody or anything."""
        if self.breadth is Breadth.SOME:
            return name is not None and name in self.values
        return True

    def allows(self, name: str | None) -> bool:
        """Return whether an entry with this entity allows `name`."""
        if self.breadth is Breadth.SOME:
            return name is not None and name in self.values
        return self.breadth is Breadth.ANY


ANYTHING = Entity(Breadth.ANY)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a list. `below`: it is about the roles under this one, which ends in a slash, and no others."""

    subjects: Entity
    objects: Entity
    below: str | None = None

    def verdict(self, subject: str | None, thing: str | None) -> bool | None:
        """Return whether it allows, None when it does not match."""
        objects = self.objects
        if self.below is not None:
            if thing is None or not thing.startswith(self.below):
                return None
            objects = ANYTHING
        if not (self.subjects.matched_by(subject) and objects.matched_by(thing)):
            return None
        return self.subjects.allows(subject) and objects.allows(thing)


@dataclass(frozen=True, slots=True)
class Acls:
    """All lists of a program. Those of OPEN allow everything, also what no lists would."""

    lists: Mapping[str, Sequence[Entry]] = field(default_factory=dict)
    permissive: bool = True
    active: bool = True
    """False without --acls: then every principal is authorized for everything, except executors."""

    def approved(
        self, action: str, principal: Principal | None, thing: str | None = None, *, container: str | None = None
    ) -> bool:
        """Return whether `principal` (None: anybody) may do `action` to `thing` (None: any).

        `container` is the top level container that it is done to or below: of an executor nothing else counts.
        Raises KeyError for an action that there is not.
        """
        kind = ACTIONS[action][1]
        if principal is not None and principal.is_executor:
            # Before everything else: this rule does not depend on --acls.
            return action in _OF_EXECUTORS and container is not None and principal.claims.get("cid") == container
        if not self.active:
            return True
        subject = None if principal is None else principal.value
        asked = None if kind is Kind.IMPLICIT else thing
        for entry in self.lists.get(action, ()):
            verdict = entry.verdict(subject, asked)
            if verdict is not None:
                return verdict
        return self.permissive


OPEN = Acls(active=False)


def read_acls(flag: str, text: str) -> Acls:
    """Read the JSON of --acls. Raises BadFlag for what is not a list of an action that there is.

    Mesos takes a misspelled action for none, and so leaves open what was to be closed; here it is refused.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadFlag(flag, f"is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise BadFlag(flag, "must be a JSON object of lists")
    permissive = document.pop("permissive", True)
    if not isinstance(permissive, bool):
        raise BadFlag(flag, '"permissive" must be true or false')
    return Acls({action: _entries(flag, action, entries) for action, entries in document.items()}, permissive)


def _entries(flag: str, action: str, documents: object) -> tuple[Entry, ...]:
    if action not in ACTIONS:
        near = difflib.get_close_matches(action, ACTIONS, 1)
        raise BadFlag(flag, f'there is no action "{action}"' + (f'; did you mean "{near[0]}"?' if near else ""))
    if not isinstance(documents, list):
        raise BadFlag(flag, f'"{action}" must be a list')
    return tuple(entry for number, document in enumerate(documents) for entry in _entry(flag, action, number, document))


def _entry(flag: str, action: str, number: int, document: Any) -> list[Entry]:
    where = f"{action}[{number}]"
    objects_field, kind = ACTIONS[action]
    if not isinstance(document, dict) or set(document) != {PRINCIPALS, objects_field}:
        raise BadFlag(flag, f'{where} must have "{PRINCIPALS}" and "{objects_field}", and nothing else')
    subjects = _entity(flag, f"{where}.{PRINCIPALS}", document[PRINCIPALS])
    objects = _entity(flag, f"{where}.{objects_field}", document[objects_field])
    if objects.breadth is not Breadth.SOME:
        return [Entry(subjects, objects)]
    if kind is Kind.IMPLICIT:
        raise BadFlag(flag, f'{where}.{objects_field} must be of type "ANY" or "NONE"')
    if kind is Kind.PATHS:
        strange = sorted(objects.values - set(ENDPOINTS))
        if strange:
            raise BadFlag(flag, f"Path: '{strange[0]}' is not an authorizable path; these are: {', '.join(ENDPOINTS)}")
    below = sorted(role for role in objects.values if kind is Kind.ROLES and role.endswith(BELOW))
    named = objects.values - set(below)
    split = [Entry(subjects, ANYTHING, role.removesuffix("%")) for role in below]
    return [*split, Entry(subjects, Entity(values=named))] if named else split


def _entity(flag: str, where: str, document: Any) -> Entity:
    if not isinstance(document, dict) or set(document) - {"type", "values"}:
        raise BadFlag(flag, f'{where} must be an object of "values", or of "type"')
    breadth, values = document.get("type", "SOME"), document.get("values", [])
    if breadth not in Breadth.__members__:
        raise BadFlag(flag, f'{where}: type "{breadth}" must be SOME, ANY or NONE')
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise BadFlag(flag, f"{where}: values must be a list of texts")
    if breadth == "SOME" and not values:
        raise BadFlag(flag, f'{where} has no values; write {{"type": "NONE"}} or {{"type": "ANY"}}')
    return Entity(Breadth[breadth], frozenset(values) if breadth == "SOME" else frozenset())
