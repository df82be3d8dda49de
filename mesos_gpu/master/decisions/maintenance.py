"""Machines are to be maintained: agents there say so in their offers, and who runs something there is asked to leave.

Source: Mesos src/master/maintenance.cpp, src/master/http.cpp (updateMaintenanceSchedule, startMaintenance,
stopMaintenance), src/master/master.cpp (updateUnavailability, inverseOffer, acceptInverseOffers).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mesos_gpu.errors import BadInput
from mesos_gpu.master.allocation.filters import refuse_seconds
from mesos_gpu.master.decisions.agents import remove
from mesos_gpu.master.events.stored import MaintenanceStarted, MaintenanceStopped, ScheduleSet
from mesos_gpu.master.model.model import Agent, Drainage, Framework
from mesos_gpu.master.model.policy import MachineKey, key_of, key_of_agent
from mesos_gpu.master.registry.operations import SetSchedule, StartMaintenance, StopMaintenance
from mesos_gpu.master.state.actions import Action, ShutdownAgent, Store
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.ids import AgentId, FrameworkId, OfferId
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.resource import Document

DOWN = "Operator initiated 'Machine DOWN'"


def update_schedule(state: MasterState, schedule: Document) -> list[Action]:
    """UPDATE_MAINTENANCE_SCHEDULE: the new schedule replaces the old one. Raises BadInput."""
    problem = schedule_problem(state, schedule)
    if problem is not None:
        raise BadInput(problem)
    return [Store(SetSchedule(schedule), ScheduleSet(schedule))]


def schedule_set(state: MasterState, schedule: Document) -> list[Action]:
    """A schedule is in the registry: offers of agents in it, or in the one before, are made again."""
    before = {key: machine.unavailability for key, machine in state.policy.machines.items()}
    state.policy.set_schedule(schedule)
    after = {key: machine.unavailability for key, machine in state.policy.machines.items()}
    actions: list[Action] = []
    for agent in state.agents.values():
        key = key_of_agent(agent)
        if key in before or key in after:
            # Frameworks are to look at it again, even where the time is the same.
            actions += state.rescind_all(agent)
            state.note_maintenance(agent)
    return actions


def start(state: MasterState, machine_ids: Sequence[Document]) -> list[Action]:
    """START_MAINTENANCE, /machine/down: agents there end, and cannot register until the machines are up."""
    _check(state, machine_ids, "DRAINING", "brought down")
    machines = frozenset(key_of(machine_id) for machine_id in machine_ids)
    return [Store(StartMaintenance(machines), MaintenanceStarted(machines))]


def started(state: MasterState, machines: frozenset[MachineKey]) -> list[Action]:
    """Machines are down in the registry: agents there end."""
    state.policy.bring_down(machines)
    actions: list[Action] = []
    for agent in [agent for agent in state.agents.values() if key_of_agent(agent) in machines]:
        actions.append(ShutdownAgent(agent.pid, DOWN))
        actions += remove(state, agent.id, DOWN)
    return actions


def stop(state: MasterState, machine_ids: Sequence[Document]) -> list[Action]:
    """STOP_MAINTENANCE, /machine/up: the machines are out of the schedule, and agents there may register."""
    _check(state, machine_ids, "DOWN", "brought up")
    machines = frozenset(key_of(machine_id) for machine_id in machine_ids)
    return [Store(StopMaintenance(machines), MaintenanceStopped(machines))]


def stopped(state: MasterState, machines: frozenset[MachineKey]) -> list[Action]:
    """Machines are up in the registry: agents there may register."""
    state.policy.forget_machines(set(machines))
    return []


def status(state: MasterState) -> Document:
    """Return the ClusterStatus: machines that are to be drained, with what frameworks answered, and those down."""
    draining: list[Document] = []
    answers: dict[tuple[str, str], list[Document]] = {}
    for agent, drainage in _drainages(state):
        answers.setdefault(key_of_agent(agent), []).extend(drainage.statuses.values())
    for key, machine in state.policy.machines.items():
        if machine.mode == "DRAINING":
            said = answers.get(key)
            draining.append({"id": machine.id, **({"statuses": said} if said else {})})
    down = [machine.id for machine in state.policy.machines.values() if machine.mode == "DOWN"]
    return {
        **({"draining_machines": draining} if draining else {}),
        **({"down_machines": down} if down else {}),
    }


def make_inverse_offers(state: MasterState) -> list[Action]:
    """Ask every framework that uses or is offered something of a machine to leave it, once at a time."""
    made: dict[FrameworkId, list[Document]] = {}
    for agent, drainage in _drainages(state):
        unavailability = state.policy.unavailability(agent)
        if unavailability is None or not agent.connected:
            continue
        for framework_id in dict.fromkeys([*agent.used, *(framework_id for _, framework_id in agent.offered_to)]):
            framework = state.frameworks.get(framework_id)
            if framework is None or not framework.active:
                continue
            if framework_id in drainage.outstanding or framework_id in drainage.refused:
                continue
            offer_id = state.ids.offer()
            drainage.outstanding[framework_id] = offer_id
            framework.inverse_offers[offer_id] = agent.id
            made.setdefault(framework_id, []).append(inverse_offer(agent, framework_id, offer_id, unavailability))
    return [
        action
        for framework_id, documents in made.items()
        for action in state.tell(state.frameworks[framework_id], "INVERSE_OFFERS", {"inverse_offers": documents})
    ]


def inverse_offer(agent: Agent, framework_id: FrameworkId, offer_id: OfferId, unavailability: Document) -> Document:
    """Return an InverseOffer; it names no resources, because all of the machine is meant."""
    return {
        "id": {"value": offer_id},
        "url": agent.url,
        "framework_id": {"value": framework_id},
        "agent_id": {"value": agent.id},
        "unavailability": unavailability,
    }


def answer(
    state: MasterState, framework: Framework, verdict: str, body: Mapping[str, Any], now: Moment
) -> list[Action]:
    """ACCEPT_INVERSE_OFFERS or DECLINE_INVERSE_OFFERS: kept for operators to see. Asked again later."""
    seconds = max(refuse_seconds(body.get("filters")), state.settings.allocation_interval_s)
    for offer_id in body.get("inverse_offer_ids", ()):
        agent_id = framework.inverse_offers.pop(offer_id["value"], None)
        drainage = None if agent_id is None else state.drainages.get(agent_id)
        if drainage is None:
            continue
        drainage.outstanding.pop(framework.id, None)
        drainage.statuses[framework.id] = {
            "status": verdict,
            "framework_id": {"value": framework.id},
            "timestamp": {"nanoseconds": round(now.wall_s * 1e9)},
        }
        drainage.refused[framework.id] = now.mono_s + seconds
    return []


def expire(drainages: Mapping[AgentId, Drainage], now: Moment) -> bool:
    """Drop the filters of inverse offers that have run out; return whether there was any."""
    ended = [
        (drainage, framework_id)
        for drainage in drainages.values()
        for framework_id, until in drainage.refused.items()
        if until <= now.mono_s
    ]
    for drainage, framework_id in ended:
        del drainage.refused[framework_id]
    return bool(ended)


def schedule_problem(state: MasterState, schedule: Mapping[str, Any]) -> str | None:
    """Return why a Schedule is refused, in Mesos' words; None for a good one."""
    met = set()
    for window in schedule.get("windows", ()):
        if not window.get("machine_ids"):
            return "List of machines in the maintenance window is empty"
        if int(window["unavailability"].get("duration", {}).get("nanoseconds", 0)) < 0:
            return "Unavailability 'duration' is negative"
        for machine_id in window["machine_ids"]:
            problem = _machine_problem(machine_id)
            if problem is not None:
                return problem
            if key_of(machine_id) in met:
                return f"Machine '{_text(machine_id)}' appears more than once in the schedule"
            met.add(key_of(machine_id))
    for key, machine in state.policy.machines.items():
        if machine.mode == "DOWN" and key not in met:
            return f"Machine '{_text(machine.id)}' is deactivated and cannot be removed from the schedule"
    return None


def _drainages(state: MasterState) -> list[tuple[Agent, Drainage]]:
    """Return the agents that are to be left, and forget those that are gone."""
    for agent_id in [agent_id for agent_id in state.drainages if agent_id not in state.agents]:
        del state.drainages[agent_id]
    return [(state.agents[agent_id], drainage) for agent_id, drainage in state.drainages.items()]


def _check(state: MasterState, machine_ids: Sequence[Document], mode: str, what: str) -> None:
    if not machine_ids:
        raise BadInput("List of machines is empty")
    met = set()
    for machine_id in machine_ids:
        problem = _machine_problem(machine_id)
        if problem is not None:
            raise BadInput(problem)
        if key_of(machine_id) in met:
            raise BadInput(f"Machine '{_text(machine_id)}' appears more than once in the schedule")
        met.add(key_of(machine_id))
    for machine_id in machine_ids:
        machine = state.policy.machines.get(key_of(machine_id))
        if machine is None:
            raise BadInput(f"Machine '{_text(machine_id)}' is not part of a maintenance schedule")
        if machine.mode != mode:
            raise BadInput(f"Machine '{_text(machine_id)}' is not in {mode} mode and cannot be {what}")


def _machine_problem(machine_id: Mapping[str, Any]) -> str | None:
    hostname, ip = key_of(machine_id)
    if not hostname and not ip:
        return "Both 'hostname' and 'ip' for a machine are empty"
    parts = ip.split(".")
    if ip and not (len(parts) == 4 and all(part.isdigit() and int(part) < 256 for part in parts)):
        return f"Failed to parse IP '{ip}'"
    return None


def _text(machine_id: Mapping[str, Any]) -> str:
    return json.dumps(machine_id, separators=(",", ":"))
