"""What a call needs permission for: pairs of an action and what it is done to, judged by the lists of --acls. Pure.

Source: Mesos src/master/authorization.cpp (ActionObject), http.cpp, master.cpp (_accept, subscribe, registerSlave),
quota_handler.cpp, weights_handler.cpp.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from mesos_gpu.master.model.documents import roles_of
from mesos_gpu.master.model.model import Framework
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.resource import Document, Resource
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.security.authorization import Principal
from mesos_gpu.mesos.security.viewing import user_of_task

Pair = tuple[str, "str | None"]
"""An action, and what it is done to; None: anything."""
_NAMES = {
    "reserve_resources": "RESERVE_RESOURCES",
    "unreserve_resources": "UNRESERVE_RESOURCES",
    "create_volumes": "CREATE_VOLUME",
    "destroy_volumes": "DESTROY_VOLUME",
    "resize_volumes": "RESIZE_VOLUME",
}


def may(state: MasterState, principal: Principal | None, kind: str, body: Mapping[str, Any]) -> bool:
    """Return whether an operator may make a call that changes something. Raises KeyError for one without a rule."""
    return _all_approved(state, principal, _CALLS[kind](state, body))


def may_operate(state: MasterState, principal: Principal | None, operation: Document) -> bool:
    """Return whether an operator may have this done to resources, which are in the refined format."""
    return _all_approved(state, principal, _operation(operation))


def operation_refusal(state: MasterState, framework: Framework, operation: Document) -> str | None:
    """Return why a framework may not have this done to resources, in Mesos' words; None when it may."""
    acls, principal = state.settings.acls, principal_of(framework.info)
    if not acls.active:
        return None
    for action, thing in _operation(operation):
        if not acls.approved(action, principal, thing):
            what = "ANY object" if thing is None else f"object {json.dumps({'value': thing}, separators=(',', ':'))}"
            return f"Principal '{_name(framework.info)}' no authorized to perform action {_NAMES[action]} on {what}"
    return None


def task_refusal(state: MasterState, framework: Framework, task: Mapping[str, Any], *, group: bool) -> str | None:
    """Return why a framework may not run a task, in Mesos' words; None when it may."""
    user = user_of_task(task) or framework.info["user"]
    if state.settings.acls.approved("run_tasks", principal_of(framework.info), user):
        return None
    task_id = task["task_id"]["value"]
    launch = f"launch task {task_id} of framework {framework.id} under user '{user}'"
    if group:
        return f"Task '{task_id}' is not authorized to {launch}"
    return f"Principal '{_name(framework.info)}' no authorized to {launch}"


def subscription_refusal(state: MasterState, info: Mapping[str, Any]) -> str | None:
    """Return why a framework may not have the roles of its FrameworkInfo, in Mesos' words; None when it may."""
    roles = sorted(set(roles_of(info)))
    acls, principal = state.settings.acls, principal_of(info)
    # A framework without roles asks for nothing that a list could name.
    if all(acls.approved("register_frameworks", principal, role) for role in roles) and (roles or acls.permissive):
        return None
    framework_id = info.get("id", {}).get("value", "")
    return f"Not authorized to register framework {framework_id} with roles {{ {', '.join(roles)} }}"


def registration_refusal(
    state: MasterState, principal: Principal | None, info: Mapping[str, Any], *, again: bool = False
) -> str | None:
    """Return why an agent may not register (`again`: come back), None when it may.

    It needs leave for its static reservations, too.
    """
    acls = state.settings.acls
    if not acls.active:
        return None
    resources = [Resource.from_json(document) for document in info.get("resources", ())]
    reserved = [resource.role for resource in resources if resource.reservations]
    # With any, the roles of all its resources are judged, that of unreserved ones among them.
    roles = sorted({resource.role for resource in resources}) if reserved else []
    pairs: list[Pair] = [*(("reserve_resources", role) for role in roles), ("register_agents", None)]
    if all(acls.approved(action, principal, thing) for action, thing in pairs):
        return None
    who = "without a principal" if principal is None else f"with principal '{principal}'"
    verb = "reregister" if again else "register"
    return f"Not authorized to {verb} agent providing resources '{Resources(resources)}' {who}"


def principal_of(info: Mapping[str, Any]) -> Principal | None:
    """Return who a framework is."""
    return Principal(info["principal"]) if "principal" in info else None


def _all_approved(state: MasterState, principal: Principal | None, pairs: Iterable[Pair]) -> bool:
    acls = state.settings.acls
    return not acls.active or all(acls.approved(action, principal, thing) for action, thing in pairs)


def _name(info: Mapping[str, Any]) -> str:
    return str(info.get("principal", ""))


def _operation(operation: Mapping[str, Any]) -> Iterator[Pair]:
    kind = str(operation["type"])
    body = operation.get(kind.lower(), {})
    match kind:
        case "RESERVE":
            yield from _reserve(body)
        case "UNRESERVE":
            yield from _unreserve(map(Resource.from_json, body.get("resources", ())))
        case "CREATE":
            roles = sorted({Resource.from_json(volume).role for volume in body.get("volumes", ())})
            yield from (("create_volumes", role) for role in (roles or (None,)))
        case "DESTROY":
            volumes = [volume["disk"]["persistence"] for volume in body.get("volumes", ()) if _persistent(volume)]
            creators = [volume.get("principal", "") for volume in volumes]
            yield from (("destroy_volumes", creator) for creator in (creators or (None,)))
        case "GROW_VOLUME" | "SHRINK_VOLUME":
            yield "resize_volumes", Resource.from_json(body["volume"]).role


def _reserve(body: Mapping[str, Any]) -> Iterator[Pair]:
    """Yield what it takes to undo the reservations of a source down to what it has in common, and to make the new."""
    target = [Resource.from_json(document) for document in body.get("resources", ())]
    source = [Resource.from_json(document) for document in body.get("source", ())]
    if not source:
        yield from (("reserve_resources", role) for role in sorted({resource.role for resource in target}))
        return
    wanted = target[0].reservations if target else ()
    for resource in source:
        kept = 0
        for before, after in zip(resource.reservations, wanted, strict=False):
            if before != after:
                break
            kept += 1
        yield from (("unreserve_resources", one.principal) for one in reversed(resource.reservations[kept:]))
        yield from (("reserve_resources", one.role) for one in wanted[kept:])


def _unreserve(resources: Iterable[Resource]) -> Iterator[Pair]:
    for resource in resources:
        yield "unreserve_resources", resource.reservations[-1].principal if resource.reservations else None


def _persistent(volume: Mapping[str, Any]) -> bool:
    return "persistence" in volume.get("disk", {})


def _teardown(state: MasterState, body: Mapping[str, Any]) -> Sequence[Pair]:
    framework = state.frameworks.get(body["framework_id"]["value"])
    return [] if framework is None else [("teardown_frameworks", framework.info.get("principal"))]


def _drain(state: MasterState, body: Mapping[str, Any]) -> Sequence[Pair]:
    gone: list[Pair] = [("mark_agents_gone", None)] if body.get("mark_gone", False) else []
    return [("drain_agents", None), *gone]


def _weights(state: MasterState, body: Mapping[str, Any]) -> Sequence[Pair]:
    roles = [str(info.get("role", "")).strip() for info in body.get("weight_infos", ())]
    return [("update_weights", role) for role in roles] or [("update_weights", None)]


def _only(action: str) -> Callable[[MasterState, Mapping[str, Any]], Sequence[Pair]]:
    return lambda state, body: [(action, None)]


_CALLS: Mapping[str, Callable[[MasterState, Mapping[str, Any]], Sequence[Pair]]] = {
    "UPDATE_WEIGHTS": _weights,
    "UPDATE_QUOTA": lambda state, body: [("update_quotas", config["role"]) for config in body.get("quota_configs", ())],
    "SET_QUOTA": lambda state, body: [("update_quotas", body["quota_request"].get("role"))],
    "REMOVE_QUOTA": lambda state, body: [("update_quotas", body["role"])],
    "UPDATE_MAINTENANCE_SCHEDULE": _only("update_maintenance_schedules"),
    "START_MAINTENANCE": _only("start_maintenances"),
    "STOP_MAINTENANCE": _only("stop_maintenances"),
    "DRAIN_AGENT": _drain,
    "DEACTIVATE_AGENT": _only("deactivate_agents"),
    "REACTIVATE_AGENT": _only("reactivate_agents"),
    "MARK_AGENT_GONE": _only("mark_agents_gone"),
    "TEARDOWN": _teardown,
    "SET_LOGGING_LEVEL": _only("set_log_level"),
}
