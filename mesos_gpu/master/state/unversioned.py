"""One agent, framework, task, offer or executor as the unversioned endpoints show it. Values to values.

Names are v0 (`slave`). Source: Mesos src/common/http.cpp, src/master/readonly_handler.cpp, recorded answers of 1.12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from mesos_gpu.master.model.documents import Task, role_of
from mesos_gpu.master.model.model import Agent, Drain, Executor, Framework, KnownAgent, Offer, add
from mesos_gpu.master.model.shared_volumes import summed
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.resource import Document, Resource, ResourceDocument, amount_text
from mesos_gpu.mesos.resources import NOTHING, Resources
from mesos_gpu.mesos.security.viewing import EVERYBODY, Viewer

_TASK_EXTRAS = ("user", "discovery", "container", "health_check")
_CONTAINER_STATUS = ("container_id", "network_infos", "cgroup_info")
_encoder = msgspec.json.Encoder()


def agent_view(agent: Agent, viewer: Viewer = EVERYBODY) -> Document:
    """Return an agent as /state shows it: to `viewer`, without the reservations of roles that it may not see."""
    roles = filter(viewer.role, agent.total.reserved_roles())
    return {
        "id": agent.id,
        "hostname": agent.hostname,
        "port": agent.info.get("port", 5051),
        "attributes": _attributes(agent.info),
        **({"domain": agent.info["domain"]} if "domain" in agent.info else {}),
        "pid": agent.pid,
        "registered_time": agent.registered_s,
        **({} if agent.reregistered_s is None else {"reregistered_time": agent.reregistered_s}),
        "resources": agent.total.summary(),
        "used_resources": agent.used_total.summary(),
        "offered_resources": agent.offered.summary(),
        "reserved_resources": {role: agent.total.reserved(role).summary() for role in roles},
        "unreserved_resources": agent.total.unreserved().summary(),
        "active": agent.active,
        "deactivated": agent.deactivated,
        "version": agent.version,
        "capabilities": list(agent.capabilities),
        **({} if agent.drain is None else _drain_view(agent.drain)),
    }


def _drain_view(drain: Drain) -> Document:
    return {"drain_info": drain.to_json(), "estimated_drain_start_time_seconds": drain.started_s}


def recovered_view(known: KnownAgent) -> Document:
    """Return an agent that is in the registry and not back yet."""
    total = Resources.from_json(known.info.get("resources", []))
    return {
        "id": known.info["id"]["value"],
        "hostname": known.info["hostname"],
        "port": known.info.get("port", 5051),
        "attributes": _attributes(known.info),
        "resources": total.summary(),
    }


def framework_view(state: MasterState, framework: Framework, viewer: Viewer = EVERYBODY) -> Document:
    """Return a framework as /state shows it, with the tasks and executors that `viewer` may see."""
    info = framework.info
    used, offered = amounts(state, framework)
    executors = [(a, e) for a, e in _executors(state, framework) if viewer.executor(e.info, info)]

    def shown(tasks: Iterable[Task]) -> Iterable[Task]:
        return (task for task in tasks if sees_task(viewer, task, framework))

    return {
        **framework_head(state, framework, used, offered),
        "user": info["user"],
        "failover_timeout": framework.failover_timeout_s,
        "checkpoint": framework.checkpoint,
        "registered_time": framework.registered_s,
        "unregistered_time": framework.unregistered_s,
        **({"principal": info["principal"]} if "principal" in info else {}),
        "resources": (used + offered).summary(),
        **({} if framework.reregistered_s is None else {"reregistered_time": framework.reregistered_s}),
        **(
            {"roles": list(framework.roles)} if "MULTI_ROLE" in framework.capabilities else {"role": framework.roles[0]}
        ),
        "tasks": [task_view(task) for task in shown(framework.tasks.values())],
        "unreachable_tasks": [task_view(task) for task in shown(framework.unreachable.values())],
        "completed_tasks": [completed_view(task) for task in shown(framework.completed)],
        "offers": [offer_view(offer) for offer in framework.offers.values()],
        "executors": [executor_view(agent, executor) for agent, executor in executors],
        **({"labels": info["labels"].get("labels", [])} if "labels" in info else {}),
        "offer_constraints": framework.offer_constraints,
    }


def task_view(task: Task) -> Document:
    """Return a task as /state and /tasks show it."""
    document = task.document
    view: Document = {
        "id": task.id,
        "name": document["name"],
        "framework_id": task.framework_id,
        "executor_id": task.executor_id or "",
        "slave_id": task.agent_id,
        "state": task.state,
        "resources": task.resources.summary(),
        "role": role_of(document["resources"]),
        "statuses": [_status_view(status) for status in document.get("statuses", ())],
    }
    if document.get("limits"):
        view["limits"] = {name: scalar["value"] for name, scalar in document["limits"].items()}
    if "labels" in document:
        view["labels"] = document["labels"].get("labels", [])
    return {
        **view,
        **{key: document[key] for key in _TASK_EXTRAS if key in document},
    }


def completed_view(task: Task) -> msgspec.Raw:
    """Return a completed task as /state shows it, as JSON: pages ask every few seconds for all that ever ended."""
    if task.page is None:
        task.page = msgspec.Raw(_encoder.encode(task_view(task)))
    return task.page


def offer_view(offer: Offer) -> Document:
    """Return an offer as /state shows it."""
    return {
        "id": offer.id,
        "framework_id": offer.framework_id,
        "allocation_info": {"role": offer.role},
        "slave_id": offer.agent_id,
        "resources": offer.resources.summary(),
    }


def executor_view(agent: Agent, executor: Executor) -> Document:
    """Return a framework's executor as /state shows it."""
    info = executor.info
    command = info.get("command", {})
    return {
        "executor_id": info["executor_id"]["value"],
        "name": info.get("name", ""),
        "framework_id": info["framework_id"]["value"],
        "command": {
            "shell": command.get("shell", True),
            **({"value": command["value"]} if "value" in command else {}),
            "argv": command.get("arguments", []),
            **({"environment": command["environment"]} if "environment" in command else {}),
            "uris": command.get("uris", []),
        },
        "resources": executor.resources.summary(),
        **({"role": role_of(info["resources"])} if info.get("resources") else {}),
        **({"labels": info["labels"].get("labels", [])} if "labels" in info else {}),
        **({"type": info["type"]} if "type" in info else {}),
        "slave_id": agent.id,
    }


def usage(state: MasterState, framework: Framework) -> tuple[Resources, Resources]:
    """Return what a framework uses, and what it is offered."""
    used, offered = _by_agent(state, framework)
    return add(used), add(offered)


def amounts(state: MasterState, framework: Framework) -> tuple[Resources, Resources]:
    """Return the same for numbers to be made of: a shared volume counts once on each agent that has it."""
    used, offered = _by_agent(state, framework)
    return summed(used), summed(offered)


def _by_agent(state: MasterState, framework: Framework) -> tuple[list[Resources], list[Resources]]:
    used = [a.used[framework.id] for a in state.agents.values() if framework.id in a.used]
    offered: dict[str, Resources] = {}
    for offer in framework.offers.values():
        offered[offer.agent_id] = offered.get(offer.agent_id, NOTHING) + offer.resources
    return used, list(offered.values())


def all_tasks(framework: Framework) -> list[Task]:
    """Return a framework's tasks, live, unreachable and completed."""
    return [*framework.tasks.values(), *framework.unreachable.values(), *framework.completed]


def framework_head(
    state: MasterState, framework: Framework, used: Resources | None = None, offered: Resources | None = None
) -> Document:
    """Return what /state and /state-summary both say of a framework."""
    if used is None or offered is None:
        used, offered = amounts(state, framework)
    return {
        "id": framework.id,
        "name": framework.name,
        **({} if framework.pid is None else {"pid": framework.pid}),
        "used_resources": used.summary(),
        "offered_resources": offered.summary(),
        "capabilities": [c["type"] for c in framework.info.get("capabilities", ()) if "type" in c],
        "hostname": framework.info.get("hostname", ""),
        "webui_url": framework.info.get("webui_url", ""),
        "active": framework.active,
        "connected": framework.connected,
        "recovered": framework.recovered,
    }


def agent_full(agent: Agent, viewer: Viewer = EVERYBODY) -> Document:
    """Return what only /slaves says of an agent: whole Resource documents, of roles that `viewer` may see."""
    total = agent.total

    def shown(resources: Resources) -> list[ResourceDocument]:
        return viewer.resources(resources).to_json(shown=True)

    return {
        "reserved_resources_full": {
            role: shown(total.reserved(role)) for role in filter(viewer.role, total.reserved_roles())
        },
        "unreserved_resources_full": shown(total.unreserved()),
        "used_resources_full": shown(agent.used_total),
        "offered_resources_full": shown(agent.offered),
    }


def sees_task(viewer: Viewer, task: Task, framework: Framework) -> bool:
    """Return whether `viewer` may see a task."""
    return viewer.task(task.document.get("user"), framework.info)


def _executors(state: MasterState, framework: Framework) -> list[tuple[Agent, Executor]]:
    return [
        (a, executor)
        for a in state.agents.values()
        for (fid, _), executor in a.executors.items()
        if fid == framework.id
    ]


def _status_view(status: Mapping[str, Any]) -> Document:
    view: Document = {"state": status["state"], "timestamp": status.get("timestamp", 0.0)}
    if "labels" in status:
        view["labels"] = status["labels"].get("labels", [])
    if "container_status" in status:
        shown = status["container_status"]
        view["container_status"] = {key: shown[key] for key in _CONTAINER_STATUS if key in shown}
    if "healthy" in status:
        view["healthy"] = status["healthy"]
    return view


def _attributes(info: Mapping[str, Any]) -> Document:
    return {attribute["name"]: _ATTRIBUTE[attribute["type"]](attribute) for attribute in info.get("attributes", ())}


_ATTRIBUTE: Mapping[str, Callable[[Mapping[str, Any]], object]] = {
    "SCALAR": lambda a: a["scalar"]["value"],
    "RANGES": lambda a: amount_text(Resource.from_json({"name": a["name"], **a}).amount),
    "SET": lambda a: amount_text(Resource.from_json({"name": a["name"], **a}).amount),
    "TEXT": lambda a: a["text"]["value"],
}
