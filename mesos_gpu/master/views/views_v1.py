"""The v1 operator API's answers: GET_STATE and its parts. Values to values.

Source: Mesos src/master/readonly_handler.cpp and recorded answers of 1.12: resources inside infos, tasks and offers in
the refined format; totals, allocated and offered ones in the older. Empty lists are absent except where Mesos writes
them by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mesos_gpu.master.allocation.eligibility import quantities
from mesos_gpu.master.decisions.offering import held_by_role
from mesos_gpu.master.model.documents import Task
from mesos_gpu.master.model.model import Agent, Executor, Framework
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.master.state.unversioned import sees_task, usage
from mesos_gpu.master.validation.operation_validation import resource_lists
from mesos_gpu.master.views.views import framework_ids, known_roles, seen
from mesos_gpu.mesos.ids import FrameworkId, Role
from mesos_gpu.mesos.messages import with_defaults
from mesos_gpu.mesos.resource import Document, Resource, ResourceDocument
from mesos_gpu.mesos.resources import NOTHING
from mesos_gpu.mesos.security.viewing import EVERYBODY, Viewer


def get_state(state: MasterState, viewer: Viewer = EVERYBODY) -> Document:
    """Return the body of GET_STATE, as far as `viewer` may see it."""
    return {
        "get_tasks": get_tasks(state, viewer),
        "get_executors": get_executors(state, viewer),
        "get_frameworks": get_frameworks(state, viewer),
        "get_agents": get_agents(state, viewer),
    }


def get_tasks(state: MasterState, viewer: Viewer = EVERYBODY) -> Document:
    """Return the body of GET_TASKS."""
    frameworks = [*seen(state.frameworks, viewer), *seen(state.completed, viewer)]

    def shown(framework: Framework, tasks: Iterable[Task]) -> list[Document]:
        mine = (task for task in tasks if sees_task(viewer, task, framework))
        return [with_defaults("mesos.v1.Task", task.document) for task in mine]

    return {
        "tasks": [task for f in frameworks for task in shown(f, f.tasks.values())],
        "unreachable_tasks": [task for f in frameworks for task in shown(f, f.unreachable.values())],
        "completed_tasks": [task for f in frameworks for task in shown(f, f.completed)],
    }


def get_executors(state: MasterState, viewer: Viewer = EVERYBODY) -> Document:
    """Return the body of GET_EXECUTORS: those that frameworks brought."""
    return {
        "executors": [
            {"executor_info": with_defaults("mesos.v1.ExecutorInfo", executor.info), "agent_id": {"value": agent.id}}
            for agent in state.agents.values()
            for (framework_id, _), executor in agent.executors.items()
            if sees_executor(state, viewer, framework_id, executor)
        ]
    }


def sees_executor(state: MasterState, viewer: Viewer, framework_id: FrameworkId, executor: Executor) -> bool:
    """Return whether `viewer` may see an executor, and its framework. Of one that nobody knows, only who sees all."""
    framework = state.frameworks.get(framework_id) or state.completed.get(framework_id)
    if framework is None:
        return viewer.sees_all
    return viewer.framework(framework.info) and viewer.executor(executor.info, framework.info)


def get_frameworks(state: MasterState, viewer: Viewer = EVERYBODY) -> Document:
    """Return the body of GET_FRAMEWORKS."""
    return {
        "frameworks": [_framework(state, framework) for framework in seen(state.frameworks, viewer)],
        "completed_frameworks": [_framework(state, framework) for framework in seen(state.completed, viewer)],
    }


def get_agents(state: MasterState, viewer: Viewer = EVERYBODY) -> Document:
    """Return the body of GET_AGENTS; resources of roles that `viewer` may not see are left out."""
    return {
        "agents": [agent_view(agent, viewer) for agent in state.agents.values()],
        "recovered_agents": [
            known.info
            if viewer.sees_all
            else {**known.info, "resources": visible(viewer, known.info.get("resources", ()))}
            for known in state.recovered.values()
        ],
    }


def visible(viewer: Viewer, resources: Iterable[ResourceDocument]) -> list[ResourceDocument]:
    """Return those Resource documents of which `viewer` may see all roles."""
    return [document for document in resources if viewer.sees_all or viewer.resource(Resource.from_json(document))]


def get_operations(state: MasterState, viewer: Viewer = EVERYBODY) -> Document:
    """Return the body of GET_OPERATIONS; empty when there are none that somebody has yet to hear the end of.

    An operation is shown to whom all its resources are.
    """
    found = [operation.document for agent in state.agents.values() for operation in agent.operations.values()]
    if not viewer.sees_all:
        found = [document for document in found if _all_visible(viewer, document.get("info", {}))]
    return {"operations": found} if found else {}


def _all_visible(viewer: Viewer, operation: Document) -> bool:
    body = operation.get(str(operation.get("type")).lower(), {})
    for field, many in resource_lists(operation):
        documents = body.get(field, ()) if many else [body[field]] if field in body else ()
        if len(visible(viewer, documents)) != len(documents):
            return False
    return True


def get_roles(state: MasterState, viewer: Viewer = EVERYBODY) -> Document:
    """Return the body of GET_ROLES; empty when no role is in use."""
    roles = [_role(state, role) for role in filter(viewer.role, known_roles(state))]
    return {"roles": roles} if roles else {}


def get_master(state: MasterState) -> Document:
    """Return the body of GET_MASTER."""
    return {
        "master_info": state.master_info,
        "start_time": state.started.wall_s,
        "elected_time": (state.elected or state.started).wall_s,
    }


def _framework(state: MasterState, framework: Framework) -> Document:
    used, offered = usage(state, framework)
    registered = time_info(framework.registered_s)
    view: Document = {
        "framework_info": with_defaults("mesos.v1.FrameworkInfo", framework.info),
        "active": framework.active,
        "connected": framework.connected,
        "recovered": framework.recovered,
        "registered_time": registered,
        "reregistered_time": registered if framework.reregistered_s is None else time_info(framework.reregistered_s),
    }
    if framework.unregistered_s:
        view["unregistered_time"] = time_info(framework.unregistered_s)
    lists: dict[str, list[Any]] = {
        "offers": [{**o.document, "resources": o.resources.to_json(refined=True)} for o in framework.offers.values()],
        "allocated_resources": used.to_json(shown=True),
        "offered_resources": offered.to_json(shown=True),
    }
    return {
        **view,
        **{name: items for name, items in lists.items() if items},
        "offer_constraints": framework.offer_constraints,
    }


def framework_news(state: MasterState, framework: Framework) -> Document:
    """Return a framework as operator events show it: with a time of removal even before there is one."""
    view = _framework(state, framework)
    del view["offer_constraints"]
    return {"unregistered_time": time_info(framework.unregistered_s), **view}


def agent_view(agent: Agent, viewer: Viewer = EVERYBODY) -> Document:
    """Return an agent as GET_AGENTS and AGENT_ADDED show it."""
    view: Document = {
        "agent_info": {
            **agent.info,
            "checkpoint": agent.checkpoint,
            **({} if viewer.sees_all else {"resources": visible(viewer, agent.info.get("resources", ()))}),
        },
        "active": agent.active,
        "deactivated": agent.deactivated,
        "version": agent.version,
        "pid": agent.pid,
        "registered_time": time_info(agent.registered_s),
    }
    if agent.reregistered_s is not None:
        view["reregistered_time"] = time_info(agent.reregistered_s)
    lists: dict[str, list[Any]] = {
        "total_resources": viewer.resources(agent.total).to_json(shown=True),
        "allocated_resources": viewer.resources(agent.used_total).to_json(shown=True),
        "offered_resources": viewer.resources(agent.offered).to_json(shown=True),
        "capabilities": [{"type": capability} for capability in agent.capabilities],
    }
    shown = {**view, **{name: items for name, items in lists.items() if items}}
    if agent.drain is None:
        return shown
    since = time_info(agent.drain.started_s)
    return {**shown, "drain_info": agent.drain.to_json(), "estimated_drain_start_time": since}


def _role(state: MasterState, role: Role) -> Document:
    held = held_by_role(state).get(role, NOTHING)
    view: Document = {"name": role, "weight": state.policy.weight(role)}
    frameworks = [{"value": framework_id} for framework_id in framework_ids(state, role)]
    resources = [
        {"name": name, "type": "SCALAR", "scalar": {"value": amount / 1000}}
        for name, amount in sorted(quantities(held).items())
    ]
    lists: dict[str, list[Any]] = {"frameworks": frameworks, "resources": resources}
    return {**view, **{name: items for name, items in lists.items() if items}}


def time_info(seconds: float) -> Document:
    """Return a TimeInfo."""
    return {"nanoseconds": round(seconds * 1e9)}


READS: Mapping[str, Callable[[MasterState, Viewer], Document]] = {
    "GET_STATE": get_state,
    "GET_AGENTS": get_agents,
    "GET_FRAMEWORKS": get_frameworks,
    "GET_EXECUTORS": get_executors,
    "GET_TASKS": get_tasks,
    "GET_OPERATIONS": get_operations,
    "GET_ROLES": get_roles,
    "GET_MASTER": lambda state, viewer: get_master(state),
}
"""What answers a call, by its type."""
