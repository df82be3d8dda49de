"""What is wrong with a scheduler's call or its FrameworkInfo, before anything is done with it.

Source: Mesos src/master/validation.cpp (scheduler::call::validate, framework::validate).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from mesos_gpu.master.model.documents import capabilities_of, roles_of
from mesos_gpu.mesos.ids import id_problem, role_problem
from mesos_gpu.mesos.uuids import NOT_VALID, is_uuid

# Calls that work without a body of their own.
_BARE = frozenset({"TEARDOWN", "REVIVE", "SUPPRESS", "UNKNOWN"})
MAX_DURATION_S = (2**63 - 1) / 1e9
"""Mesos' durations are nanoseconds in 64 bits; a negative one is over at once."""


def call_problem(call: Mapping[str, Any], principal: str | None = None) -> str | None:
    """Return why a v1 scheduler Call of the right shape is refused with 400, in Mesos' words; None when it is fine.

    `principal` is who was authenticated, None when nobody was asked.
    """
    kind = call.get("type")
    if kind is None:
        return "Expecting 'type' to be present"
    body = call.get(str(kind).lower())
    if kind == "SUBSCRIBE":
        return _subscribe_problem(call, body) or _principal_problem(principal, body)
    if "framework_id" not in call:
        return "Expecting 'framework_id' to be present"
    if kind not in _BARE and body is None:
        return f"Expecting '{str(kind).lower()}' to be present"
    if kind in ("ACKNOWLEDGE", "ACKNOWLEDGE_OPERATION_STATUS") and body is not None and not is_uuid(body["uuid"]):
        return NOT_VALID
    if kind == "ACKNOWLEDGE_OPERATION_STATUS" and body is not None and "agent_id" not in body:
        return "Expecting 'agent_id' to be present"
    if kind == "UPDATE_FRAMEWORK" and body is not None:
        return _framework_id_problem(call, body, "update_framework")
    return None


def framework_problem(info: Mapping[str, Any], suppressed: tuple[str, ...] = ()) -> str | None:
    """Return why a FrameworkInfo may not subscribe (an ERROR event, not an HTTP error); None when it may."""
    roles_error = _roles_problem(info)
    if roles_error is not None:
        return roles_error
    framework_id = _id_of(info)
    if framework_id:
        problem = id_problem(framework_id)
        if problem is not None:
            return f"'FrameworkInfo.id' is invalid: {problem}"
    timeout = float(info.get("failover_timeout", 0.0))
    if not abs(timeout) <= MAX_DURATION_S:
        return f"The framework failover_timeout ({timeout:g}) is invalid"
    strangers = [role for role in suppressed if role not in roles_of(info)]
    if strangers:
        return f"Suppressed role '{strangers[0]}' is not contained in the list of roles"
    return None


def _subscribe_problem(call: Mapping[str, Any], body: Mapping[str, Any] | None) -> str | None:
    if body is None:
        return "Expecting 'subscribe' to be present"
    return _framework_id_problem(call, body, "subscribe")


def _principal_problem(principal: str | None, body: Mapping[str, Any] | None) -> str | None:
    given = (body or {}).get("framework_info", {}).get("principal")
    if principal is None or given in (None, principal):
        return None
    return f"Authenticated principal '{principal}' does not match principal '{given}' set in `FrameworkInfo`"


def _framework_id_problem(call: Mapping[str, Any], body: Mapping[str, Any], name: str) -> str | None:
    if _id_of(body["framework_info"]) != _id_of(call, "framework_id"):
        return f"'framework_id' differs from '{name}.framework_info.id'"
    return None


def _roles_problem(info: Mapping[str, Any]) -> str | None:
    roles = info.get("roles", [])
    if "MULTI_ROLE" not in capabilities_of(info):
        if roles:
            return "'FrameworkInfo.roles' must not be set when the framework is not MULTI_ROLE capable"
        problem = role_problem(info.get("role", "*"))
        return None if problem is None else f"'FrameworkInfo.role' is not a valid role: {problem}"
    if "role" in info:
        return "'FrameworkInfo.role' must not be set when the framework is MULTI_ROLE capable"
    twice = sorted(role for role, count in Counter(roles).items() if count > 1)
    if twice:
        return f"'FrameworkInfo.roles' contains duplicate items: {{ {', '.join(twice)} }}"
    for role in roles:
        problem = role_problem(role)
        if problem is not None:
            return f"'FrameworkInfo.roles' contains invalid role: {problem}"
    return None


def _id_of(document: Mapping[str, Any], field: str = "id") -> str:
    return str(document.get(field, {}).get("value", ""))
