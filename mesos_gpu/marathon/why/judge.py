"""What one agent lacks for one instance: forever, or only now. Pure.

The rules are the scheduler's (marathon/matching/matching.py); constraints are judged by the very same function.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mesos_gpu.marathon.matching.reasons import Reason
from mesos_gpu.marathon.why.wish import Wish
from mesos_gpu.mesos.clients.agents import Agent
from mesos_gpu.mesos.ids import AgentId, TaskId
from mesos_gpu.mesos.shares.gpu_shares import CARDS_ATTRIBUTE, GPU_MEM, read_cards

if TYPE_CHECKING:
    from mesos_gpu.marathon.model.instances import Task

_WORDS = {"cpus": ("CPU", "CPUs"), "gpus": ("GPU", "GPUs"), "mem": ("MiB of memory",) * 2, "disk": ("MiB of disk",) * 2}
_MOVES = ("UNIQUE", "MAX_PER", "GROUP_BY")
"""Operators that count where other instances are, so that what they say changes."""


@dataclass(frozen=True, slots=True)
class Lack:
    """One thing that an agent lacks. `for_ever`: it will not get it by tasks ending."""

    kind: str
    """A scalar's name; agent, role, constraint, ports or scarce; or marathon for what only Marathon says."""
    text: str
    for_ever: bool
    missing: float = 0.0
    """For a scalar: how much."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one agent lacks, worst first; it lacks nothing when it could take an instance now."""

    agent: str
    agent_id: str
    lacks: tuple[Lack, ...] = ()
    slots: int = 0
    """How many instances an empty agent would take; 0 when it lacks something forever."""
    offered: bool = False
    """Whether Marathon has had an offer of it for this app."""

    @property
    def now(self) -> bool:
        """Return whether it could take an instance now."""
        return not self.lacks

    @property
    def ever(self) -> bool:
        """Return whether it could take an instance once tasks end."""
        return not any(lack.for_ever for lack in self.lacks)


@dataclass(frozen=True, slots=True)
class Holder:
    """What an app or framework has of one agent."""

    name: str
    amounts: Mapping[str, float] = field(default_factory=dict)
    is_app: bool = False


def judge(
    wish: Wish,
    agent: Agent,
    called: str,
    *,
    placed: Sequence[Task] = (),
    holders: Sequence[Holder] = (),
    keeps_gpus: bool = False,
    said: Collection[str] = (),
) -> Verdict:
    """Return what an agent lacks for one more instance.

    `placed` are the instances that constraints count, `holders` who has what of the agent, `keeps_gpus` whether the
    Marathon keeps agents with GPUs for apps that use them, `said` its reasons against the agent's last offer.
    """
    lacks = [
        *_state(agent),
        *_amounts(wish, agent, holders),
        *_shares(wish, agent, holders, said),
        *_constraints(wish, agent, placed),
        *_ports(wish, agent),
        *_scarce(wish, agent, keeps_gpus),
    ]
    lacks.sort(key=lambda lack: not lack.for_ever)
    verdict = Verdict(called, agent.id, tuple(lacks))
    return replace(verdict, slots=_slots(wish, agent) if verdict.ever else 0)


def room(wish: Wish, agents: Sequence[Agent], verdicts: Sequence[Verdict]) -> int:
    """Return how many instances the agents would take in all, were they empty."""
    slots = {verdict.agent_id: verdict.slots for verdict in verdicts if verdict.slots}
    most = sum(slots.values())
    for constraint in wish.constraints:
        each = {"UNIQUE": 1, "MAX_PER": _whole(constraint)}.get(constraint[1].upper())
        if each is not None:
            by_value: dict[str | None, int] = {}
            for agent in agents:
                value = value_of(agent, constraint[0])
                by_value[value] = by_value.get(value, 0) + slots.get(agent.id, 0)
            most = min(most, sum(min(each, count) for count in by_value.values()))
    if wish.one_per_host:
        most = min(most, len(slots))  # as Marathon counts: several agents may have one host's name, as in a box
    return most


@dataclass(frozen=True, slots=True)
class ConstraintPlace:
    """A machine as constraints look at it."""

    host: str
    attributes: tuple[tuple[str, str], ...] = ()
    region: str | None = None
    zone: str | None = None


def constraint_place(agent: Agent) -> ConstraintPlace:
    """Return an agent as constraints look at it."""
    return ConstraintPlace(agent.hostname, tuple(agent.attributes.items()), agent.region, agent.zone)


def task_at(agent: Agent | None, host: str, staged_at_s: float) -> Task:
    """Return a task as constraints count it, on an agent."""
    from mesos_gpu.marathon.model.instances import Task

    attributes = tuple(agent.attributes.items()) if agent is not None else ()
    region, zone = (agent.region, agent.zone) if agent is not None else (None, None)
    agent_id = AgentId(agent.id if agent is not None else "")
    return Task(TaskId(""), agent_id, host, (), "", staged_at_s, attributes=attributes, region=region, zone=zone)


def _state(agent: Agent) -> list[Lack]:
    if agent.takes_tasks:
        return []
    return [Lack("agent", f"it is {agent.state} and gets no tasks", for_ever=False)]


def _amounts(wish: Wish, agent: Agent, holders: Sequence[Holder]) -> list[Lack]:
    found = []
    asked = {name: wanted for name, wanted in wish.amounts.items() if wanted > 0}
    if _only_offered(asked, wish, agent):
        return [Lack("offered", "what it has free is being offered to a framework now", for_ever=False)]
    for name, wanted in asked.items():
        total, free = agent.amount("total", name, wish.roles), agent.amount("free", name, wish.roles)
        everything = agent.amount("total", name)
        if total < wanted <= everything:
            text = f"{count_text(everything - total, name)} of it are reserved for {_others(wish, agent, name)}"
            found.append(Lack("role", f"{text}, and {_want(wanted, name)}", True, wanted - total))
        elif total < wanted:
            has = f"it has {count_text(total, name)}" if total else f"it has no {_WORDS[name][1]}"
            found.append(Lack(name, f"{has}, and {_want(wanted, name)}", True, wanted - total))
        elif free < wanted:
            offered = agent.amount("offered", name, wish.roles)
            by = [f"{holder.name}: {holder.amounts[name]:g}" for holder in holders if holder.amounts.get(name)]
            by += [f"being offered: {offered:g}"] if offered else []
            taken = f" ({', '.join(by)})" if by else ""
            free_text = f"{free:g} of its {count_text(total, name)} {'is' if free == 1 else 'are'} free"
            found.append(Lack(name, f"{free_text}{taken}, and {_want(wanted, name)}", False, wanted - free))
    return found


def _only_offered(asked: Mapping[str, float], wish: Wish, agent: Agent) -> bool:
    """Return whether an agent has room, but all or part of it is in an offer that nobody has answered yet."""
    free = {name: agent.amount("free", name, wish.roles) for name in asked}
    offered = {name: agent.amount("offered", name, wish.roles) for name in asked}
    enough = all(free[name] + offered[name] >= wanted for name, wanted in asked.items())
    return enough and any(free[name] < wanted for name, wanted in asked.items())


def _constraints(wish: Wish, agent: Agent, placed: Sequence[Task]) -> list[Lack]:
    if not wish.constraints:  # most have none, and need not wait for these imports
        return []
    from mesos_gpu.marathon.matching.constraints import fulfilled

    place = constraint_place(agent)
    found = []
    for constraint in wish.constraints:
        if fulfilled(constraint, place, placed, wish.instances):
            continue
        name, operator = constraint[0], constraint[1].upper()
        here = value_of(agent, name)
        moves = here is not None and (operator in _MOVES or (operator == "CLUSTER" and len(constraint) < 3))
        if here is None:
            text = f"it has no {_what(name)}, and {' '.join(constraint)} is wanted"
        elif moves:
            others = "its instances elsewhere" if operator in ("CLUSTER", "GROUP_BY") else "what runs there already"
            text = f"{' '.join(constraint)} forbids one more here, by {others}"
        else:
            text = f"its {name} is {here}, and {' '.join(constraint)} is wanted"
        found.append(Lack("constraint", text, not moves))
    return found


def value_of(agent: Agent, name: str) -> str | None:
    """Return what an agent has for a constraint's field; None when it has nothing of that name."""
    special = {"hostname": agent.hostname, "@hostname": agent.hostname, "@region": agent.region, "@zone": agent.zone}
    return special[name] if name in special else agent.attributes.get(name)


def missing_ports(wish: Wish, agent: Agent) -> list[int]:
    """Return the host ports wanted that an agent has not got, whoever holds them."""
    if not wish.ports or not agent.ports:
        return []
    ranges = [(int(low), int(high)) for low, high in re.findall(r"(\d+)-(\d+)", agent.ports)]
    return [port for port in wish.ports if not any(low <= port <= high for low, high in ranges)]


def _ports(wish: Wish, agent: Agent) -> list[Lack]:
    outside = missing_ports(wish, agent)
    if not outside:
        return []
    listed = ", ".join(str(port) for port in outside)
    return [Lack("ports", f"host port {listed} is not among its ports {agent.ports}", True)]


def _shares(wish: Wish, agent: Agent, holders: Sequence[Holder], said: Collection[str]) -> list[Lack]:
    """Return why an agent's shared cards do not suit this app; that others have them, an offer shows, and no master."""
    if not wish.shares:
        return []
    cards = read_cards(agent.attributes.get(CARDS_ATTRIBUTE, ""))
    if not cards:
        return [Lack("gpus", "it shares no GPU (--shared_gpus), and a part of one is wanted", True)]
    largest = max(card.mem_units for card in cards.values())
    wanted = max(max(ask.mem_gib) for ask in wish.shares)
    if wanted > largest:
        return [Lack("gpus", f"its largest shared GPU has {largest} GiB, and {wanted} of one are wanted", True)]
    if Reason.INSUFFICIENT_GPUS in said:
        by = ", ".join(f"{one.name}: {one.amounts[GPU_MEM]:g} GiB" for one in holders if one.amounts.get(GPU_MEM))
        taken = f" ({by})" if by else ""
        return [Lack("gpus", f"none of its shared GPUs had {wanted} GiB free in the last offer{taken}", False)]
    return []


def memory_levels(wish: Wish, agent: Agent) -> list[str]:
    """Return what keeps tasks to their memory on the cards of an agent that are large enough for all of the shares."""
    wanted = max((max(ask.mem_gib) for ask in wish.shares), default=None)
    cards = read_cards(agent.attributes.get(CARDS_ATTRIBUTE, ""))
    return sorted({card.level for card in cards.values() if wanted is not None and card.mem_units >= wanted} - {""})


def _scarce(wish: Wish, agent: Agent, keeps_gpus: bool) -> list[Lack]:
    keeps = wish.behaviour == "restricted" or (keeps_gpus and wish.behaviour is None)
    if wish.gpus or wish.shares or not keeps or not agent.amount("free", "gpus"):
        return []
    return [Lack("scarce", "it has GPUs, and is kept for apps that use some", True)]


def slots_of(wish: Wish, agent: Agent, names: Collection[str]) -> int:
    """Return how many instances an empty agent has enough for of what is named; of nothing else."""
    counts = [
        int((agent.amount("total", name, wish.roles) + 1e-9) // wanted)
        for name, wanted in wish.amounts.items()
        if wanted > 0 and name in names
    ]
    return min(counts, default=wish.instances)


def _slots(wish: Wish, agent: Agent) -> int:
    most = slots_of(wish, agent, wish.amounts)
    return min(most, 1) if wish.ports else most


def _others(wish: Wish, agent: Agent, name: str) -> str:
    roles = sorted(role for role, amounts in agent.total.items() if amounts.get(name) and role not in wish.roles)
    return "frameworks without a role" if roles == ["*"] else f"the role{'s' * (len(roles) > 1)} {', '.join(roles)}"


def _what(name: str) -> str:
    return name.removeprefix("@") if name.startswith("@") else f"attribute {name}"


def _whole(constraint: Sequence[str]) -> int | None:
    return int(constraint[2]) if len(constraint) > 2 and constraint[2].isdigit() else None


def count_text(amount: float, name: str) -> str:
    """Return an amount with its unit: `1 GPU`, `64 MiB of memory`."""
    return f"{amount:g} {_WORDS.get(name, (name, name))[amount != 1]}"


def _want(amount: float, name: str) -> str:
    return f"{amount:g} {'is' if amount == 1 and name in ('cpus', 'gpus') else 'are'} wanted"
