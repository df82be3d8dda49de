"""The steps that may help an app that waits in order, and how each is said. Pure.

docs/do/plan.md has the table of them; nothing else is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from math import ceil, floor

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.machines import Machine
from mesos_gpu.marathon.matching.matching import BEHAVIOUR_LABEL, GpuBehaviour, accepted_roles
from mesos_gpu.marathon.matching.queue_requests import grace_s
from mesos_gpu.marathon.model.instances import Instance
from mesos_gpu.marathon.model.jobs import run_of
from mesos_gpu.marathon.simulation.scenario import Node
from mesos_gpu.marathon.why import steps as one
from mesos_gpu.marathon.why.change import Step
from mesos_gpu.marathon.why.steps import OWN

TENTHS = (9, 8, 7, 6, 5)
"""To so many tenths CPUs, memory and disk are lowered: to half at least, less would be another app."""
MARGIN_S = 60
"""So long there is to do what is advised, before the time that a limit of seconds is reckoned by."""
MOST_POINTS = 100
_OWN_FIELD = {"hostname", "@hostname"}


def steps(node: Node) -> Iterator[Step]:
    """Yield all single steps that could be done now, but for machines that are added."""
    own = (_roles, _ports, _lower, _size, _together, _label, _runtime, _priority, _drop)
    for kind in (*own, _quota, _preemptible, _end, _scale):
        yield from kind(node)
    for machine in node.replica.machines.values():
        if not machine.takes_tasks and machine.connected:
            yield one.reactivate(machine)


def machines(node: Node) -> Iterator[Step]:
    """Yield the steps that add machines: one for each member of a gang at most, with what is asked for."""
    size, spec = node.spec.gang_size, node.spec
    together = size > 1 and not spec.document["gang"]["onePerHost"]
    for attributes in _attributes(node):
        for count in range(1, size + 1):
            each = count if together else 1
            amounts = {name: amount * each for name, amount in node.asked.items()}
            many = 1 if together else count
            yield one.add(amounts, attributes, node.asked, machines=many, members=count)


def _attributes(node: Node) -> Iterator[dict[str, str]]:
    """Yield what new machines might have where constraints ask for something: what there is, what is named, its own."""
    fields: dict[str, list[str]] = {}
    for name, operator, *rest in node.spec.document["constraints"]:
        if name in _OWN_FIELD and operator.upper() not in ("IS", "CLUSTER", "LIKE"):
            continue
        there = {_value(machine, name) for machine in node.replica.machines.values()} - {None}
        named = [part for part in "".join(rest[:1]).split("|") if part]
        known = named if name in _OWN_FIELD else [*sorted(filter(None, there)), *named, OWN]
        fields[name.replace("@hostname", "hostname")] = list(dict.fromkeys(known))
    ways: list[dict[str, str]] = [{}]
    for name, values in fields.items():
        ways = [{**way, name: value} for way in ways for value in values]
    yield from ways


def _value(machine: Machine, name: str) -> str | None:
    return {"@region": machine.region, "@zone": machine.zone}.get(name, dict(machine.attributes).get(name))


def _update(node: Node, app_id: str) -> str:
    """Return the command that changes an app."""
    kind = "pod" if node.spec.is_pod and app_id == node.app_id else "app"
    force = " --force" if node.replica.state.deployments_of(app_id) else ""
    return f"mesos-gpu {kind} update{force} {app_id}"


def _updated(node: Node, app_id: str, words: str) -> str:
    return f"`{_update(node, app_id)} {words}`"


def _own(make: Callable[[Node], Iterator[Step]]) -> Callable[[Node], Iterator[Step]]:
    """Return the same for apps alone: what a pod asks for is not changed."""

    def made(node: Node) -> Iterator[Step]:
        if not node.spec.is_pod:
            yield from make(node)

    return made


@_own
def _lower(node: Node) -> Iterator[Step]:
    for name, own, beside in node.spec.scalars:
        asked = own + beside
        if name == "gpus":
            lowered = list(range(asked - 1000, ceil(asked / 2000) * 1000 - 1, -1000))
        else:
            grain = 1 if name == "cpus" else 1000
            lowered = [-(-asked * tenths // (10 * grain)) * grain for tenths in TENTHS]
        for after in dict.fromkeys(lowered):
            if beside < after < asked:
                yield one.lower(_update(node, node.app_id), node.spec, name, after)


@_own
def _size(node: Node) -> Iterator[Step]:
    size, units = node.spec.gang_size, node.spec.instances // node.spec.gang_size
    for after in range(size - 1, max(2, ceil(size / 2)) - 1, -1):
        verb = _updated(node, node.app_id, f"gang.size={after} instances={units * after}")
        yield Step(
            "size", f"{verb} has {after} members start in place of {size}", value=after, part=1 - Fraction(after, size)
        )


@_own
def _together(node: Node) -> Iterator[Step]:
    if node.spec.gang_size > 1 and node.spec.document["gang"]["onePerHost"]:
        verb = _updated(node, node.app_id, "gang.onePerHost=false")
        yield Step("together", f"{verb} lets several members onto one machine", part=Fraction(0))


@_own
def _label(node: Node) -> Iterator[Step]:
    keeps = node.scenario.settings.gpu_behaviour is GpuBehaviour.RESTRICTED
    said = node.spec.document["labels"].get(BEHAVIOUR_LABEL)
    if not node.spec.gpus and (said == "restricted" or (keeps and said != "unrestricted")):
        yield one.label(_update(node, node.app_id))


@_own
def _drop(node: Node) -> Iterator[Step]:
    for words in dict.fromkeys(" ".join(constraint) for constraint in node.spec.document["constraints"]):
        yield one.drop(_update(node, node.app_id), node.spec, words)


@_own
def _roles(node: Node) -> Iterator[Step]:
    """Yield that the app accepts the resources of all roles that machines offer to it, if it does not."""
    offered = {
        str(r.role) for m in node.replica.machines.values() for r in m.offer_of(m.total, node.full_role).resources
    }
    if not offered <= {*accepted_roles(node.spec, node.scenario.settings.roles_behaviour)}:
        yield one.roles(_update(node, node.app_id), node.spec, sorted(offered))


@_own
def _ports(node: Node) -> Iterator[Step]:
    if any(wish.number is not None for wish in node.spec.ports):
        yield one.ports(_update(node, node.app_id), node.spec)


@_own
def _runtime(node: Node) -> Iterator[Step]:
    """Yield the limit by which it ends before the first that waits is promised to start."""
    kept = [place.at_s for name, place in node.replica.state.places.items() if place.at_s and name != node.app_id]
    limit = node.spec.max_run_s
    for at_s in kept:
        left_s = at_s - node.replica.now_s - grace_s(node.spec) - MARGIN_S
        after = floor(left_s / 60) * 60 if left_s < 1e9 else 0
        if after >= 60 and (limit is None or limit / 2 <= after < limit):
            verb = _updated(node, node.app_id, f"maxRuntimeSeconds={after}")
            first = next(name for name, place in node.replica.state.places.items() if place.at_s == at_s)
            text = f"{verb}, or less, has it end before {first} is to start, so that it may go first"
            part = Fraction(1) if limit is None else Fraction(limit - after, limit)
            yield Step("runtime", text, value=after, part=part)


@_own
def _priority(node: Node) -> Iterator[Step]:
    """Yield the priorities from which on something may change: it comes before another, or others give way to it."""
    state, own = node.replica.state, node.spec.priority
    aging_s = node.scenario.settings.priority_aging_s
    since_s = {name: _since_s(node, name) for name in set(state.waiting.values())}
    points: set[int] = set()
    for name, at_s in since_s.items():
        other = state.app(name)
        if name != node.app_id and other is not None:
            ahead = other.priority + (since_s.get(node.app_id, at_s) - at_s) / aging_s
            # A role's share is worth half a point at most, and of equals the name decides.
            points |= {floor(ahead - 0.5), floor(ahead - 0.5) + 1, floor(ahead + 0.5), floor(ahead + 0.5) + 1}
    points |= {spec.priority + 1 for spec, _ in _running(node)}
    for after in sorted(points):
        if own < after <= MOST_POINTS:
            verb = _updated(node, node.app_id, f"priority={after}")
            yield Step(
                "priority", f"{verb} has it come earlier ({own} now)", value=after, part=Fraction(after - own, 100)
            )


def _since_s(node: Node, app_id: str) -> float:
    """Return since when the one of an app's instances waits that has waited longest."""
    waiting = node.replica.state.waiting
    mine = (node.replica.state.instances[name].since_s for name, app in waiting.items() if app == app_id)
    return min(mine, default=node.replica.now_s)


def _quota(node: Node) -> Iterator[Step]:
    """Yield what the role is to have more so that no offer is cut short, and that and what the app asks for."""
    left = node.replica.headroom.get(node.role)
    if not left:
        return
    short = node.cut_short()
    if short:
        yield _raise(node, short)
    added = {name: amount * node.spec.gang_size for name, amount in node.asked.items() if name in left}
    yield _raise(node, {name: short.get(name, 0) + amount for name, amount in added.items()})


def _raise(node: Node, over: Mapping[str, int]) -> Step:
    limits = dict(node.scenario.limits.get(node.role, {}))
    for step in node.steps:
        limits |= step.amounts if step.kind == "quota" else {}
    return one.quota(str(node.role), limits, over, node.asked)


def _running(node: Node) -> Iterator[tuple[RunSpec, Instance]]:
    """Yield what of others has a task."""
    for instance in node.replica.state.instances.values():
        spec = node.replica.state.spec_of(instance)
        if instance.app_id != node.app_id and instance.task is not None and spec is not None and instance.active:
            yield spec, instance


def _preemptible(node: Node) -> Iterator[Step]:
    apps = {spec.id for spec, _ in _running(node) if run_of(spec.id) is None and not spec.is_pod}
    for app_id in sorted(apps):
        spec = node.replica.state.app(app_id)
        if spec is not None and not spec.document.get("preemptible") and spec.priority < node.spec.priority:
            text = f"{_updated(node, app_id, 'preemptible=true')} has it give way to what has more priority"
            yield Step("preemptible", text, app_id)


def _end(node: Node) -> Iterator[Step]:
    """Yield the end of each that runs, one of those that are alike: an instance, a whole gang, a run of a job."""
    units: dict[str, list[tuple[RunSpec, Instance]]] = {}
    for spec, instance in _running(node):
        assert instance.task is not None
        units.setdefault(instance.task.gang.id if instance.task.gang is not None else instance.id, []).append(
            (spec, instance)
        )
    seen = set()
    for members in units.values():
        spec, first = members[0]
        places = sorted(str(i.task.agent_id) for _, i in members if i.task is not None)
        alike = (spec.id, spec.version, tuple(places))
        if alike in seen or first.task is None:
            continue
        seen.add(alike)
        run = run_of(spec.id)
        hosts = ", ".join(_names(node, places))
        task_id = first.id if spec.is_pod else first.task.id
        if run is not None:
            text = f"`mesos-gpu job kill {run[0]} {run[1]}` ends it ({hosts})"
        else:
            what = "a gang" if len(members) > 1 else "one"
            text = f"`mesos-gpu task kill --scale {task_id}` ends {what} of {spec.id} on {hosts}"
        amounts = {name: (own + beside) * len(members) for name, own, beside in spec.scalars if own + beside}
        yield Step("end", text, task_id, amounts, part=one.part_of(amounts, node.asked), count=len(members))


def _names(node: Node, agent_ids: list[str]) -> list[str]:
    return [m.called for m in node.replica.machines.values() if str(m.id) in agent_ids]


def _scale(node: Node) -> Iterator[Step]:
    """Yield smaller numbers of instances of others: of those that run, and of those that wait."""
    state = node.replica.state
    apps = {spec.id for spec, _ in _running(node)} | set(state.waiting.values())
    for app_id in sorted(apps - {node.app_id}):
        spec = state.app(app_id)
        if spec is None or spec.is_pod or run_of(app_id) is not None:
            continue
        force = " --force" if state.deployments_of(app_id) else ""
        for after in range(spec.instances - spec.gang_size, -1, -spec.gang_size):
            count = spec.instances - after
            amounts = {name: (own + beside) * count for name, own, beside in spec.scalars if own + beside}
            text = f"`mesos-gpu app scale{force} {app_id} {after}` has {after} of it in place of {spec.instances}"
            yield Step("scale", text, app_id, part=one.part_of(amounts, node.asked), value=after, count=count)
