"""A change that would let an instance start: its steps, how large it is, and what to say of it. Values.

docs/do/gpu-answers.md says in words which steps there are, and which of two changes is the smaller.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

KINDS = ("reactivate", "label", "lower", "quota", "drop", "end", "add")
"""In the order in which those are taken that are equally small."""


@dataclass(frozen=True, slots=True)
class Held:
    """One task, or one instance of a pod, and what it holds of an agent; in thousandths, by name."""

    id: str
    owner: str
    amounts: Mapping[str, int]
    role: str = "*"
    is_app: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do. `part`: how much of what an instance asks for it moves, in parts of the ask.

    `target` is by kind an agent's id (reactivate), a scalar's name (lower), a role (quota), the words of a constraint
    (drop), a task's id (end), or empty; `amounts` are thousandths: what is asked for from then on (lower), the new
    limits (quota), what ends (end), what the new machine has at least (add).
    """

    kind: str
    text: str
    target: str = ""
    amounts: Mapping[str, int] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    """What the new machine has, where constraints ask for it (add); its name is `hostname`."""
    part: Fraction = Fraction(0)

    def document(self) -> dict[str, Any]:
        """Return it for programs; amounts in the units that apps are written in."""
        shown: dict[str, Any] = {"kind": self.kind, "text": self.text}
        if self.target:
            shown["target"] = self.target
        if self.amounts:
            shown["amounts"] = {name: value / 1000 for name, value in self.amounts.items()}
        if self.attributes:
            shown["attributes"] = dict(self.attributes)
        return shown


@dataclass(frozen=True, slots=True)
class Change:
    """Steps that together let one more instance start, on `agent` (its name; empty for a new machine)."""

    steps: tuple[Step, ...]
    agent: str

    @property
    def measure(self) -> tuple[int, int, int, int, Fraction]:
        """Return how large it is: of two changes the smaller one has the smaller measure.

        Machines added, steps, tasks ended, constraints dropped, and how much is moved in parts of what is asked for.
        """
        kinds = [step.kind for step in self.steps]
        moved = sum((step.part for step in self.steps), Fraction(0))
        return kinds.count("add"), len(kinds), kinds.count("end"), kinds.count("drop"), moved

    @property
    def order(self) -> tuple[Any, ...]:
        """Return what decides between changes: the measure, then kinds and names, so that there is always one."""
        kinds = sorted(KINDS.index(step.kind) for step in self.steps)
        return *self.measure, kinds, self.agent, [step.target for step in self.steps]

    @property
    def text(self) -> str:
        """Return it in one sentence."""
        where = f", then it starts on {self.agent}" if self.agent else ""
        return f"{'; '.join(step.text for step in self.steps)}{where}"

    def document(self) -> dict[str, Any]:
        """Return it for programs."""
        machines, steps, ended, dropped, moved = self.measure
        measure = {"machines": machines, "steps": steps, "ended": ended, "dropped": dropped}
        return {
            "text": self.text,
            "agent": self.agent or None,
            "steps": [step.document() for step in self.steps],
            "measure": {**measure, "part": round(float(moved), 3)},
        }


def amount_text(name: str, thousandths: int) -> str:
    """Return an amount as apps write it: `gpus=2`, `mem=512`."""
    return f"{name}={thousandths / 1000:.3f}".rstrip("0").rstrip(".")


def without_constraint(constraints: tuple[tuple[str, ...], ...], dropped: tuple[str, ...]) -> str:
    """Return the constraints that are left, as `app update` takes them."""
    left = list(constraints)
    left.remove(dropped)
    return json.dumps([list(constraint) for constraint in left])
