"""The numbers of /metrics/snapshot; names as Mesos' (src/slave/metrics.cpp). What this agent has no part in is 0."""

from __future__ import annotations

from collections import Counter

from mesos_gpu.agent.decisions.state import AgentState
from mesos_gpu.agent.model.executors import Stage
from mesos_gpu.agent.model.tasks import Phase
from mesos_gpu.mesos.resources import Resources

_SCALARS = ("cpus", "disk", "gpus", "mem")
_LIVE_STATES = ("staging", "starting", "running", "killing")
_ENDED_STATES = ("finished", "failed", "killed", "lost", "gone")
# Parts of Mesos that this agent does not have; monitoring that asks for them finds that nothing happened there.
_ABSENT = (
    "containerizer/mesos/container_destroy_errors",
    "resource_provider_manager/events/disconnect",
    "resource_provider_manager/events/subscribe",
    "resource_provider_manager/subscribed",
    "slave/executors_preempted",
    "slave/recovery_errors",
)


def agent_metrics(
    state: AgentState, total: Resources, used: Resources, *, registered: bool, uptime_s: float
) -> dict[str, float]:
    """Return the agent's own numbers."""
    tasks = state.frameworks.tasks()
    phases = Counter(task.phase for task in tasks if not task.hosted)
    stages = Counter(executor.stage for executor in state.frameworks.executors())
    states = Counter(task.state for task in tasks)
    counts = state.counts
    numbers: dict[str, float] = dict.fromkeys(_ABSENT, 0.0)
    for name in _SCALARS:
        have, taken = total.value(name), used.value(name)
        numbers[f"slave/{name}_total"] = have
        numbers[f"slave/{name}_used"] = taken
        numbers[f"slave/{name}_percent"] = taken / have if have else 0.0
        for what in ("total", "used", "percent"):
            numbers[f"slave/{name}_revocable_{what}"] = 0.0
    numbers |= {f"slave/tasks_{name}": float(states[f"TASK_{name.upper()}"]) for name in _LIVE_STATES}
    numbers |= {f"slave/tasks_{name}": float(counts.get(f"TASK_{name.upper()}", 0)) for name in _ENDED_STATES}
    for name in ("invalid_framework_messages", "valid_framework_messages", "invalid_status_updates"):
        numbers[f"slave/{name}"] = float(counts.get(name, 0))
    numbers["slave/container_launch_errors"] = float(counts.get("container_launch_errors", 0))
    numbers["slave/valid_status_updates"] = float(sum(n for name, n in counts.items() if name.startswith("TASK_")))
    numbers["slave/executors_registering"] = float(
        phases[Phase.LAUNCHING] + stages[Stage.LAUNCHING] + stages[Stage.REGISTERING]
    )
    numbers["slave/executors_running"] = float(phases[Phase.RUNNING] + stages[Stage.RUNNING])
    numbers["slave/executors_terminating"] = float(
        phases[Phase.ENDING] + phases[Phase.CANCELLED] + stages[Stage.TERMINATING]
    )
    past = [*state.frameworks.active.values(), *state.frameworks.completed.values()]
    numbers["slave/executors_terminated"] = float(sum(len(framework.completed) for framework in past))
    numbers["slave/frameworks_active"] = float(len(state.frameworks.active))
    numbers["slave/registered"] = float(registered)
    numbers["slave/uptime_secs"] = uptime_s
    return numbers
