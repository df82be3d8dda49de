"""An agent with a task that runs, and what it decided, in short."""

from __future__ import annotations

from typing import Any

from mesos_gpu.agent.decisions.handle import handle
from mesos_gpu.agent.decisions.state import AgentState
from mesos_gpu.agent.model import actions as act
from mesos_gpu.agent.model import events as ev
from mesos_gpu.agent.model.updates import Forward
from mesos_gpu.container.spec.config import Termination
from tests.support.agent.documents import at, key, new_state, run, task


def sent(actions: list[act.Action]) -> list[dict[str, Any]]:
    return [action.status for action in actions if isinstance(action, Forward)]


def kinds(actions: list[act.Action]) -> list[str]:
    return [type(action).__name__ for action in actions]


def acknowledge_all(state: AgentState, task_id: str = "t1", mono_s: float = 0.0) -> list[dict[str, Any]]:
    """Acknowledge until nothing is outstanding; return what was outstanding, in order."""
    seen = []
    while pending := state.streams.pending(key(task_id)):
        seen.append(pending[0])
        handle(state, ev.Acknowledged(key(task_id), pending[0]["uuid"]), at(mono_s))
    return seen


def connected() -> AgentState:
    state = new_state()
    handle(state, ev.Registered(), at())
    return state


def running(info: dict[str, Any] | None = None, *tasks: dict[str, Any]) -> AgentState:
    state = connected()
    handle(state, run(*(tasks or (task(),)), info=info), at())
    for document in tasks or (task(),):
        handle(state, ev.Launched(key(document["task_id"]["value"]), 42), at())
    return state


def end(state: AgentState, **ending: Any) -> list[act.Action]:
    return handle(state, ev.Ended(key(), Termination(**ending)), at(1.0))
