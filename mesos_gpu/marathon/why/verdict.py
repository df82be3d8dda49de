"""Why one agent does not take one more instance: now, or not even if no task runs there. Pure.

`marathon.matching` decides; here each of its findings becomes a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.constraints import value_at
from mesos_gpu.marathon.matching.machines import Machine
from mesos_gpu.marathon.matching.matching import Finding, Rules, capacity, explain, pool_of_new
from mesos_gpu.marathon.matching.reasons import Reason
from mesos_gpu.marathon.why.request import Request
from mesos_gpu.mesos.ids import AgentId, Role, TaskId
from mesos_gpu.mesos.resource import UNRESERVED, amount_text
from mesos_gpu.mesos.shares.gpu_shares import CARDS_ATTRIBUTE, GPU_MEM, CardLabel, read_cards

if TYPE_CHECKING:
    from mesos_gpu.marathon.model.instances import Task

_WORDS = {"cpus": ("CPU", "CPUs"), "gpus": ("GPU", "GPUs"), "mem": ("MiB of memory",) * 2, "disk": ("MiB of disk",) * 2}
_OF_OTHERS = ("CLUSTER", "GROUP_BY")
_AMOUNTS = frozenset(
    {
        Reason.INSUFFICIENT_CPUS,
        Reason.INSUFFICIENT_MEMORY,
        Reason.INSUFFICIENT_DISK,
        Reason.INSUFFICIENT_GPUS,
        Reason.INSUFFICIENT_PORTS,
    }
)
"""What an agent lacks as well that offers nothing of the accepted roles."""


@dataclass(frozen=True, slots=True)
class Lack:
    """One thing that an agent lacks. `for_ever`: it will not get it by tasks ending."""

    kind: str
    """A scalar's name; agent, offered, role, constraint, ports, volume or scarce."""
    text: str
    for_ever: bool
    missing: int = 0
    """For a scalar: how much, in thousandths."""
    finding: Finding | None = None
    """What was requested, what the agent has free, and what it has in all; None for agent and offered."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one agent lacks, worst first; it lacks nothing when it could take an instance now."""

    agent: str
    agent_id: str
    lacks: tuple[Lack, ...] = ()
    slots: int = 0
    """How many instances an empty agent would take; 0 when it lacks something forever."""

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
    """What an app or framework has of one agent, in thousandths; of `gpu_mem`, thousandths of a GiB."""

    name: str
    amounts: Mapping[str, int] = field(default_factory=dict)
    is_app: bool = False


class _Place(NamedTuple):
    """An agent that does not take an instance, with who has what of it, and the roles whose resources are accepted."""

    request: Request
    machine: Machine
    holders: Sequence[Holder]
    roles: tuple[Role, ...]


class Counted(NamedTuple):
    """A task that constraints count."""

    task: Task


def verdict_of(
    request: Request,
    machine: Machine,
    rules: Rules,
    *,
    placed: Sequence[Task] = (),
    holders: Sequence[Holder] = (),
) -> Verdict:
    """Return what an agent lacks for one more instance.

    `placed` are the tasks that constraints count, `holders` who has what of the agent, `rules` how the Marathon matches
    offers. What is in an offer that no framework has answered counts as free, and is said where it is needed.
    """
    lacks = [*_state(machine), *_lacks(request, machine, rules, placed, holders)]
    lacks.sort(key=lambda lack: not lack.for_ever)
    verdict = Verdict(machine.called, machine.id, tuple(lacks))
    if not verdict.ever:
        return verdict
    empty = machine.offer_of(machine.total, role_of(request.spec))
    return replace(verdict, slots=capacity(request.spec, empty, rules))


def role_of(spec: RunSpec) -> Role:
    """Return the role in which offers come to an app."""
    return Role(str(spec.document["role"]))


def room(request: Request, machines: Sequence[Machine], verdicts: Sequence[Verdict]) -> int:
    """Return how many instances the agents would take in all, were they empty."""
    slots = {verdict.agent_id: verdict.slots for verdict in verdicts if verdict.slots}
    most = sum(slots.values())
    for constraint in request.constraints:
        each = {"UNIQUE": 1, "MAX_PER": _whole(constraint)}.get(constraint[1].upper())
        if each is not None:
            by_value: dict[str | None, int] = {}
            for machine in machines:
                value = value_of(machine, constraint[0])
                by_value[value] = by_value.get(value, 0) + slots.get(machine.id, 0)
            most = min(most, sum(min(each, count) for count in by_value.values()))
    if request.one_per_host:
        most = min(most, len(slots))  # as Marathon counts: several agents may have one host's name, as in a box
    return most


def task_at(machine: Machine | None, host: str, staged_at_s: float) -> Task:
    """Return a task as constraints count it, on an agent."""
    from mesos_gpu.marathon.model.instances import Task  # who adds an app need not wait for these

    attributes = machine.attributes if machine is not None else ()
    region, zone = (machine.region, machine.zone) if machine is not None else (None, None)
    agent_id = machine.id if machine is not None else AgentId("")
    return Task(TaskId(""), agent_id, host, (), "", staged_at_s, attributes=attributes, region=region, zone=zone)


def value_of(machine: Machine, name: str) -> str | None:
    """Return what an agent has for a constraint's field; None when it has nothing of that name."""
    return value_at(name, machine.offer_of(machine.free, Role(UNRESERVED)))


def cards_of(machine: Machine) -> Mapping[int, CardLabel]:
    """Return the shared GPUs of an agent, as it names them."""
    return read_cards(dict(machine.attributes).get(CARDS_ATTRIBUTE, ""))


def memory_levels(request: Request, machine: Machine) -> list[str]:
    """Return what keeps tasks to their memory on the GPUs of an agent that are large enough for all of the shares."""
    ask = request.spec.largest_share
    cards = cards_of(machine).values()
    return sorted({card.level for card in cards if ask is not None and card.mem_units >= max(ask.mem_gib)} - {""})


def count_text(thousandths: int, name: str) -> str:
    """Return an amount with its unit: `1 GPU`, `64 MiB of memory`."""
    return f"{thousandths / 1000:g} {_WORDS.get(name, (name, name))[thousandths != 1000]}"


def _state(machine: Machine) -> Iterator[Lack]:
    if not machine.takes_tasks:
        yield Lack("agent", f"it is {machine.state} and gets no tasks", for_ever=False)


def _lacks(
    request: Request, machine: Machine, rules: Rules, placed: Sequence[Task], holders: Sequence[Holder]
) -> Iterator[Lack]:
    spec, role, counted = request.spec, role_of(request.spec), [Counted(task) for task in placed]
    empty = machine.offer_of(machine.total, role)
    findings = explain(spec, machine.offer_of(machine.free, role), empty, counted, rules)
    if not findings and machine.offered:
        if explain(spec, machine.offer_of(machine.free - machine.offered, role), empty, counted, rules):
            yield Lack("offered", "what it has free is being offered to a framework now", for_ever=False)
        return
    at = _Place(request, machine, holders, pool_of_new(spec, empty, empty.resources, rules.roles_behaviour).roles)
    no_role = any(finding.subject == "role" and finding.lasting for finding in findings)
    for finding in findings:
        if finding.subject == "role" and not finding.lasting:
            continue  # nothing of its roles is free: the amounts say so
        if not (no_role and finding.reason in _AMOUNTS):
            yield _lack(finding, at)


def _lack(finding: Finding, at: _Place) -> Lack:
    kind = _KINDS.get(finding.subject, "constraint")
    if finding.subject in _WORDS:
        return _amount(finding, at)
    text = {
        "role": _role,
        "gpu_mem": _share,
        "volume": _volume,
        "region": _region,
        "ports": _ports,
        "port_count": _port_count,
        "scarce": _scarce,
    }.get(finding.subject, _constraint)(finding, at)
    return Lack(kind, text, finding.lasting, finding=finding)


_KINDS = {
    "role": "role",
    "gpu_mem": "gpus",
    "volume": "volume",
    "ports": "ports",
    "port_count": "ports",
    "scarce": "scarce",
}


def _amount(finding: Finding, at: _Place) -> Lack:
    name, wanted, free, total = finding.subject, finding.requested, finding.found, finding.empty
    assert isinstance(wanted, int)
    assert isinstance(free, int)
    assert isinstance(total, int)
    everything = at.machine.total.milli(name)
    if total < wanted <= everything:
        text = f"{count_text(everything - total, name)} of it are {_others(at, name)}"
        return Lack("role", f"{text}, and {_want(wanted, name)}", True, wanted - total, finding)
    if finding.lasting:
        has = f"it has {count_text(total, name)}" if total else f"it has no {_WORDS[name][1]}"
        return Lack(name, f"{has}, and {_want(wanted, name)}", True, wanted - total, finding)
    by = [f"{holder.name}: {holder.amounts[name] / 1000:g}" for holder in at.holders if holder.amounts.get(name)]
    taken = f" ({', '.join(by)})" if by else ""
    free_text = f"{free / 1000:g} of its {count_text(total, name)} {'is' if free == 1000 else 'are'} free"
    return Lack(name, f"{free_text}{taken}, and {_want(wanted, name)}", False, wanted - free, finding)


def _role(finding: Finding, at: _Place) -> str:
    accepted, there = texts_of(finding.requested), texts_of(finding.empty)
    return (
        f"it offers resources of the role{'s' * (len(there) > 1)} {', '.join(there)}, and only those of "
        f"{', '.join(accepted)} are accepted"
    )


def _share(finding: Finding, at: _Place) -> str:
    wanted, empty = _numbers(finding.requested), _numbers(finding.empty)
    cards = cards_of(at.machine)
    if not cards:
        return "it shares no GPU (--shared_gpus), and a part of one is wanted"
    if finding.lasting:
        if not empty:
            return f"none of its shared GPUs ({_sizes(cards.values())}) is {_such_a_gpu(at.request)}"
        if wanted[0] > empty[0]:
            return f"its largest shared GPU has {empty[0]} GiB, and {wanted[0]} of one are wanted"
        return (
            f"its shared GPUs have {' + '.join(map(str, empty))} GiB, and parts of {' + '.join(map(str, wanted))} "
            "are wanted"
        )
    by = ", ".join(f"{one.name}: {one.amounts[GPU_MEM] / 1000:g} GiB" for one in at.holders if one.amounts.get(GPU_MEM))
    taken = f" ({by})" if by else ""
    return f"none of its shared GPUs has {wanted[0]} GiB free{taken}"


def _such_a_gpu(request: Request) -> str:
    """Return which GPUs the parts must be of: their size, and their names."""
    asks = [ask for ask in request.spec.shares if ask is not None]
    sizes = sorted({ask.card_gib for ask in asks if ask.card_gib is not None})
    named = sorted({device for ask in asks for device in ask.devices})
    words = [f"of {' or '.join(map(str, sizes))} GiB"] if sizes else []
    return " ".join([*words, f"named {' or '.join(named)}"] if named else words) or "of use"


def _sizes(cards: Iterable[CardLabel]) -> str:
    return ", ".join(f"{size} GiB" for size in sorted({card.mem_units for card in cards}))


def _volume(finding: Finding, at: _Place) -> str:
    sizes, largest = _numbers(finding.requested), _numbers(finding.empty if finding.lasting else finding.found)
    wanted = [
        f"{size / 1000:g} MiB of type {volume['persistent']['type']} (at most {has / 1000:g} {'is' if has else 'are'} "
        f"{'there' if finding.lasting else 'free'})"
        for size, has, volume in zip(sizes, largest, at.request.spec.persistent_volumes, strict=True)
    ]
    return f"no disk for its persistent volumes: {', '.join(wanted)}"


def _region(finding: Finding, at: _Place) -> str:
    home = f"those of {finding.requested}" if finding.requested else "agents without a region"
    return f"it is in region {finding.found}, and an app without a constraint on @region or @zone only uses {home}"


def _ports(finding: Finding, at: _Place) -> str:
    numbers = ", ".join(map(str, _numbers(finding.requested)))
    if not finding.lasting:
        return f"host port {numbers} is in use"
    return f"host port {numbers} is not among its ports {_ranges(finding.empty)}"


def _port_count(finding: Finding, at: _Place) -> str:
    has = f"it has {finding.empty} host ports" if finding.lasting else f"{finding.found} of its host ports are free"
    return f"{has}, and {finding.requested} {'is' if finding.requested == 1 else 'are'} wanted"


def _scarce(finding: Finding, at: _Place) -> str:
    return "it has GPUs, and is kept for apps that use some"


def _constraint(finding: Finding, at: _Place) -> str:
    constraint, here = texts_of(finding.requested), finding.found
    name, operator, words = constraint[0], constraint[1].upper(), " ".join(constraint)
    if here is None:
        what = name.removeprefix("@") if name.startswith("@") else f"attribute {name}"
        return f"it has no {what}, and {words} is wanted"
    if not finding.lasting:
        others = "its instances elsewhere" if operator in _OF_OTHERS else "what runs there already"
        return f"{words} forbids one more here, by {others}"
    return f"its {name} is {here}, and {words} is wanted"


def _others(at: _Place, name: str) -> str:
    """Return whose the rest of a resource is of which some roles have too little."""
    roles = {resource.role for resource in at.machine.total if resource.name == name} - {*at.roles, UNRESERVED}
    if not roles:
        return f"unreserved, and only those of {', '.join(at.roles)} are accepted"
    return f"reserved for the role{'s' * (len(roles) > 1)} {', '.join(sorted(roles))}"


def _numbers(measure: object) -> tuple[int, ...]:
    return tuple(one for one in measure if isinstance(one, int)) if isinstance(measure, tuple) else ()


def texts_of(measure: object) -> tuple[str, ...]:
    """Return the items of a measure that is a collection, as text; none of another."""
    return tuple(map(str, measure)) if isinstance(measure, tuple) else ()


def _ranges(measure: object) -> str:
    return amount_text(measure) if isinstance(measure, tuple) else ""


def _whole(constraint: Sequence[str]) -> int | None:
    return int(constraint[2]) if len(constraint) > 2 and constraint[2].isdigit() else None


def _want(thousandths: int, name: str) -> str:
    verb = "is" if thousandths == 1000 and name in ("cpus", "gpus") else "are"
    return f"{thousandths / 1000:g} {verb} wanted"
