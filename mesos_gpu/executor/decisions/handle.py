"""The decisions of the default executor: an event in, actions out, over the books of `ExecutorState`. Pure.

A group's tasks start together, and when one fails or is killed the others are killed; groups are independent of each
other. When no task is left, the program ends, once the agent has every update.
Source: Mesos src/launcher/default_executor.cpp.
"""

from __future__ import annotations

from mesos_gpu.executor.decisions import events as ev
from mesos_gpu.executor.decisions import task_containers
from mesos_gpu.executor.decisions.events import Action, Document, Event
from mesos_gpu.executor.decisions.state import ExecutorState, Why
from mesos_gpu.executor.decisions.task_containers import SIGKILL, SIGTERM
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.tasks import is_terminal

LAST_ACKNOWLEDGEMENTS_S = 60.0
"""How long the agent has, at the end, to acknowledge what it was told."""
_MARGIN_S = 2.0
"""What the tasks' grace is shorter than the executor's own at a shutdown."""
_BACKOFF_MIN_S = 0.05


def begin() -> list[Action]:
    """Return the first actions."""
    return [ev.Subscribe((), ())]


def handle(state: ExecutorState, event: Event, at: Moment) -> list[Action]:
    """Take an event into the books and return what is to be done about it, in order."""
    return _decide(state, event, at) + _finish(state, at)


def _decide(state: ExecutorState, event: Event, at: Moment) -> list[Action]:
    match event:
        case ev.Subscribed():
            return _subscribed(state, event.info)
        case ev.Disconnected():
            return _disconnected(state, at)
        case ev.Launch():
            return task_containers.launch_group(state, event.tasks, at)
        case ev.Kill():
            return _kill(state, event, at)
        case ev.Acknowledged():
            state.unacknowledged.updates.pop(event.uuid, None)
            state.unacknowledged.tasks.pop(event.task_id, None)
            return []
        case ev.Shutdown():
            return _shutdown(state, at)
        case ev.Launched():
            return task_containers.launched(state, event.container_id, at)
        case ev.LaunchFailed():
            return task_containers.launch_failed(state, event.container_id, event.why, at)
        case ev.Ended():
            return task_containers.ended(state, event.container_id, event.end, at)
        case ev.Probed():
            return task_containers.probed(state, event, at)
        case ev.Tick():
            return _tick(state, at)


def _subscribed(state: ExecutorState, info: Document) -> list[Action]:
    agent = state.agent
    agent.info, agent.connected, agent.lost_at_s, agent.tries = info, True, None, 0
    actions: list[Action] = []
    for container in state.containers.values():  # what was asked of the agent that went away is asked again
        if not container.launched:
            actions.append(task_containers.launch(container))
            continue
        actions.append(ev.WaitContainer(container.container_id))
        if container.why is not None:
            number = SIGKILL if container.kill_at_s is None else SIGTERM
            actions.append(ev.SignalContainer(container.container_id, number))
    return actions


def _disconnected(state: ExecutorState, at: Moment) -> list[Action]:
    agent = state.agent
    agent.connected = False
    if agent.lost_at_s is None:
        agent.lost_at_s = at.mono_s
    if state.setting.recovery_s is None or state.ending.shutting_down:
        return [ev.Exit(1, "the agent is gone")]
    if state.gives_agent_up(at):
        return [_gave_up(state)]
    after_s = min(state.setting.backoff_s, _BACKOFF_MIN_S * 2**agent.tries)
    agent.tries = min(agent.tries + 1, 16)
    waiting = state.unacknowledged
    return [ev.Subscribe(tuple(waiting.tasks.values()), tuple(waiting.updates.values()), after_s)]


def _kill(state: ExecutorState, event: ev.Kill, at: Moment) -> list[Action]:
    meant = [container for container in state.containers.values() if container.task_id == event.task_id]
    actions: list[Action] = []
    for container in meant:
        actions += task_containers.kill(state, container, Why.KILLED, at, asked_s=event.grace_s)
    return actions


def _shutdown(state: ExecutorState, at: Moment) -> list[Action]:
    state.ending.shutting_down = True
    most_s = max(0.0, state.setting.shutdown_grace_s - _MARGIN_S)
    actions: list[Action] = []
    for container in list(state.containers.values()):
        actions += task_containers.kill(state, container, Why.KILLED, at, most_s=most_s)
    return actions


def _tick(state: ExecutorState, at: Moment) -> list[Action]:
    if state.ending.exit_by_s is not None and state.ending.exit_by_s <= at.mono_s:
        return [ev.Exit(1, "the agent did not acknowledge the last updates")]
    if state.gives_agent_up(at):
        return [_gave_up(state)]
    containers = list(state.containers.values())
    return [action for container in containers for action in task_containers.tick(state, container, at)]


def _gave_up(state: ExecutorState) -> Action:
    return ev.Exit(1, f"the agent was gone for {state.setting.recovery_s} s")


def _finish(state: ExecutorState, at: Moment) -> list[Action]:
    """End when there is nothing left to do: with all updates acknowledged, or after a while."""
    ending = state.ending
    if state.containers or not (ending.ever_launched or ending.shutting_down):
        return []
    if not any(is_terminal(update["status"]["state"]) for update in state.unacknowledged.updates.values()):
        return [ev.Exit(0, "all tasks have ended")]
    if ending.exit_by_s is None:
        ending.exit_by_s = at.mono_s + LAST_ACKNOWLEDGEMENTS_S
    return []
