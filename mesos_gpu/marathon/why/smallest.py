"""The smallest change that would let one more instance of an app start. Pure.

For each agent, and for a new machine, `marathon.matching` decides whether the instance starts, and its findings say
which steps can help. `change.Change.measure` says which of two changes is smaller; docs/do/gpu-answers.md has it in
words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.constraints import fulfilled
from mesos_gpu.marathon.matching.machines import Machine, given_back, of_quota
from mesos_gpu.marathon.matching.matching import Finding, Rules, accepted_roles, match_new
from mesos_gpu.marathon.why import steps
from mesos_gpu.marathon.why.change import Change, Held, Step
from mesos_gpu.marathon.why.request import Request
from mesos_gpu.marathon.why.search import smallest_of
from mesos_gpu.marathon.why.steps import NEW, OWN, after_step, grain_of, least_of, new_machine
from mesos_gpu.marathon.why.verdict import Counted, count_text, role_of, texts_of, value_of
from mesos_gpu.mesos.ids import Role
from mesos_gpu.mesos.resource import UNRESERVED

if TYPE_CHECKING:
    from mesos_gpu.marathon.model.instances import Task

_TRIED = 20_000
"""How many changes are looked at, at most: a few seconds."""
_HOSTS = ("hostname", "@hostname")


class Surroundings(Struct, frozen=True):
    """What an app that waits has around it. `limits` and `consumed` are those of the quota of its role."""

    agents: Sequence[Machine] = ()
    placed: Sequence[Task] = ()
    """Its instances, as constraints count them."""
    held: Mapping[str, Sequence[Held]] = field(default_factory=dict)
    """By agent id, where it is known."""
    limits: Mapping[str, int] = field(default_factory=dict)
    consumed: Mapping[str, int] = field(default_factory=dict)
    """Thousandths, by name."""
    rules: Rules = field(default_factory=Rules)
    """How the Marathon matches offers."""


def smallest(request: Request, around: Surroundings) -> Change | None:
    """Return the smallest change after which one more instance starts; one without steps when nothing is in the way.

    None for apps with parts of GPUs, for which no step is known, and for those that go where their data is.
    """
    if request.spec.largest_share is not None or request.spec.resident:
        return None
    ways = [
        _Way(request, around, agent, request.spec, () if agent.takes_tasks else (steps.reactivate(agent),))
        for agent in around.agents
        if agent.connected
    ]
    # Whatever does without a machine is smaller.
    return smallest_of(ways, _TRIED) or smallest_of([_new_machine(request, around)], _TRIED)


class _Way(Struct, frozen=True, dict=True):
    """A machine after some steps, and the app as it is then. Each step is about a requirement that is not met.

    What has to be done comes first, then tasks are ended, then less is requested, then the quota is raised.
    """

    request: Request
    around: Surroundings
    machine: Machine
    spec: RunSpec
    steps: tuple[Step, ...] = ()
    ended: tuple[Held, ...] = ()
    attributes: Mapping[str, str] | None = None
    """Those of a machine that is added; None for one that is there."""

    @property
    def change(self) -> Change:
        """Return the steps; a machine that is added has what the app requests after them."""
        if self.attributes is None:
            return Change(self.steps, self.machine.called)
        return Change((*self.steps, steps.add(self.spec.asked, self.attributes, self.request.spec.asked)), "")

    @cached_property
    def unmet(self) -> list[Finding]:
        """Return the requirements that the machine does not meet."""
        findings: list[Finding] = []
        offer = self.machine.offer_of(self.machine.free, role_of(self.spec))
        match_new(self.spec, offer, [Counted(task) for task in self.around.placed], self.around.rules, findings)
        return [finding for finding in findings if not finding.met]

    @property
    def starts(self) -> bool:
        """Return whether Marathon takes the offer, and the quota allows it."""
        return not self.unmet and not self.over

    @cached_property
    def over(self) -> dict[str, int]:
        """Return by how much the app exceeds the quota of its role."""
        left = self.quota_left
        return {
            name: amount - left[name] for name, amount in self.spec.asked.items() if amount > left.get(name, amount)
        }

    @property
    def quota_left(self) -> dict[str, int]:
        """Return what the quota leaves once the tasks have ended."""
        if "quota" in self.kinds:
            return {}
        around, role = self.around, _quota_role(self.request)
        back = Counter[str]()
        for one in self.ended:
            back.update(one.amounts if of_quota(one.role) == role else {})
        return {name: most - around.consumed.get(name, 0) + back[name] for name, most in around.limits.items()}

    @property
    def kinds(self) -> list[str]:
        """Return the kinds of its steps."""
        return [step.kind for step in self.steps]

    def after(self, step: Step) -> _Way:
        """Return the same after one more step."""
        made = replace(self, steps=(*self.steps, step), spec=after_step(self.spec, step))
        if step.kind == "end":
            held = next(one for one in self.around.held[self.machine.id] if one.id == step.target)
            resources = self.machine.used.filter(lambda resource: not resource.revocable)
            machine = self.machine.with_back(given_back(resources, held.amounts, held.role))
            return replace(made, machine=machine, ended=(*self.ended, held))
        return made

    def following(self) -> Iterator[tuple[tuple[Any, ...], Step]]:
        """Yield the steps that may come next, each with the order of the change that it leads to."""
        for step in self._next():
            yield replace(self, steps=(*self.steps, step), spec=after_step(self.spec, step)).change.order, step

    def _next(self) -> Iterator[Step]:
        update, subjects, done = self.request.command, {finding.subject for finding in self.unmet}, {*self.kinds}
        offered = _roles_of(self.spec, self.machine)
        if "role" in subjects and "roles" not in done:
            yield steps.roles(update, self.spec, offered)
        elif "ports" in subjects and "ports" not in done:
            yield steps.ports(update, self.spec)
        elif rules := [one.subject for one in self.unmet if " ".join(texts_of(one.requested)) == one.subject]:
            yield steps.drop(update, self.spec, rules[0])
        elif "scarce" in subjects and "label" not in done:
            yield steps.label(update)
        elif subjects <= {*self.spec.asked}:
            yield from self._amounts()
            if subjects and not {"roles", "end", "lower"} & done and not {*offered} <= self._accepted():
                yield steps.roles(update, self.spec, offered)

    def _accepted(self) -> set[str]:
        return {*map(str, accepted_roles(self.spec, self.around.rules.roles_behaviour))}

    def _amounts(self) -> Iterator[Step]:
        """Yield steps about amounts: of the machine, and of the quota."""
        missing = {one.subject: one.found for one in self.unmet if isinstance(one.found, int)}
        if missing and "lower" not in self.kinds:
            yield from (_end(one, self.machine.called, self.request.spec.asked) for one in self._useful(missing))
        for name in [*missing, *self.over][:1]:
            most = missing.get(name, self.spec.asked[name])
            for amount in {most, min(most, self.quota_left.get(name, most))}:
                after = amount // grain_of(name) * grain_of(name)
                if least_of(name, self.request.spec.asked[name]) <= after < self.spec.asked[name]:
                    yield steps.lower(self.request.command, self.spec, name, after)
        if not missing and self.over:
            yield steps.quota(_quota_role(self.request), self.around.limits, self.over, self.request.spec.asked)

    def _useful(self, missing: Iterable[str]) -> Iterator[Held]:
        """Yield a task of each kind that has something of what is missing; none that comes before those that ended."""
        asked, done = self.request.spec.asked, {one.id for one in self.ended}
        kinds: dict[tuple[Any, ...], list[Held]] = {}
        for one in sorted(self.around.held.get(self.machine.id, ()), key=lambda one: one.id):
            if one.owner != self.request.id and _frees(one, self.spec, self.machine):
                # Those that are alike in all that counts are one kind: which of them ends makes no difference.
                amounts = tuple(one.amounts.get(name, 0) for name in (*asked, "gpus"))
                kinds.setdefault((amounts, of_quota(one.role) == _quota_role(self.request)), []).append(one)
        groups = list(kinds.values())
        last = max((at for at, group in enumerate(groups) if done & {one.id for one in group}), default=0)
        for group in groups[last:]:
            left = [one for one in group if one.id not in done]
            if left and any(left[0].amounts.get(name) for name in missing):
                yield left[0]


def _roles_of(spec: RunSpec, machine: Machine) -> list[str]:
    """Return the roles of the resources that a machine offers to an app."""
    return sorted({str(resource.role) for resource in machine.offer_of(machine.total, role_of(spec)).resources})


def _frees(one: Held, spec: RunSpec, machine: Machine) -> bool:
    """Return whether what a task holds is sure to serve the app: it is of its role, or nothing is reserved."""
    role = role_of(spec)
    return machine.total.reserved_roles() in ((), (role,)) or one.role == role != UNRESERVED


def _quota_role(request: Request) -> Role:
    """Return the role that the quota is of."""
    return of_quota(role_of(request.spec))


def _new_machine(request: Request, around: Surroundings) -> _Way:
    """Return a machine that is added, with what an instance requests and what its constraints want."""
    by_field: dict[str, list[tuple[str, ...]]] = {}
    for constraint in request.constraints:
        by_field.setdefault("hostname" if constraint[0] in _HOSTS else constraint[0], []).append(constraint)
    attributes = {name: _value_for(name, constraints, request, around) for name, constraints in by_field.items()}
    named = sorted(attributes.items(), key=lambda item: item[0] != "hostname")
    attributes = {name: value for name, value in named if value != NEW}
    machine = new_machine(steps.add(request.spec.asked, attributes, request.spec.asked), 0, 0)
    return _Way(request, around, machine, request.spec, attributes=attributes)


def candidates(name: str, constraints: Sequence[tuple[str, ...]], around: Surroundings) -> list[str]:
    """Return what a new machine might have for a constraint's field: what there is, what is named, and something new.

    A machine's name has to be new.
    """
    there = Counter(value for agent in around.agents if (value := value_of(agent, name)) is not None)
    asked = [part for constraint in constraints for part in "".join(constraint[2:3]).split("|") if part]
    known = [value for value, _ in sorted(there.items(), key=lambda item: (-item[1], item[0]))]
    if name == "hostname":
        return [NEW, *(value for value in asked if value not in there)]
    return list(dict.fromkeys([*known, *asked, OWN]))


def _value_for(name: str, constraints: Sequence[tuple[str, ...]], request: Request, around: Surroundings) -> str:
    """Return the value that fulfils most constraints on a field."""
    tried: list[tuple[int, int, str]] = []
    for value in candidates(name, constraints, around):
        made = new_machine(Step("add", "", attributes={name: value} if value != NEW else {}), 0, 0)
        place = made.offer_of(made.free, role_of(request.spec))
        refused = sum(not fulfilled(c, place, around.placed, request.spec.instances) for c in constraints)
        tried.append((refused, len(tried), value))
    return min(tried)[2]


def _end(one: Held, called: str, asked: Mapping[str, int]) -> Step:
    freed = {name: one.amounts[name] for name in asked if one.amounts.get(name)}
    what = ", ".join(count_text(amount, name) for name, amount in freed.items())
    if one.is_app:
        text = f"`mesos-gpu task kill --scale {one.id}` ends one of {one.owner} on {called} ({what})"
    else:
        text = f"end {one.id} of {one.owner} on {called} ({what})"
    return Step("end", text, one.id, freed, part=steps.part_of(freed, asked))
