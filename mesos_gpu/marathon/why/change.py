"""A change that would let an instance start: its steps, how large it is, and what to say of it. Values.

docs/do/gpu-answers.md says in words which steps there are, and which of two changes is the smaller; docs/do/plan.md
says it of what waits in order (gangs, priorities), for which `marathon.simulation.smallest_change` looks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from mesos_gpu.marathon.why.links import Given, links_words, read_given

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
