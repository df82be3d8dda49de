"""The smallest change that would let one more instance of an app start. Pure.

Every agent is looked at with what stands in the way there; a change is a choice of steps for one agent, or a new
machine. `change.Change.measure` says which of two is smaller. docs/do/gpu-answers.md has it in words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from msgspec import Struct, field

from mesos_gpu.marathon.matching.constraints import fulfilled
from mesos_gpu.marathon.why.change import Change, Held, Step, amount_text, without_constraint
from mesos_gpu.marathon.why.judge import ConstraintPlace, constraint_place, count_text, missing_ports, value_of
from mesos_gpu.marathon.why.wish import BEHAVIOUR_LABEL, Wish
from mesos_gpu.mesos.clients.agents import UNRESERVED, Agent, names

if TYPE_CHECKING:
    from mesos_gpu.marathon.model.instances import Task

LEAST_PART = 2
"""Nobody is told to ask for less than one in so many of what is asked for now: that would be another app."""
NEW_MACHINE = "new-machine"
_GRAIN = {"gpus": 1000, "mem": 1000, "disk": 1000, "cpus": 1}
"""Thousandths: GPUs and MiB are asked for whole."""
_TRIED = 20_000
"""How many choices of tasks to end are looked at on one agent, at most."""
_FAULT_DOMAIN = ("@region", "@zone")


class Surroundings(Struct, frozen=True):
    """What an app that waits has around it. `role` is its own, `limits` and `consumed` those of the role's quota."""

    agents: Sequence[Agent] = ()
    placed: Sequence[Task] = ()
    """Its instances, as constraints count them."""
    held: Mapping[str, Sequence[Held]] = field(default_factory=dict)
    """By agent id, where it is known."""
    role: str = "*"
    limits: Mapping[str, int] = field(default_factory=dict)
    consumed: Mapping[str, int] = field(default_factory=dict)
    """Thousandths, by name."""
    keeps_gpus: bool = False
    """Whether the Marathon keeps agents with GPUs for apps that use some."""

    @property
    def quota_role(self) -> str:
        """Return the role that the quota is of: the first part of a name of several."""
        return self.role.partition("/")[0]


def smallest(wish: Wish, around: Surroundings) -> Change | None:
    """Return the smallest change after which one more instance starts; one without steps when nothing is in the way.

    None for apps with parts of GPUs, of which no master tells what is free, and for those that go where their data is.
    """
    if wish.shares or wish.keeps_data:
        return None
    called = names(around.agents)
    found: Change | None = None
    for agent in around.agents:
        for change in _changes(wish, around, agent, called[agent.id], found):
            found = change if found is None or change.order < found.order else found
    if found is not None:
        return found
    return _new_machine(wish, around)


def asked_of(wish: Wish) -> dict[str, int]:
    """Return what one instance asks for, in thousandths."""
    return {name: round(amount * 1000) for name, amount in wish.amounts.items() if amount > 0}


def least_of(name: str, asked: int) -> int:
    """Return to how much of a scalar an app may be lowered: half, in whole GPUs and MiB."""
    grain = _GRAIN.get(name, 1)
    return -(-asked // (LEAST_PART * grain)) * grain


def _changes(wish: Wish, around: Surroundings, agent: Agent, called: str, best: Change | None) -> Iterator[Change]:
    """Yield changes by which an instance would start on this agent, the smallest among them."""
    if agent.state == "inactive" or missing_ports(wish, agent):
        return
    forced = [] if agent.takes_tasks else [_reactivate(agent, called)]
    place = constraint_place(agent)
    forced += [_drop(wish, c) for c in wish.constraints if not fulfilled(c, place, around.placed, wish.instances)]
    asked = asked_of(wish)
    free = {
        name: round((agent.amount("free", name, wish.roles) + agent.amount("offered", name, wish.roles)) * 1000)
        for name in asked
    }
    gpus_here = agent.amount("free", "gpus") + agent.amount("offered", "gpus") > 0
    for ended in _endings(around, agent, wish, asked, free, best, len(forced)):
        with_label = _keeps_away(wish, around) and (gpus_here or any(h.amounts.get("gpus") for h in ended))
        label = [_label(wish)] if with_label else []
        there = {name: free[name] + sum(h.amounts.get(name, 0) for h in ended) for name in asked}
        ends = [_end(h, called, asked) for h in ended]
        for amounts in _amounts(wish, around, asked, there, ended):
            yield Change((*forced, *label, *amounts, *ends), called)


def _endings(
    around: Surroundings,
    agent: Agent,
    wish: Wish,
    asked: Mapping[str, int],
    free: Mapping[str, int],
    best: Change | None,
    forced: int,
) -> Iterator[tuple[Held, ...]]:
    """Yield which tasks might be ended on an agent, fewest first, as long as more could be smaller than `best`."""
    missing = {name: asked[name] - free[name] for name in asked if asked[name] > free[name]}
    yield ()
    held = [one for one in around.held.get(agent.id, ()) if one.owner != wish.id and _frees(one, wish, agent)]
    useful = [one for one in held if any(one.amounts.get(name) for name in missing)]
    # Those that are alike in all that counts are one group: which of them ends makes no difference.
    alike: dict[tuple[tuple[int, ...], bool, bool], list[Held]] = {}
    for one in sorted(useful, key=lambda one: one.id):
        counts = tuple(one.amounts.get(name, 0) for name in asked)
        alike.setdefault((counts, _of_role(one, around), bool(one.amounts.get("gpus"))), []).append(one)
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


def _frees(one: Held, wish: Wish, agent: Agent) -> bool:
    """Return whether what a task holds is sure to serve the wish: it is of its roles, or nothing is reserved."""
    others = [role for role, amounts in agent.total.items() if role not in wish.roles and any(amounts.values())]
    return not others or (one.role in wish.roles and one.role != UNRESERVED)


def _amounts(
    wish: Wish,
    around: Surroundings,
    asked: Mapping[str, int],
    there: Mapping[str, int],
    ended: Sequence[Held],
) -> Iterator[list[Step]]:
    """Yield the steps by which what is there, and what the role may have, is enough: without and with more quota."""
    back = {name: sum(h.amounts.get(name, 0) for h in ended if _of_role(h, around)) for name in around.limits}
    left = {name: around.limits[name] - around.consumed.get(name, 0) + back[name] for name in around.limits}
    for raised in (False, True):
        after: dict[str, int] = {}
        for name, wanted in asked.items():
            most = there[name] if raised else min(there[name], left.get(name, wanted))
            grain = _GRAIN.get(name, 1)
            after[name] = wanted if most >= wanted else most // grain * grain
        if any(amount < min(asked[name], least_of(name, asked[name])) for name, amount in after.items()):
            continue
        steps = [_lower(wish, name, asked[name], amount) for name, amount in after.items() if amount < asked[name]]
        over = {name: after[name] - left[name] for name in after if name in left and after[name] > left[name]}
        if raised and not over:
            return
        yield [*steps, *([_raise(around, over, back, asked)] if over else [])]


def _of_role(one: Held, around: Surroundings) -> bool:
    return one.role.partition("/")[0] == around.quota_role


def _new_machine(wish: Wish, around: Surroundings) -> Change | None:
    """Return the change that adds a machine, with what an instance asks for and what its constraints want."""
    host, attributes, forbidden = NEW_MACHINE, dict[str, str](), list[tuple[str, ...]]()
    by_field: dict[str, list[tuple[str, ...]]] = {}
    for constraint in wish.constraints:
        by_field.setdefault(
            constraint[0].removeprefix("@") if constraint[0] == "@hostname" else constraint[0], []
        ).append(constraint)
    for name, constraints in by_field.items():
        value, refused = _value_for(name, constraints, wish, around)
        forbidden += refused
        if name == "hostname":
            host = value
        else:
            attributes[name] = value
    asked = asked_of(wish)
    drops = [_drop(wish, constraint) for constraint in forbidden]
    found: Change | None = None
    for amounts in _amounts(wish, around, asked, asked, ()):
        lowered = {step.target: step.amounts[step.target] for step in amounts if step.kind == "lower"}
        change = Change((*drops, *amounts, _add({**asked, **lowered}, asked, host, attributes)), "")
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
        return [NEW_MACHINE, *(value for value in asked if value not in there)]
    return list(dict.fromkeys([*known, *asked, "new"]))


def _value_for(
    name: str, constraints: Sequence[tuple[str, ...]], wish: Wish, around: Surroundings
) -> tuple[str, list[tuple[str, ...]]]:
    """Return the value that fulfils most constraints on a field, and those that it does not fulfil."""
    tried: list[tuple[int, int, str, list[tuple[str, ...]]]] = []
    for value in candidates(name, constraints, around):
        place = new_place(NEW_MACHINE, {name: value})
        refused = [c for c in constraints if not fulfilled(c, place, around.placed, wish.instances)]
        tried.append((len(refused), len(tried), value, refused))
    _, _, value, refused = min(tried)
    return value, refused


def new_place(host: str, attributes: Mapping[str, str]) -> ConstraintPlace:
    """Return a machine as constraints look at it; `hostname`, `@region` and `@zone` may be among the attributes."""
    told = {name: value for name, value in attributes.items() if name != "hostname" and name not in _FAULT_DOMAIN}
    return ConstraintPlace(
        attributes.get("hostname", host), tuple(told.items()), attributes.get("@region"), attributes.get("@zone")
    )


def _keeps_away(wish: Wish, around: Surroundings) -> bool:
    keeps = wish.behaviour == "restricted" or (around.keeps_gpus and wish.behaviour is None)
    return keeps and not wish.gpus


def _verb(wish: Wish) -> str:
    return f"mesos-gpu {'pod' if wish.is_pod else 'app'} update {wish.id}"


def _reactivate(agent: Agent, called: str) -> Step:
    return Step("reactivate", f"`mesos-gpu agent reactivate {called}` lets tasks onto it", agent.id)


def _label(wish: Wish) -> Step:
    text = f"`{_verb(wish)} labels.{BEHAVIOUR_LABEL}=unrestricted` lets it onto machines with GPUs"
    return Step("label", text, BEHAVIOUR_LABEL)


def _drop(wish: Wish, constraint: tuple[str, ...]) -> Step:
    words = " ".join(constraint)
    if wish.is_pod:
        return Step("drop", f"drop the constraint {words} of {wish.id}", words)
    left = without_constraint(wish.constraints, constraint)
    return Step("drop", f"`{_verb(wish)} 'constraints={left}'` drops {words}", words)


def _lower(wish: Wish, name: str, wanted: int, after: int) -> Step:
    less = f"{count_text(after / 1000, name)} instead of {wanted / 1000:g}"
    own = wish.own.get(name, 0.0)
    if wish.is_pod or round(own * 1000) != wanted:
        text = f"ask for {less} in all in {wish.id}"
    else:
        text = f"`{_verb(wish)} {amount_text(name, after)}` asks for {less}"
    return Step("lower", text, name, {name: after}, part=Fraction(wanted - after, wanted))


def _raise(around: Surroundings, over: Mapping[str, int], back: Mapping[str, int], asked: Mapping[str, int]) -> Step:
    limits = {name: around.limits[name] + amount for name, amount in over.items()}
    words = " ".join(f"--{amount_text(name, limit)}".replace("=", " ") for name, limit in limits.items())
    part = sum((Fraction(amount, asked[name]) for name, amount in over.items()), Fraction(0))
    text = f"`mesos-gpu quota set {around.quota_role} {words}` raises what the role may have"
    return Step("quota", text, around.quota_role, limits, part=part)


def _end(one: Held, called: str, asked: Mapping[str, int]) -> Step:
    freed = {name: one.amounts[name] for name in asked if one.amounts.get(name)}
    what = ", ".join(count_text(amount / 1000, name) for name, amount in freed.items())
    if one.is_app:
        text = f"`mesos-gpu task kill --scale {one.id}` ends one of {one.owner} on {called} ({what})"
    else:
        text = f"end {one.id} of {one.owner} on {called} ({what})"
    part = sum((Fraction(amount, asked[name]) for name, amount in freed.items()), Fraction(0))
    return Step("end", text, one.id, freed, part=part)


def _add(amounts: Mapping[str, int], asked: Mapping[str, int], host: str, attributes: Mapping[str, str]) -> Step:
    what = ", ".join(count_text(amount / 1000, name) for name, amount in amounts.items())
    shown = {**({"hostname": host} if host != NEW_MACHINE else {}), **attributes}
    words = f" and {', '.join(f'{name} {value}' for name, value in shown.items())}" if shown else ""
    part = sum((Fraction(amounts[name], asked[name]) for name in asked), Fraction(0))
    return Step("add", f"add a machine with {what or 'anything'}{words}", "", dict(amounts), shown, part)
