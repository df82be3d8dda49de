"""Mesos' ids and roles: a type of its own for each, and which texts Mesos takes for them.

The types are texts, for which no other may be passed by mistake. A document has an id as `{"value": text}`; what is
read of one is of its type by where it stood there.
Source: Mesos src/common/validation.cpp, src/common/roles.cpp.
"""

from __future__ import annotations

import re
from typing import NewType

FrameworkId = NewType("FrameworkId", str)
AgentId = NewType("AgentId", str)
TaskId = NewType("TaskId", str)
"""Unique within a framework, not within a cluster."""
ExecutorId = NewType("ExecutorId", str)
"""Unique within a framework and an agent."""
ContainerId = NewType("ContainerId", str)
"""The name of a container; of a nested one with its parents' before it, dots between."""
OfferId = NewType("OfferId", str)
"""Of an inverse offer, too: both are told from each other by where they are kept."""
Role = NewType("Role", str)
"""`*`, or names with slashes between: `eng/team`."""
ANY_ROLE = Role("*")
"""The role of what is nobody's in particular, and of frameworks that name none."""

MAX_ID = 255
_NOT_IN_IDS = re.compile(r"[/\\\x00-\x1f\x7f]")
_SPACES = frozenset("\b\t\n\v\f\r ")


def id_problem(text: str) -> str | None:
    """Return why an id is refused, in Mesos' words; None for a good one. Ids become path components."""
    if not text:
        return "ID must not be empty"
    if len(text.encode()) > MAX_ID:
        return f"ID must not be greater than {MAX_ID} characters"
    if text in (".", ".."):
        return f"'{text}' is disallowed"
    if _NOT_IN_IDS.search(text) is not None:
        return f"'{text}' contains invalid characters"
    return None


def is_nested(container_id: ContainerId) -> bool:
    """Return whether the container is nested in another one, such as `parent.child`."""
    return "." in container_id


def top_level(container_id: ContainerId) -> ContainerId:
    """Return the outermost parent of a nested container, which holds its GPUs; a top-level one is its own."""
    return ContainerId(container_id.partition(".")[0])


def role_problem(role: str) -> str | None:
    """Return why a role is refused, in Mesos' words; None for a good one."""
    if role == "*":
        return None
    if not role:
        return "Role names cannot be the empty string"
    if role.startswith("/"):
        return f"Role '{role}' cannot start with a slash"
    if role.endswith("/"):
        return f"Role '{role}' cannot end with a slash"
    for component in role.split("/"):
        problem = _component_problem(component, role)
        if problem is not None:
            return problem
    return None


def _component_problem(component: str, role: str) -> str | None:
    if not component:
        return f"Role '{role}' cannot contain two adjacent slashes"
    if component in (".", "..", "*"):
        return f"Role '{role}' cannot include '{component}' as a component"
    if component.startswith("-"):
        return f"Role component '{component}' is invalid because it starts with a dash"
    if _SPACES & set(component):
        return f"Role component '{component}' is invalid because it contains backspace or whitespace"
    return None
