"""The smallest change that would let one more instance of an app start. Pure.

For each agent, and for a new machine, steps are proposed for what stands in the way there, and `marathon.matching`
decides whether the instance starts after them. `change.Change.measure` says which of two changes is smaller.
docs/do/gpu-answers.md has it in words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.constraints import fulfilled
from mesos_gpu.marathon.matching.machines import Machine
from mesos_gpu.marathon.matching.matching import Finding, Match, Rules, accepted_roles, match_new
from mesos_gpu.marathon.why import steps
from mesos_gpu.marathon.why.change import (
    NEW,
    OWN,
    Change,
    Held,
    Step,
    after_step,
    grain_of,
    least_of,
    new_machine,
)
from mesos_gpu.marathon.why.request import Request
from mesos_gpu.marathon.why.verdict import Counted, count_text, role_of, value_of
from mesos_gpu.mesos.resource import UNRESERVED
from mesos_gpu.mesos.resources import NOTHING, Resources

if TYPE_CHECKING:
    from mesos_gpu.marathon.model.instances import Task

_TRIED = 20_000
"""How many choices of tasks to end are looked at on one agent, at most."""
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


class _Way(Struct, frozen=True):
    """A machine as it is after some steps, and the app as it is then."""

    spec: RunSpec
    machine: Machine
    steps: tuple[Step, ...] = ()

    def after(self, step: Step) -> _Way:
        """Return the same after one more step about the app itself."""
        return _Way(after_step(self.spec, step), self.machine, (*self.steps, step))


def smallest(request: Request, around: Surroundings) -> Change | None:
    """Return the smallest change after which one more instance starts; one without steps when nothing is in the way.

    None for apps with parts of GPUs, for which no step is known, and for those that go where their data is.
    """
    if request.spec.largest_share is not None or request.spec.resident:
        return None
    found: Change | None = None
    for agent in around.agents:
        for change in _changes(request, around, agent, found):
            found = change if found is None or change.order < found.order else found
    if found is not None:
        return found
    return _new_machine(request, around)


def _starts(way: _Way, resources: Resources, around: Surroundings, findings: list[Finding] | None = None) -> bool:
    """Return whether Marathon takes an offer of these resources of the machine."""
    offer = way.machine.offer_of(resources, role_of(way.spec))
    counted = [Counted(task) for task in around.placed]
    return isinstance(match_new(way.spec, offer, counted, around.rules, findings), Match)


def _changes(request: Request, around: Surroundings, agent: Machine, best: Change | None) -> Iterator[Change]:
    """Yield changes by which an instance would start on this agent, the smallest among them."""
    if not agent.connected:
        return
    first = _Way(request.spec, agent, () if agent.takes_tasks else (steps.reactivate(agent),))
    for way in (first, first.after(steps.roles(request.command, request.spec, _roles_of(request.spec, agent)))):
        if way is first or len(_accepted(way, around)) > len(_accepted(first, around)):
            yield from _changes_on(request, around, _forced(request, around, way), best)


def _changes_on(request: Request, around: Surroundings, way: _Way, best: Change | None) -> Iterator[Change]:
    """Yield changes that begin with the steps of `way`."""
    agent, asked = way.machine, request.spec.asked
    free = _free(way, agent.free, around)
    for ended in _endings(around, agent, request, asked, free, best, len(way.steps)):
        resources = agent.free
        for held in ended:
            resources += _given_back(held, agent)
        there = {name: free[name] + sum(h.amounts.get(name, 0) for h in ended) for name in asked}
        ends = [_end(h, agent.called, asked) for h in ended]
        for amounts in _amounts(request, around, asked, there, ended):
            after = way
            for step in amounts:
                after = after.after(step)
            if not _starts(after, resources, around):
                after = after.after(steps.label(request.command))
            if _starts(after, resources, around):
                yield Change((*after.steps, *ends), agent.called)


def _forced(request: Request, around: Surroundings, way: _Way) -> _Way:
    """Return a way with the steps without which nothing starts on its machine, as far as there are any."""
    for subject in ("role", "ports", ""):
        for finding in _unmet(way, way.machine.free, around):
            if finding.subject == "role" == subject:
                way = way.after(steps.roles(request.command, way.spec, _roles_of(way.spec, way.machine)))
            elif finding.subject == "ports" == subject:
                way = way.after(steps.ports(request.command, way.spec))
            elif not subject and isinstance(finding.requested, tuple) and finding.subject not in ("role", "ports"):
                way = way.after(steps.drop(request.command, way.spec, finding.subject))
    return way


def _accepted(way: _Way, around: Surroundings) -> set[str]:
    """Return the roles whose resources an app takes of those that its machine offers."""
    accepted = map(str, accepted_roles(way.spec, around.rules.roles_behaviour))
    return {*accepted} & {*_roles_of(way.spec, way.machine)}


def _roles_of(spec: RunSpec, machine: Machine) -> list[str]:
    """Return the roles of the resources that a machine offers to an app."""
    return sorted({str(resource.role) for resource in machine.offer_of(machine.total, role_of(spec)).resources})


def _unmet(way: _Way, resources: Resources, around: Surroundings) -> list[Finding]:
    findings: list[Finding] = []
    _starts(way, resources, around, findings)
    return [finding for finding in findings if not finding.met]


def _free(way: _Way, resources: Resources, around: Surroundings) -> dict[str, int]:
    """Return how much of each scalar an app may take of these resources."""
    findings: list[Finding] = []
    _starts(way, resources, around, findings)
    return {one.subject: one.found for one in findings if isinstance(one.found, int) and one.subject in way.spec.asked}


def _given_back(held: Held, agent: Machine) -> Resources:
    """Return the resources that the end of a task gives back: of its role first."""
    found = NOTHING
    for name, amount in held.amounts.items():
        found += agent.used.find(name, amount, (held.role, UNRESERVED)) or NOTHING
    return found


def _endings(
    around: Surroundings,
    agent: Machine,
    request: Request,
    asked: Mapping[str, int],
    free: Mapping[str, int],
    best: Change | None,
    forced: int,
) -> Iterator[tuple[Held, ...]]:
    """Yield which tasks might be ended on an agent, fewest first, as long as more could be smaller than `best`."""
    missing = {name: asked[name] - free[name] for name in asked if asked[name] > free[name]}
    yield ()
    held = [one for one in around.held.get(agent.id, ()) if one.owner != request.id and _frees(one, request, agent)]
    useful = [one for one in held if any(one.amounts.get(name) for name in missing)]
    # Those that are alike in all that counts are one group: which of them ends makes no difference.
    alike: dict[tuple[tuple[int, ...], bool, bool], list[Held]] = {}
    for one in sorted(useful, key=lambda one: one.id):
        counts = tuple(one.amounts.get(name, 0) for name in asked)
        alike.setdefault((counts, _of_role(one, request), bool(one.amounts.get("gpus"))), []).append(one)
    groups = list(alike.values())
    # Each amount can be lowered by a step that ends nothing: so many tasks or more would not be smaller.
    can_lower = all(free[name] >= least_of(name, asked[name]) for name in missing)
    most = min(len(useful), len(missing)) if can_lower else len(useful)
    if best is not None:
        most = min(most, best.measure[1] - forced)
    tried = 0
    for count in range(1, most + 1):
        enough = False
        for chosen in _of_groups(groups, count):
            tried += 1
            if tried > _TRIED:
                return
            yield chosen
            enough = enough or all(sum(h.amounts.get(n, 0) for h in chosen) >= gap for n, gap in missing.items())
        if enough:
            return


def _of_groups(groups: Sequence[Sequence[Held]], count: int) -> Iterator[tuple[Held, ...]]:
    """Yield choices of so many tasks; of tasks that are alike the first ones are taken."""
    if count == 0:
        yield ()
        return
    if not groups or sum(map(len, groups)) < count:
        return
    first, *rest = groups
    for here in range(min(count, len(first)), -1, -1):
        for others in _of_groups(rest, count - here):
            yield (*first[:here], *others)


def _frees(one: Held, request: Request, agent: Machine) -> bool:
    """Return whether what a task holds is sure to serve the app: it is of its role, or nothing is reserved."""
    role = role_of(request.spec)
    return agent.total.reserved_roles() in ((), (role,)) or one.role == role != UNRESERVED


def _amounts(
    request: Request,
    around: Surroundings,
    asked: Mapping[str, int],
    there: Mapping[str, int],
    ended: Sequence[Held],
) -> Iterator[list[Step]]:
    """Yield the steps by which what is there, and what the role may have, is enough: without and with more quota."""
    back = {name: sum(h.amounts.get(name, 0) for h in ended if _of_role(h, request)) for name in around.limits}
    left = {name: around.limits[name] - around.consumed.get(name, 0) + back[name] for name in around.limits}
    for raised in (False, True):
        after: dict[str, int] = {}
        for name, wanted in asked.items():
            most = there[name] if raised else min(there[name], left.get(name, wanted))
            after[name] = wanted if most >= wanted else most // grain_of(name) * grain_of(name)
        if any(amount < min(asked[name], least_of(name, asked[name])) for name, amount in after.items()):
            continue
        update, spec = request.command, request.spec
        lowered = [steps.lower(update, spec, name, amount) for name, amount in after.items() if amount < asked[name]]
        over = {name: after[name] - left[name] for name in after if name in left and after[name] > left[name]}
        if raised and not over:
            return
        yield [*lowered, *([steps.quota(_quota_role(request), around.limits, over, asked)] if over else [])]


def _of_role(one: Held, request: Request) -> bool:
    return one.role.partition("/")[0] == _quota_role(request)


def _quota_role(request: Request) -> str:
    """Return the role that the quota is of: the first part of a name of several."""
    return role_of(request.spec).partition("/")[0]


def _new_machine(request: Request, around: Surroundings) -> Change | None:
    """Return the change that adds a machine, with what an instance asks for and what its constraints want."""
    by_field: dict[str, list[tuple[str, ...]]] = {}
    for constraint in request.constraints:
        by_field.setdefault("hostname" if constraint[0] in _HOSTS else constraint[0], []).append(constraint)
    attributes = {name: _value_for(name, constraints, request, around) for name, constraints in by_field.items()}
    named = sorted(attributes.items(), key=lambda item: item[0] != "hostname")
    attributes = {name: value for name, value in named if value != NEW}
    asked = request.spec.asked
    found: Change | None = None
    for amounts in _amounts(request, around, asked, asked, ()):
        lowered = {step.target: step.amounts[step.target] for step in amounts if step.kind == "lower"}
        add = steps.add({**asked, **lowered}, attributes, asked)
        way = _forced(request, around, _Way(request.spec, new_machine(add, 0, 0)))
        for step in amounts:
            way = way.after(step)
        if not _starts(way, way.machine.free, around):
            way = way.after(steps.label(request.command))
        if _starts(way, way.machine.free, around):
            change = Change((*way.steps, add), "")
            found = change if found is None or change.order < found.order else found
    return found


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
