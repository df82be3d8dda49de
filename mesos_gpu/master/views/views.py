"""The unversioned endpoints' JSON: /state, /slaves, /frameworks, /tasks, /roles, /state-summary. Values to values.

Names are v0 (`slave`); numbers are floats where Mesos prints them so. Source: Mesos src/common/http.cpp,
src/master/readonly_handler.cpp, recorded answers of 1.12.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from mesos_gpu.master.allocation.eligibility import quantities
from mesos_gpu.master.decisions.offering import holders
from mesos_gpu.master.model.documents import Task
from mesos_gpu.master.model.model import Framework
from mesos_gpu.master.model.quota import Quota, countable
from mesos_gpu.master.model.shared_volumes import summed
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.master.state.unversioned import (
    agent_full,
    agent_view,
    all_tasks,
    framework_head,
    framework_view,
    recovered_view,
    sees_task,
    task_view,
)
from mesos_gpu.mesos.ids import ANY_ROLE, FrameworkId, Role, TaskId
from mesos_gpu.mesos.libprocess import Pid
from mesos_gpu.mesos.resource import Document, Resource
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.security.viewing import EVERYBODY, Viewer

MASTER_CAPABILITIES = ("AGENT_UPDATE", "AGENT_DRAINING", "QUOTA_V2")
DEFAULT_TASK_LIMIT = 100
_COUNTED = [
    "TASK_STAGING",
    "TASK_STARTING",
    "TASK_RUNNING",
    "TASK_KILLING",
    "TASK_FINISHED",
    "TASK_KILLED",
    "TASK_FAILED",
    "TASK_LOST",
    "TASK_ERROR",
    "TASK_UNREACHABLE",
]


def state_view(
    state: MasterState, version: Document, flags: Mapping[str, str], cluster: str | None, viewer: Viewer = EVERYBODY
) -> Document:
    """Return /state, as far as `viewer` may see it."""
    info = state.master_info
    sees_flags = viewer.may("view_flags")
    leader = {key: info[key] for key in ("id", "pid", "port", "hostname")}
    return {
        **version,
        "start_time": state.started.wall_s,
        "elected_time": (state.elected or state.started).wall_s,
        "id": info["id"],
        "pid": info["pid"],
        "hostname": info["hostname"],
        "capabilities": [capability["type"] for capability in info["capabilities"]],
        "activated_slaves": float(sum(agent.active for agent in state.agents.values())),
        "deactivated_slaves": float(sum(not agent.active for agent in state.agents.values())),
        "unreachable_slaves": float(len(state.unreachable)),
        "leader": info["pid"],
        "leader_info": leader,
        **({"cluster": cluster} if cluster is not None and sees_flags else {}),
        **({"flags": dict(flags)} if sees_flags else {}),
        "slaves": [agent_view(agent, viewer) for agent in state.agents.values()],
        "recovered_slaves": [recovered_view(known) for known in state.recovered.values()],
        "frameworks": [framework_view(state, f, viewer) for f in seen(state.frameworks, viewer)],
        "completed_frameworks": [framework_view(state, f, viewer) for f in seen(state.completed, viewer)],
        "orphan_tasks": [],
        "unregistered_frameworks": [],
    }


def summary_view(state: MasterState, cluster: str | None, viewer: Viewer = EVERYBODY) -> Document:
    """Return /state-summary: counts instead of tasks. As in Mesos the counts of agents are of everybody's tasks."""
    frameworks = [*state.frameworks.values(), *state.completed.values()]
    by_agent: dict[str, Counter[str]] = {}
    by_framework: dict[str, Counter[str]] = {}
    met: set[tuple[str, str]] = set()
    for framework in frameworks:
        for task in all_tasks(framework):
            by_framework.setdefault(framework.id, Counter())[task.state] += 1
            by_agent.setdefault(task.agent_id, Counter())[task.state] += 1
            met.add((framework.id, task.agent_id))
    return {
        "hostname": state.master_info["hostname"],
        **({} if cluster is None else {"cluster": cluster}),
        "slaves": [
            {
                **agent_view(agent, viewer),
                **_counts(by_agent.get(agent.id, Counter())),
                "framework_ids": [f.id for f in frameworks if (f.id, agent.id) in met],
            }
            for agent in state.agents.values()
        ],
        "frameworks": [
            {
                **framework_head(state, framework),
                **_counts(by_framework.get(framework.id, Counter())),
                "slave_ids": [agent_id for agent_id in state.agents if (framework.id, agent_id) in met],
            }
            for framework in seen(state.frameworks, viewer)
        ],
    }


def slaves_view(state: MasterState, slave_id: str | None, viewer: Viewer = EVERYBODY) -> Document:
    """Return /slaves, of one agent with `?slave_id=`."""
    wanted = [agent for agent in state.agents.values() if slave_id in (None, agent.id)]
    recovered = [known for id, known in state.recovered.items() if slave_id in (None, id)]
    return {
        "slaves": [{**agent_view(agent, viewer), **agent_full(agent, viewer)} for agent in wanted],
        "recovered_slaves": [recovered_view(known) for known in recovered],
    }


def frameworks_view(state: MasterState, framework_id: FrameworkId | None, viewer: Viewer = EVERYBODY) -> Document:
    """Return /frameworks, of one framework with `?framework_id=`."""

    def shown(frameworks: Mapping[FrameworkId, Framework]) -> list[Document]:
        return [framework_view(state, f, viewer) for f in seen(frameworks, viewer) if framework_id in (None, f.id)]

    return {
        "frameworks": shown(state.frameworks),
        "completed_frameworks": shown(state.completed),
        "unregistered_frameworks": [],
    }


def tasks_view(
    state: MasterState,
    *,
    limit: int = DEFAULT_TASK_LIMIT,
    offset: int = 0,
    ascending: bool = False,
    framework_id: FrameworkId | None = None,
    task_id: TaskId | None = None,
    viewer: Viewer = EVERYBODY,
) -> Document:
    """Return /tasks, ordered by the time of the first status, newest first unless `ascending`."""
    found = [
        task
        for framework in [*seen(state.frameworks, viewer), *seen(state.completed, viewer)]
        if framework_id in (None, framework.id)
        for task in all_tasks(framework)
        if task_id in (None, task.id) and sees_task(viewer, task, framework)
    ]
    found.sort(key=_first_status_s, reverse=not ascending)
    # Negative numbers become huge ones in Mesos (`size_t` of an `int` in src/master/http.cpp): all tasks, or none.
    begin = offset if offset >= 0 else len(found)
    end = begin + limit if limit >= 0 else len(found)
    return {"tasks": [task_view(task) for task in found[begin:end]]}


def roles_view(state: MasterState, viewer: Viewer = EVERYBODY) -> Document:
    """Return /roles: every role that a framework has or that something is allocated to."""
    return {"roles": [_role_view(state, role) for role in filter(viewer.role, known_roles(state))]}


def seen(frameworks: Mapping[FrameworkId, Framework], viewer: Viewer) -> list[Framework]:
    """Return the frameworks that `viewer` may see."""
    return [framework for framework in frameworks.values() if viewer.framework(framework.info)]


def known_roles(state: MasterState) -> list[Role]:
    """Return the names of the roles in use, sorted: also those with a weight or quota, and those of `--roles`."""
    subscribed = {role for framework in state.frameworks.values() for role in framework.roles}
    reserved = {role for agent in state.agents.values() for role in agent.total.reserved_roles()}
    named = {*state.policy.weights, *state.policy.quotas, *((state.settings.roles or {ANY_ROLE}) - {ANY_ROLE})}
    return sorted(subscribed | reserved | named | {role for role, _ in holders(state)})


def framework_ids(state: MasterState, role: Role) -> list[str]:
    """Return the frameworks of a role: subscribed to it, or still holding something under it."""
    holding = {framework_id for r, framework_id in holders(state) if r == role}
    return [f.id for f in state.frameworks.values() if role in f.roles or f.id in holding]


def _role_view(state: MasterState, role: Role) -> Document:
    parts = [
        [books.filter(lambda r: (r.allocation_role or "*") == role) for books in (agent.used_total, agent.offered)]
        for agent in state.agents.values()
    ]
    reserved = summed(agent.total.reserved(role) for agent in state.agents.values())
    return {
        "name": role,
        "weight": state.policy.weight(role),
        "quota": _quota_view(state, role),
        "resources": _numbers(summed(used + offered for used, offered in parts)),
        "allocated": _numbers(summed(used for used, _ in parts)),
        "offered": _numbers(summed(offered for _, offered in parts)),
        "reserved": _numbers(reserved),
        "frameworks": framework_ids(state, role),
    }


def _quota_view(state: MasterState, role: Role) -> Document:
    """Return a role's quota and what it consumes of it: all that is reserved for it or used, itself and below."""
    quota = state.policy.quotas.get(role, Quota())
    below = f"{role}/"
    consumed: list[Resource] = []
    for agent in state.agents.values():
        consumed += [r for r in agent.total if r.reservations and (r.role == role or r.role.startswith(below))]
        for resource in agent.used_total:
            of = resource.allocation_role or "*"
            if countable(resource) and (of == role or of.startswith(below)):
                consumed.append(resource)
    return {
        "role": role,
        "guarantee": {name: amount / 1000 for name, amount in quota.guarantees.items()},
        "limit": {name: amount / 1000 for name, amount in quota.limits.items()},
        "consumed": {name: amount / 1000 for name, amount in sorted(quantities(consumed).items())},
    }


def _numbers(resources: Resources) -> Document:
    """Return amounts by name, ports and other ranges counted: what /roles calls quantities."""
    found = {name: amount / 1000 for name, amount in quantities(resources).items()}
    for resource in resources:
        if isinstance(resource.amount, tuple):
            found[resource.name] = found.get(resource.name, 0.0) + sum(
                end - begin + 1 for begin, end in resource.amount
            )
    return dict(sorted(found.items()))


def _counts(counts: Counter[str]) -> Document:
    return {name: counts[name] for name in _COUNTED}


def _first_status_s(task: Task) -> float:
    statuses = task.document.get("statuses") or [{}]
    return float(statuses[0].get("timestamp", 0.0))


def master_info(master_id: str, hostname: str, version: str, pid: Pid) -> Document:
    """Return this master's MasterInfo; `ip` is the address as the number that lies in memory.

    Source: Mesos src/common/protobuf_utils.cpp, createMasterInfo.
    """
    octets = bytes(int(part) for part in pid.ip.split("."))
    return {
        "id": master_id,
        "ip": int.from_bytes(octets, "little"),
        "port": pid.port,
        "pid": str(pid),
        "hostname": hostname,
        "version": version,
        "address": {"hostname": hostname, "ip": pid.ip, "port": pid.port},
        "capabilities": [{"type": capability} for capability in MASTER_CAPABILITIES],
    }
