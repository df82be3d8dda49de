"""/metrics/snapshot and GET_METRICS: the master's numbers under Mesos' names. Only what is really measured is there."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import accumulate

from mesos_gpu.master.allocation.eligibility import dominant_share, quantities
from mesos_gpu.master.decisions.offering import quantities_by_role
from mesos_gpu.master.decisions.operation_metrics import of_operations
from mesos_gpu.master.model.quota import countable
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.master.views.framework_metrics import of_framework
from mesos_gpu.master.views.views import known_roles
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.resource import Resource
from mesos_gpu.mesos.resources import Resources

_RESOURCES = ("cpus", "gpus", "mem", "disk")
# Live states are counted as they are now, ended ones since the start.
_LIVE = ("staging", "starting", "running", "killing", "unreachable")
_ENDED = ("finished", "failed", "killed", "lost", "error", "dropped", "gone", "gone_by_operator")
_MESSAGES = [
    "accept:launch_tasks",
    "acknowledge:status_update_acknowledgement",
    "acknowledge_operation_status:operation_status_update_acknowledgement",
    "reconcile_operations:reconcile_operations",
    "decline:decline_offers",
    "kill:kill_task",
    "message:framework_to_executor",
    "reconcile:reconcile_tasks",
    "request:resource_request",
    "revive:revive_offers",
    "subscribe:register_framework",
    "suppress:suppress_offers",
    "teardown:unregister_framework",
]
_COUNTED = [
    "slave_registrations",
    "slave_reregistrations",
    "slave_removals",
    "slave_removals/reason_registered",
    "slave_removals/reason_unhealthy",
    "slave_removals/reason_unregistered",
    "messages_reregister_framework",
    "invalid_executor_to_framework_messages",
    "invalid_framework_to_executor_messages",
    "valid_executor_to_framework_messages",
    "valid_framework_to_executor_messages",
    "recovery_slave_removals",
    "valid_status_updates",
    "invalid_status_updates",
    "valid_status_update_acknowledgements",
    "invalid_status_update_acknowledgements",
    "messages_register_slave",
    "messages_reregister_slave",
    "messages_unregister_slave",
    "messages_status_update",
    "messages_operation_status_update",
    "valid_operation_status_updates",
    "invalid_operation_status_updates",
    "valid_operation_status_update_acknowledgements",
    "invalid_operation_status_update_acknowledgements",
    "messages_update_slave",
    "messages_exited_executor",
    "messages_executor_to_framework",
    "messages_authenticate",
    "messages_deactivate_framework",
]


def snapshot(state: MasterState, now: Moment, system: dict[str, float]) -> dict[str, float]:
    """Return the metrics by name; `system` is what the machine reports (system/...)."""
    metrics: dict[str, float] = {
        "master/uptime_secs": now.mono_s - state.started.mono_s,
        "master/elected": 1.0,
        "master/outstanding_offers": float(sum(len(a.offers) for a in state.agents.values())),
        "allocator/mesos/allocation_runs": float(state.counters["allocation_runs"]),
        **system,
    }
    metrics |= _agents(state) | _frameworks(state) | _tasks(state) | _resources(state) | _shares(state) | _quota(state)
    metrics |= of_operations(state)
    metrics |= {f"master/{name}": float(state.counters[name]) for name in _COUNTED}
    for pair in _MESSAGES:
        call, _, name = pair.partition(":")
        metrics[f"master/messages_{name}"] = float(state.counters[f"calls_{call}"])
    reasons = {name: count for name, count in state.counters.items() if name.startswith("task_")}
    metrics |= {f"master/{name}": float(count) for name, count in reasons.items()}
    if state.settings.framework_metrics:
        for framework in (*state.frameworks.values(), *state.completed.values()):
            metrics |= of_framework(framework)
    return dict(sorted(metrics.items()))


def _agents(state: MasterState) -> dict[str, float]:
    connected = float(sum(agent.connected for agent in state.agents.values()))
    active = float(sum(agent.active for agent in state.agents.values()))
    away = len(state.agents) - connected
    return {
        "master/slaves_active": active,
        "master/slaves_connected": connected,
        "master/slaves_inactive": float(len(state.agents) - active),
        "master/slaves_disconnected": away,
        "master/slaves_unreachable": float(len(state.unreachable)),
    }


def _frameworks(state: MasterState) -> dict[str, float]:
    connected = float(sum(framework.connected for framework in state.frameworks.values()))
    active = float(sum(framework.active for framework in state.frameworks.values()))
    return {
        "master/frameworks_active": active,
        "master/frameworks_connected": connected,
        "master/frameworks_inactive": len(state.frameworks) - active,
        "master/frameworks_disconnected": len(state.frameworks) - connected,
    }


def _tasks(state: MasterState) -> dict[str, float]:
    live = Counter(task.state for framework in state.frameworks.values() for task in framework.tasks.values())
    live["TASK_UNREACHABLE"] += sum(len(framework.unreachable) for framework in state.frameworks.values())
    return {
        **{f"master/tasks_{name}": float(live[f"TASK_{name.upper()}"]) for name in _LIVE},
        **{f"master/tasks_{name}": float(state.counters[f"tasks_{name}"]) for name in _ENDED},
    }


def _resources(state: MasterState) -> dict[str, float]:
    total, used, held = Counter[str](), Counter[str](), Counter[str]()
    for agent in state.agents.values():
        _count(total, agent.total)
        _count(used, agent.used_total)
        # What is shared may be in both, and is there once.
        both = agent.total.shared()
        for part in (agent.used_total + agent.offered,) if both else (agent.used_total, agent.offered):
            _count(held, part.unallocated() if both else part)
    metrics: dict[str, float] = {}
    for name in _RESOURCES:
        there, taken = total[name], used[name]
        metrics[f"master/{name}_total"] = there / 1000
        metrics[f"master/{name}_used"] = taken / 1000
        metrics[f"master/{name}_percent"] = taken / there if there else 0.0
        for kind in ("total", "used", "percent"):
            metrics[f"master/{name}_revocable_{kind}"] = 0.0
    for name in ("cpus", "mem", "disk"):
        metrics[f"allocator/mesos/resources/{name}/total"] = total[name] / 1000
        metrics[f"allocator/mesos/resources/{name}/offered_or_allocated"] = held[name] / 1000
    return metrics


def _count(amounts: Counter[str], resources: Resources) -> None:
    """Add the scalars of an agent's resources; bags of thousands of agents take long to add up."""
    for resource in resources:
        if isinstance(resource.amount, int):
            amounts[resource.name] += resource.amount


def _quota(state: MasterState) -> dict[str, float]:
    """Return what each role consumes of its quota: what is reserved for it or used, by itself and below it."""
    consumed: defaultdict[str, list[Resource]] = defaultdict(list)
    for agent in state.agents.values():
        kept = [(r.role, r) for r in agent.total if r.reservations]
        used = [(r.allocation_role or "*", r) for r in agent.used_total if countable(r)]
        for role, resource in (*kept, *used):
            for above in ("", *accumulate(role.split("/"), "{}/{}".format)):
                consumed[above].append(resource)
    return {
        f"allocator/mesos/quota/roles/{role}/resources/{name}/consumed": amount / 1000
        for role, resources in consumed.items()
        for name, amount in quantities(resources).items()
    }


def _shares(state: MasterState) -> dict[str, float]:
    total = Counter[str]()
    for agent in state.agents.values():
        _count(total, agent.total)
    held = quantities_by_role(state)
    metrics: dict[str, float] = {}
    for role in known_roles(state):
        if state.settings.draw is None:
            mine = held.get(role, {})
            share = dominant_share(mine, total, state.settings.rules.excluded_names)
            metrics[f"allocator/mesos/roles/{role}/shares/dominant"] = share
        metrics[f"allocator/mesos/offer_filters/roles/{role}/active"] = float(state.filters.count(role))
    return metrics
