"""Every change of the documented set (docs/do/plan.md), one after another: whether one is smaller than what is advised.

Written for the tests: it shares the replica on which decisions are played with what is tested, and nothing of what it
looks for, of how large that is, or of what cannot help.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import groupby
from math import ceil, inf
from typing import Any

from msgspec.structs import replace

from mesos_gpu.errors import MesosGpuError
from mesos_gpu.marathon.matching.machines import Machine
from mesos_gpu.marathon.model.instances import Instance
from mesos_gpu.marathon.simulation.replica import Replica
from mesos_gpu.marathon.simulation.scenario import Scenario
from mesos_gpu.marathon.state.state import State
from mesos_gpu.marathon.why.change import Change, Step
from mesos_gpu.mesos.ids import AgentId, Role
from mesos_gpu.mesos.resources import Resources
from tests.support.marathon.stuck_in_order import ME, ROLE, asked_for, units

NAMES = ("cpus", "mem", "disk", "gpus")
ORDER = ["reactivate", "label", "lower", "size", "together", "runtime", "priority", "quota", "drop", "preemptible"]
ORDER += ["end", "scale", "add"]
BEFORE_MACHINES = {"reactivate", "label", "priority", "quota", "drop"}
LOOKS_S = 6.0
MOST_POINTS = 8
"""Priorities of these clusters are -2 to 3, and nothing waits for ten minutes, so more points change nothing."""
Measure = tuple[Any, ...]
Found = tuple[Measure, tuple[Step, ...]]


class Every:
    """All changes of one cluster. `limits` are those of the app's role."""

    def __init__(self, scenario: Scenario) -> None:
        self._scene = scenario
        self._limits = dict(scenario.limits.get(Role(ROLE), {}))
        self._base = Replica(scenario.state, scenario.machines, scenario.settings, scenario.moment, scenario.headroom)
        self._base.settle_what_is_under_way()
        self._before = units(self._base.state)
        if not self._short(self._base):
            self._base.play(until=self._more, horizon_s=120)
        self._ended = {end.instance for end in self._base.ends}
        self.played = 0

    def _more(self, state: State) -> bool:
        return units(state) > self._before

    def smaller(self, than: Change) -> Found | None:
        """Return a smaller change after which the app starts, None when there is none."""
        singles = [*self._steps(self._base, ()), *self._added(self._base)]
        for step in singles:
            found = self._tried(self._base, (step,), than)
            if found is not None:
                return found, (step,)
        if than.measure < (0, 2):
            return None
        for first in singles:
            if first.kind == "add" or self._least((first,), self._base) >= than.measure:
                continue
            after = self._after(self._base, first)
            for second in [] if after is None else [*self._steps(after, (first,)), *self._added(after)]:
                place = ORDER.index(second.kind), second.target
                if place <= (ORDER.index(first.kind), first.target):
                    continue
                assert after is not None
                found = self._tried(after, (first, second), than)
                if found is not None:
                    return found, (first, second)
                if len(than.steps) > 2 and {first.kind, second.kind} <= BEFORE_MACHINES:
                    twice = self._after(after, second)
                    longer = None if twice is None else self._with_machines(twice, (first, second), than)
                    if longer is not None:
                        return longer
        return None

    def _with_machines(self, replica: Replica, done: tuple[Step, ...], than: Change) -> Found | None:
        """Look for a smaller change that begins with these steps, goes on with such, and ends with machines."""
        for step in self._added(replica):
            found = self._tried(replica, (*done, step), than)
            if found is not None:
                return found, (*done, step)
        last = ORDER.index(done[-1].kind), done[-1].target
        for step in self._steps(replica, done) if len(done) + 1 < len(than.steps) else ():
            if step.kind in BEFORE_MACHINES and (ORDER.index(step.kind), step.target) > last:
                after = self._after(replica, step)
                longer = None if after is None else self._with_machines(after, (*done, step), than)
                if longer is not None:
                    return longer
        return None

    def _tried(self, replica: Replica, steps: tuple[Step, ...], than: Change) -> Measure | None:
        """Return how large a change is that starts the app and is smaller; None for any other."""
        if self._least(steps, replica) >= than.measure or self._hopeless(replica, steps[-1]):
            return None
        after = self._after(replica, steps[-1])
        if after is None or not self._more(after.state) or self._short(after):
            return None
        other: Replica | None = self._base
        for step in steps:
            other = None if other is None else self._after(other.turned(), step)
        if other is None or not self._more(other.state) or self._short(other):
            return None
        measure = self._measure(steps, after)
        return measure if measure < than.measure else None

    def _after(self, replica: Replica, step: Step) -> Replica | None:
        self.played += 1
        replica = replica.copy()
        try:
            for event in asked_for(replica.state, step):
                replica.tell(event)
        except MesosGpuError:
            return None
        if step.kind == "quota":
            for name, limit in step.amounts.items():
                replica.headroom[Role(ROLE)][name] += limit - self._limits[name]
        elif step.kind == "reactivate":
            machine = replica.machines[AgentId(step.target)]
            replica.machines[machine.id] = replace(machine, takes_tasks=True)
        elif step.kind == "add":
            for at in range(step.value or 1):
                told = {name: f"{value}-{at}" if value == "new" else value for name, value in step.attributes.items()}
                amounts = ";".join(f"{name}:{amount / 1000}" for name, amount in step.amounts.items())
                host = told.pop("hostname", f"added-{at}")
                free = Resources.parse(f"{amounts};ports:[1025-65535]")
                replica.machines[AgentId(host)] = Machine(AgentId(host), host, free, attributes=tuple(told.items()))
        until_s = replica.now_s - self._scene.moment.now_s + 60
        if not self._short(replica):
            replica.play(until=self._more, patience_s=LOOKS_S, horizon_s=until_s)
        return replica

    def _short(self, replica: Replica) -> dict[str, int]:
        """What the app's role has too little left of to be offered all that is free."""
        spec, left = self._spec(replica.state), replica.headroom.get(Role(ROLE), {})
        open_ = [machine for machine in replica.machines.values() if machine.takes_tasks]
        free = {name: sum(machine.free.milli(name) for machine in open_) for name in left if spec.document[name]}
        return {n: free[n] - left[n] for n in free if free[n] > left[n]}

    def _asked(self, state: State) -> dict[str, int]:
        document = self._spec(state).document
        return {name: round(document[name] * 1000) for name in NAMES if document[name]}

    def _spec(self, state: State) -> Any:
        return state.app(ME)

    def _steps(self, replica: Replica, done: Sequence[Step]) -> Iterator[Step]:
        state = replica.state
        spec, asked = self._spec(state), self._asked(state)
        for name, amount in asked.items():
            if name == "gpus":
                values = [gpus for gpus in range(1000, amount, 1000) if 2 * gpus >= amount]
            else:
                grain = 1 if name == "cpus" else 1000
                values = sorted({-(-amount * tenths // (10 * grain)) * grain for tenths in range(5, 10)} - {amount})
            for value in values:
                yield Step("lower", "", name, {name: value}, part=Fraction(amount - value, amount))
        if "gang" in spec.document:
            size = spec.document["gang"]["size"]
            for value in range(max(2, ceil(size / 2)), size):
                yield Step("size", "", value=value, part=Fraction(size - value, size))
            if spec.document["gang"]["onePerHost"]:
                yield Step("together", "")
        limit = spec.document.get("maxRuntimeSeconds")
        promised = {p.at_s for name, p in state.places.items() if name != ME and p.at_s not in (None, inf)}
        grace_s = spec.document.get("taskKillGracePeriodSeconds", 3)
        for minutes in sorted({int((at_s - replica.now_s - grace_s - 60) // 60) for at_s in promised if at_s}):
            value = 60 * minutes
            if minutes > 0 and (limit is None or limit <= 2 * value < 2 * limit):
                yield Step(
                    "runtime", "", value=value, part=Fraction(1) if limit is None else 1 - Fraction(value, limit)
                )
        for value in range(spec.priority + 1, spec.priority + 1 + MOST_POINTS):
            yield Step("priority", "", value=value, part=Fraction(value - spec.priority, 100))
        yield from self._raised(replica)
        for constraint in spec.document["constraints"]:
            yield Step("drop", "", " ".join(constraint))
        for machine in replica.machines.values():
            if not machine.takes_tasks:
                yield Step("reactivate", "", machine.id)
        yield from self._of_others(state, asked)

    def _of_others(self, state: State, asked: dict[str, int]) -> Iterator[Step]:
        own = self._spec(state).priority
        holders = sorted({i.app_id for i in state.instances.values()} - {ME})
        for app_id in holders:
            spec = state.app(app_id)
            if spec is None or app_id[1:].partition("/")[0] in state.jobs:
                continue
            runs = any(i.task is not None for i in state.instances_of(app_id))
            if runs and not spec.document.get("preemptible") and spec.priority < own:
                yield Step("preemptible", "", app_id)
            for value in range(0, spec.instances, spec.gang_size):
                count = spec.instances - value
                yield Step("scale", "", app_id, value=value, count=count, part=count * part_of(spec, asked))
        for mates in gangs_of(state):
            task, spec = mates[0].task, state.spec_of(mates[0])
            if task is not None and mates[0].app_id != ME:
                yield Step("end", "", task.id, count=len(mates), part=len(mates) * part_of(spec, asked))

    def _raised(self, replica: Replica) -> Iterator[Step]:
        """Yield what the role may have more: as much as is free, and that and what the app asks for."""
        state, left = replica.state, replica.headroom.get(Role(ROLE), {})
        spec, asked = self._spec(state), self._asked(state)
        short = self._short(replica)
        more = {name: asked[name] * spec.gang_size for name in left if name in asked}
        for over in (short, {name: amount + short.get(name, 0) for name, amount in more.items()}):
            part = sum((Fraction(amount, asked[name]) for name, amount in over.items()), Fraction(0))
            limits = {name: self._limits[name] + amount for name, amount in over.items()}
            if limits:
                yield Step("quota", "", ROLE, limits, part=part)

    def _added(self, replica: Replica) -> Iterator[Step]:
        spec, asked = self._spec(replica.state), self._asked(replica.state)
        together = "gang" in spec.document and not spec.document["gang"]["onePerHost"]
        ways: list[dict[str, str]] = [{}]
        for name, operator, *rest in spec.document["constraints"]:
            if name == "gpu_model":
                ways = [{name: value} for value in ("a100", "t4", "new")]
            elif operator == "LIKE":
                ways = [{name: rest[0]}]
        for attributes in ways:
            for count in range(1, spec.gang_size + 1):
                each = {name: amount * (count if together else 1) for name, amount in asked.items()}
                many = 1 if together else count
                yield Step("add", "", "", each, attributes, Fraction(count * len(asked)), many, count)

    def _least(self, steps: Sequence[Step], replica: Replica) -> Measure:
        return self._with(steps, 0, Fraction(0))

    def _with(self, steps: Sequence[Step], beside: int, lost: Fraction) -> Measure:
        machines = sum(step.count for step in steps if step.kind == "add")
        ended = beside + sum(step.count for step in steps if step.kind in ("end", "scale"))
        given_up = sum(step.kind in ("drop", "together", "preemptible") for step in steps)
        return machines, len(steps), ended, given_up, lost + sum((step.part for step in steps), Fraction(0))

    def _measure(self, steps: Sequence[Step], replica: Replica) -> Measure:
        """Return how large a change is, with what gives way after it or is replaced."""
        state, asked = self._base.state, self._asked(replica.state)
        told = {step.target for step in steps if step.kind == "scale"}
        for step in steps:
            if step.kind == "end":
                told |= {
                    i.id
                    for mates in gangs_of(state)
                    if any(i.task is not None and i.task.id == step.target for i in mates)
                    for i in mates
                }
        beside = [end for end in replica.ends if end.instance not in self._ended and not {end.instance, end.app} & told]
        beside = [end for end in beside if end.instance in state.instances]
        specs = [state.spec_of(state.instances[end.instance]) for end in beside]
        return self._with(steps, len(beside), sum((part_of(spec, asked) for spec in specs), Fraction(0)))

    def _hopeless(self, replica: Replica, step: Step) -> bool:
        """Return whether the app cannot have room for certain: not even with all that might end."""
        state = replica.state
        spec, asked = self._spec(state), self._asked(state)
        asked |= step.amounts if step.kind == "lower" else {}
        size = step.value or spec.gang_size if step.kind == "size" else spec.gang_size
        if step.kind in ("add", "quota"):
            return False
        alone = "gang" in spec.document and spec.document["gang"]["onePerHost"] and step.kind != "together"
        ends = dict.fromkeys(NAMES, 0)
        room = {str(m.id): {name: m.free.milli(name) for name in NAMES} for m in replica.machines.values()}
        for instance in state.instances.values():
            held = state.spec_of(instance)
            if instance.task is None or held is None:
                continue
            now = state.app(instance.app_id)
            named = step.target == instance.app_id or step.kind == "end"
            if (
                named
                or instance.app_id == ME
                or any(s is not None and s.document.get("preemptible") for s in (held, now))
            ):
                for name in NAMES:
                    amount = round(held.document[name] * 1000)
                    room[str(instance.task.agent_id)][name] += amount
                    ends[name] += amount if str(instance.role) == ROLE else 0
        left = replica.headroom.get(Role(ROLE), {})
        if any(left[name] + ends[name] < size * amount for name, amount in asked.items() if name in left):
            return True
        open_ = [str(m.id) for m in replica.machines.values() if m.takes_tasks or m.id == step.target]
        fits = [min(room[one][name] // amount for name, amount in asked.items()) for one in open_]
        return sum(min(1, count) if alone else max(0, count) for count in fits) < size


def part_of(spec: Any, asked: dict[str, int]) -> Fraction:
    """How much a task holds, in parts of what an instance asks for."""
    return sum((Fraction(round(spec.document[name] * 1000), amount) for name, amount in asked.items()), Fraction(0))


def gangs_of(state: State) -> list[list[Instance]]:
    """All that runs, by what ends together."""
    running = [i for i in state.instances.values() if i.task is not None]

    def unit(instance: Instance) -> str:
        assert instance.task is not None
        return instance.task.gang.id if instance.task.gang is not None else instance.id

    return [list(mates) for _, mates in groupby(sorted(running, key=unit), key=unit)]
