"""The smallest change that would start an app that waits in order: a gang, or one that priorities are about. Pure.

Changes are one or two steps (steps.py), smallest first by `why.change.Change.measure`; each is played on a copy of the
state by the very functions that decide (scenario.py). docs/do/plan.md says it in words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from fractions import Fraction
from typing import Any

from mesos_gpu.marathon.matching.machines import of_quota
from mesos_gpu.marathon.model.instances import Instance
from mesos_gpu.marathon.simulation.candidate_steps import machines, steps
from mesos_gpu.marathon.simulation.replica import End
from mesos_gpu.marathon.simulation.scenario import Node, Scenario
from mesos_gpu.marathon.why.change import KINDS, Change, Step
from mesos_gpu.marathon.why.search import smallest_of
from mesos_gpu.marathon.why.steps import after_step

BEFORE_MACHINES = ("reactivate", "label", "priority", "quota", "drop")
"""Two of these and more, and machines are added: the only changes of more than two steps."""
_STEPS = 2
"""So many steps are tried together, beside those before machines."""
MOST_PLAYED = 12_000
"""For one answer so many machines are offered at most, in all that is played; then the best so far counts. LEAST_PLAYED
changes are looked at in any case."""
LEAST_PLAYED = 60


def advise(scenario: Scenario, app_id: str) -> Change | None:
    """Return the smallest change after which one more instance of an app starts, of a gang all of its members.

    None for an app that does not wait in order, or that starts anyway, and where no change of so few steps helps.
    """
    state = scenario.state
    spec = state.app(app_id)
    if spec is None or app_id not in state.waiting.values() or any(spec.shares) or spec.resident:
        return None
    first = Node.first(scenario, app_id)
    # A gang whose role's quota is short is not even looked at there, and waits in order all the same.
    in_order = app_id in first.replica.state.places or spec.ordered
    return _Search(first).found() if in_order and not first.starts else None


class _Search:
    """What was played so far."""

    def __init__(self, first: Node) -> None:
        self._first = first
        self._ended = {end.instance for end in first.replica.ends}
        self._left = max(LEAST_PLAYED, MOST_PLAYED // max(1, len(first.replica.machines)))
        self._nodes: dict[tuple[Hashable, ...], Node | None] = {}

    def found(self) -> Change | None:
        """Return the smallest change of two steps, or of machines and a step before; else of more such steps."""
        for long in (False, True):
            change = smallest_of([_Way(self, self._first, long)], self._left + len(self._nodes))
            if change is not None:
                return change
        return None

    def after(self, node: Node, step: Step) -> Node | None:
        """Play a step, unless too much was played; each is played once."""
        key = tuple(map(_key, (*node.steps, step)))
        if key not in self._nodes and self._left > 0:
            self._left -= 1
            self._nodes[key] = node.after(step)
        return self._nodes.get(key)

    def measured(self, node: Node) -> Change:
        """Return the change with what ends by it that no step names."""
        scaled = {step.target for step in node.steps if step.kind == "scale"}
        ended = {step.target for step in node.steps if step.kind == "end"}
        beside = [end for end in _new(node.replica.ends, self._ended) if end.app not in scaled]
        state, lost = node.scenario.state, Fraction(0)
        others = []
        for end in beside:
            instance = state.instances.get(end.instance)
            spec = None if instance is None else state.spec_of(instance)
            if instance is None or instance.task is None or spec is None:
                continue
            gang = instance.task.gang
            mates = [
                i for i in state.instances_of(end.app) if gang and i.task and i.task.gang and i.task.gang.id == gang.id
            ]
            if any(i.task is not None and {i.id, i.task.id} & ended for i in (instance, *mates)):
                continue
            others.append(end)
            asked = node.asked
            lost += sum((Fraction(o + b, asked[n]) for n, o, b in spec.scalars if n in asked), Fraction(0))
        return Change(node.steps, ", ".join(node.where), len(others), lost, tuple(node.given))


class _Way:
    """A node as the search takes it. `long`: more than two steps may come before machines are added."""

    def __init__(self, search: _Search, node: Node, long: bool) -> None:
        self._search, self._node, self._long = search, node, long

    @property
    def starts(self) -> bool:
        """Return whether one more instance, or gang, starts."""
        return self._node.starts

    @property
    def change(self) -> Change:
        """Return the steps, and what ends by them."""
        return self._search.measured(self._node)

    def after(self, step: Step) -> _Way | None:
        """Return it after one more step; None for a step that is refused, and when too much was played."""
        node = self._search.after(self._node, step)
        return None if node is None else _Way(self._search, node, self._long)

    def following(self) -> Iterator[tuple[tuple[Any, ...], Step]]:
        """Yield the steps that may follow, each with an order that no change that begins so is below."""
        done, room = self._node.steps, _Room(self._node)
        if any(step.kind == "add" for step in done):
            return
        for step in steps(self._node):
            chain = (*done, step)
            if done and not _is_later(self._node, step):
                continue
            machines_next = self._long and all(one.kind in BEFORE_MACHINES for one in chain)
            order = Change(chain, "").order
            if len(chain) <= _STEPS and (len(chain) < _STEPS or room.could_start(step)):
                yield order if room.could_start(step) else (order[0], order[1] + 1, *order[2:]), step
            elif machines_next:
                yield (1, order[1] + 1, *order[2:]), step
        if len(done) < _STEPS or (self._long and all(one.kind in BEFORE_MACHINES for one in done)):
            for step in machines(self._node):
                if room.could_start(step):
                    yield Change((*done, step), "").order, step


class _Room:
    """What each machine has after some steps if all gives way that may: an upper bound, before a step is played.

    Order, constraints, roles and ports are left out, so that it never excludes what would start.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        machines, state = node.replica.machines.values(), node.replica.state
        self._shut = {str(machine.id) for machine in machines if not machine.takes_tasks}
        self._free = {str(machine.id): Counter({n: machine.free.milli(n) for n in node.asked}) for machine in machines}
        self._quota: Counter[str] = Counter(node.replica.headroom.get(node.role, {}))
        """What the quota of the role leaves, with what its tasks that may give way would give back."""
        self._of_app: dict[str, list[Instance]] = {}
        for instance in state.instances.values():
            spec = state.spec_of(instance)
            if instance.task is None or spec is None:
                continue
            versions = (spec, state.app(spec.id))
            if spec.id == node.app_id or any(one is not None and one.document.get("preemptible") for one in versions):
                self._give(self._free, self._quota, instance)
            else:
                self._of_app.setdefault(spec.id, []).append(instance)

    def could_start(self, step: Step) -> bool:
        """Return whether one unit might have room after a step; False is certain."""
        spec = after_step(self._node.spec, step)
        free, quota = self._free, self._quota
        if step.kind in ("scale", "preemptible", "end"):
            free, quota = {place: Counter(amounts) for place, amounts in free.items()}, Counter(quota)
        if step.kind in ("scale", "preemptible"):
            for instance in self._of_app.get(step.target, ()):
                self._give(free, quota, instance)
        elif step.kind == "end":
            for amounts in (quota, *free.values()):
                amounts.update(step.amounts)
        limited = self._node.replica.headroom.get(self._node.role, {})
        size, asked = spec.gang_size, spec.asked
        if step.kind != "quota" and any(quota[name] < asked[name] * size for name in asked if name in limited):
            return False
        shut = self._shut - {step.target} if step.kind == "reactivate" else self._shut
        counts = [
            min((amounts[name] // amount for name, amount in asked.items()), default=size)
            for place, amounts in free.items()
            if place not in shut
        ]
        together = size == 1 or not spec.document["gang"]["onePerHost"]
        return step.kind == "add" or sum(count if together else min(1, count) for count in counts) >= size

    def _give(self, free: dict[str, Counter[str]], quota: Counter[str], instance: Instance) -> None:
        spec = self._node.replica.state.spec_of(instance)
        if instance.task is None or spec is None:
            return
        if str(instance.task.agent_id) in free:
            free[str(instance.task.agent_id)].update(spec.asked)
        if of_quota(instance.role) == self._node.role:
            quota.update(spec.asked)


def _new(ends: Iterable[End], before: set[str]) -> Iterator[End]:
    return (end for end in ends if end.instance not in before)


def _is_later(node: Node, step: Step) -> bool:
    """Return whether a step may follow: the order of kinds is that in which steps are done."""
    last = node.steps[-1]
    return (KINDS.index(step.kind), step.target) > (KINDS.index(last.kind), last.target)


def _key(step: Step) -> Hashable:
    amounts, attributes = tuple(step.amounts.items()), tuple(step.attributes.items())
    return step.kind, step.target, step.value, step.count, amounts, attributes
