"""A change that would let an instance start: its steps, how large it is, and what to say of it. Values.

docs/do/gpu-answers.md says in words which steps there are, and which of two changes is the smaller; docs/do/plan.md
says it of what waits in order (gangs, priorities), for which `marathon.simulation.smallest_change` looks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.machines import Machine
from mesos_gpu.marathon.matching.matching import BEHAVIOUR_LABEL
from mesos_gpu.marathon.why.links import Given, links_words, read_given
from mesos_gpu.mesos.ids import AgentId
from mesos_gpu.mesos.resources import Resources

KINDS = (
    "reactivate",
    "roles",
    "ports",
    "label",
    "lower",
    "size",
    "together",
    "runtime",
    "priority",
    "quota",
    "drop",
    "preemptible",
    "end",
    "scale",
    "add",
)
"""In the order in which those are taken that are equally small."""
GIVEN_UP = ("drop", "together", "preemptible")
"""Steps by which somebody gives up a rule that was asked for."""


@dataclass(frozen=True, slots=True)
class Held:
    """One task, or one instance of a pod, and what it holds of an agent; in thousandths, by name.

    Of `gpu_mem` these are thousandths of a GiB.
    """

    id: str
    owner: str
    amounts: Mapping[str, int]
    role: str = "*"
    is_app: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do. `part`: how much of what an instance asks for it moves, in parts of the ask.

    `target` is by kind an agent's id (reactivate), roles to accept, joined by commas (roles), a scalar's name (lower),
    a role (quota), the words of a constraint (drop), a task's id (end), another app (preemptible, scale), or empty;
    `amounts` are thousandths: what is asked for from then on (lower), the new limits (quota), what ends (end), what
    each new machine has at least (add).
    """

    kind: str
    text: str
    target: str = ""
    amounts: Mapping[str, int] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    """What the new machine has, where constraints ask for it (add); its name is `hostname`."""
    part: Fraction = Fraction(0)
    value: int | None = None
    """What is set: members of a gang (size), points (priority), seconds at most (runtime), instances (scale); how many
    machines there are more (add)."""
    count: int = 1
    """How many instances the new machines have room for (add), how many of others end or are given up (end, scale)."""

    def document(self) -> dict[str, Any]:
        """Return it for programs; amounts in the units that apps are written in."""
        shown: dict[str, Any] = {"kind": self.kind, "text": self.text}
        if self.target:
            shown["target"] = self.target
        if self.amounts:
            shown["amounts"] = {name: value / 1000 for name, value in self.amounts.items()}
        if self.attributes:
            shown["attributes"] = dict(self.attributes)
        if self.value is not None:
            shown["value"] = self.value
        if self.count != 1:
            shown["count"] = self.count
        return shown


@dataclass(frozen=True, slots=True)
class Change:
    """Steps that together let one more instance start, on `agent` (its name; empty for a new machine).

    Of a gang all members start, and `agent` names all of their machines.
    """

    steps: tuple[Step, ...]
    agent: str
    beside: int = 0
    """How many instances end that no step names: they give way after it, or are replaced."""
    lost: Fraction = Fraction(0)
    """How much those hold, in parts of what one instance asks for."""
    cards: tuple[Given, ...] = ()
    """The GPUs that those get which start then, on machines that tell which of theirs share NVLink."""

    @property
    def measure(self) -> tuple[int, int, int, int, Fraction]:
        """Return how large it is: of two changes the smaller one has the smaller measure.

        Machines added (one that is for several members counts as so many), steps, instances of others that end, rules
        given up, and how much is moved in parts of what is asked for.
        """
        machines = sum(step.count for step in self.steps if step.kind == "add")
        ended = sum(step.count for step in self.steps if step.kind in ("end", "scale")) + self.beside
        given_up = sum(step.kind in GIVEN_UP for step in self.steps)
        moved = sum((step.part for step in self.steps), self.lost)
        return machines, len(self.steps), ended, given_up, moved

    @property
    def order(self) -> tuple[Any, ...]:
        """Return what decides between changes: the measure, then kinds and names, so that there is always one."""
        kinds = sorted(KINDS.index(step.kind) for step in self.steps)
        return *self.measure, kinds, self.agent, [step.target for step in self.steps]

    @property
    def text(self) -> str:
        """Return it in one sentence."""
        where = f", then it starts on {self.where}" if self.agent else ""
        return f"{'; '.join(step.text for step in self.steps)}{where}"

    @property
    def where(self) -> str:
        """Return on which machines it starts then, and which GPUs share NVLink there."""
        words = links_words(self.cards)
        return f"{self.agent} ({words})" if words else self.agent

    def document(self) -> dict[str, Any]:
        """Return it for programs."""
        machines, steps, ended, dropped, moved = self.measure
        measure = {"machines": machines, "steps": steps, "ended": ended, "dropped": dropped}
        cards = {"cards": [given.document() for given in self.cards]} if self.cards else {}
        return {
            "text": self.text,
            "agent": self.agent or None,
            **cards,
            "steps": [step.document() for step in self.steps],
            "measure": {**measure, "part": round(float(moved), 3)},
        }


LEAST_PART = 2
"""Nobody is told to ask for less than one in so many of what is asked for now: that would be another app."""
_GRAIN = {"gpus": 1000, "mem": 1000, "disk": 1000, "cpus": 1}
"""Thousandths: GPUs and MiB are asked for whole."""
NEW, OWN = "new-machine", "new"
"""A machine that is added, and a value that no other machine has."""
_PORTS = "ports:[31000-32000]"


def grain_of(name: str) -> int:
    """Return the smallest step, in thousandths, by which the request for a scalar is changed."""
    return _GRAIN.get(name, 1)


def least_of(name: str, asked: int) -> int:
    """Return to how much of a scalar an app may be lowered: half, in whole GPUs and MiB."""
    return -(-asked // (LEAST_PART * grain_of(name))) * grain_of(name)


def own_fields(spec: RunSpec, step: Step) -> dict[str, Any] | None:
    """Return what a step sets of the app itself; None for a step that is about something else."""
    document = spec.document
    match step.kind:
        case "lower":
            beside = {name: amount for name, _, amount in spec.scalars}
            own = step.amounts[step.target] - beside.get(step.target, 0)
            return {step.target: own // 1000 if step.target == "gpus" else own / 1000}
        case "drop":
            return {"constraints": without(document["constraints"], step.target)}
        case "label":
            return {"labels": {**document["labels"], BEHAVIOUR_LABEL: "unrestricted"}}
        case "roles":
            return {"acceptedResourceRoles": step.target.split(",")}
        case "ports":
            return any_ports(document)
        case "size":
            assert step.value is not None
            instances = spec.instances // spec.gang_size * step.value
            return {"gang": {**document["gang"], "size": step.value}, "instances": instances}
        case "together":
            return {"gang": {**document["gang"], "onePerHost": False}}
        case "runtime":
            return {"maxRuntimeSeconds": step.value}
        case "priority":
            return {"priority": step.value}
        case _:
            return None


def after_step(spec: RunSpec, step: Step) -> RunSpec:
    """Return an app after a step, as far as that is about the app itself."""
    return RunSpec({**spec.document, **(own_fields(spec, step) or {})})


def any_ports(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields by which an app takes any host ports in place of those that it names."""
    if document.get("requirePorts"):
        return {"requirePorts": False}
    container = document.get("container", {})
    mappings = [
        {**mapping, "hostPort": 0} if mapping.get("hostPort") else mapping
        for mapping in container.get("portMappings", ())
    ]
    return {"container": {**container, "portMappings": mappings}}


def without(constraints: Sequence[Sequence[str]], words: str) -> list[list[str]]:
    """Return constraints without the first that has these words."""
    left = [list(constraint) for constraint in constraints]
    left.remove(next(constraint for constraint in left if " ".join(constraint) == words))
    return left


def new_machine(step: Step, number: int, at: int) -> Machine:
    """Return one of the machines that a step adds: each has its own name, and its own value where that is so said."""
    told = {name: f"{value}-{at + 1}" if value == OWN else value for name, value in step.attributes.items()}
    host = told.pop("hostname", f"{NEW}-{number}-{at + 1}")
    region, zone = told.pop("@region", None), told.pop("@zone", None)
    text = ";".join(f"{name}:{amount / 1000:.3f}" for name, amount in step.amounts.items())
    free = Resources.parse(f"{text};{_PORTS}" if text else _PORTS)
    return Machine(AgentId(f"{NEW}-{number}-{at + 1}"), host, free, Resources(), tuple(told.items()), region, zone)


def amount_text(name: str, thousandths: int) -> str:
    """Return an amount as apps write it: `gpus=2`, `mem=512`."""
    return f"{name}={thousandths / 1000:.3f}".rstrip("0").rstrip(".")


def read_change(document: Mapping[str, Any]) -> Change:
    """Return a change from its document. Raises KeyError, TypeError or ValueError when it is none."""
    steps = [
        Step(
            str(step["kind"]),
            str(step["text"]),
            str(step.get("target", "")),
            {str(name): round(float(amount) * 1000) for name, amount in (step.get("amounts") or {}).items()},
            {str(name): str(value) for name, value in (step.get("attributes") or {}).items()},
            value=None if step.get("value") is None else int(step["value"]),
            count=int(step.get("count", 1)),
        )
        for step in document["steps"]
    ]
    measure = document["measure"]
    cards = tuple(map(read_given, document.get("cards") or ()))
    found = Change(tuple(steps), str(document.get("agent") or ""), lost=Fraction(str(measure["part"])), cards=cards)
    return replace(found, beside=int(measure["ended"]) - found.measure[2])
