"""Agents that were unreachable or gone for long are forgotten, and the oldest of too many. Pure.

Source: Mesos src/master/master.cpp (doRegistryGc, _doRegistryGc).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mesos_gpu.master.events.stored import AgentsForgotten
from mesos_gpu.master.registry.operations import Prune
from mesos_gpu.master.state.actions import Action, Store
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.ids import AgentId
from mesos_gpu.mesos.moment import Moment


def due(
    since_s: Iterable[tuple[AgentId, float]], now_s: float, *, max_age_s: float, max_count: int
) -> tuple[AgentId, ...]:
    """Return which of the agents (id, since when), the first in first, are too many or too old."""
    agents = list(since_s)
    excess = max(0, len(agents) - max_count)
    return (*(id for id, _ in agents[:excess]), *(id for id, since in agents[excess:] if now_s - since > max_age_s))


def collect(state: MasterState, now: Moment) -> list[Action]:
    """`--registry_gc_interval` is over: forget whom `--registry_max_agent_age` and `--registry_max_agent_count` say.

    Tasks that were lost with such an agent are forgotten, too: who asks for them hears that they are unknown.
    """
    max_age_s, max_count = state.settings.registry_max_agent_age_s, state.settings.registry_max_agent_count
    away = [(id, known.since_s or 0.0) for id, known in state.unreachable.items()]
    unreachable = due(away, now.wall_s, max_age_s=max_age_s, max_count=max_count)
    gone = due(state.gone.items(), now.wall_s, max_age_s=max_age_s, max_count=max_count)
    if not unreachable and not gone:
        return []
    return [Store(Prune(unreachable, gone), AgentsForgotten(unreachable, gone))]


def forgotten(state: MasterState, unreachable: Sequence[AgentId], gone: Sequence[AgentId]) -> list[Action]:
    """Agents are out of the registry: nothing is known of them here either."""
    for agent_id in unreachable:
        # One that came back while this was stored was admitted after it, or before: then it is here no more.
        if state.unreachable.pop(agent_id, None) is not None:
            state.deactivated.pop(agent_id, None)
            _forget_tasks(state, agent_id)
    for agent_id in gone:
        state.gone.pop(agent_id, None)
    return []


def _forget_tasks(state: MasterState, agent_id: AgentId) -> None:
    for framework in state.frameworks.values():
        for task in [task for task in framework.unreachable.values() if task.agent_id == agent_id]:
            del framework.unreachable[task.id]
