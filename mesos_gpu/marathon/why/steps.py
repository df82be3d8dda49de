"""The steps of a change: the command of each, and what it does to an app. Pure.

Which of them help is searched in smallest.py, and for what waits in order in simulation/smallest_change.py.

`update` is the command that changes the app, as in `mesos-gpu app update /train`. What a pod requests is changed by an
editor: there is no command for one field of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.machines import Machine
from mesos_gpu.marathon.matching.matching import BEHAVIOUR_LABEL
from mesos_gpu.marathon.why.change import Step, amount_text
from mesos_gpu.marathon.why.verdict import count_text
from mesos_gpu.mesos.ids import AgentId
from mesos_gpu.mesos.resources import Resources

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


def reactivate(machine: Machine) -> Step:
    """Let a machine have tasks again."""
    return Step("reactivate", f"`mesos-gpu agent reactivate {machine.called}` lets tasks onto it", machine.id)


def label(update: str) -> Step:
    """Let an app without GPUs onto machines that have some."""
    text = f"`{update} labels.{BEHAVIOUR_LABEL}=unrestricted` lets it onto machines with GPUs"
    return Step("label", text, BEHAVIOUR_LABEL)


def roles(update: str, spec: RunSpec, accepted: Sequence[str]) -> Step:
    """Accept the roles whose resources a machine offers."""
    words = json.dumps(accepted)
    if spec.is_pod:
        text = f"set scheduling.placement.acceptedResourceRoles of {spec.id} to {words}"
    else:
        text = f"`{update} 'acceptedResourceRoles={words}'` accepts what the machines offer"
    return Step("roles", text, ",".join(accepted))


def ports(update: str, spec: RunSpec) -> Step:
    """Take any host ports in place of those that are named."""
    if spec.is_pod:
        return Step("ports", f"remove the hostPort of the endpoints of {spec.id}: it takes any port then")
    if "requirePorts" in any_ports(spec.document):
        words = "requirePorts=false"
    else:
        mappings = spec.document["container"]["portMappings"]
        fixed = [at for at, mapping in enumerate(mappings) if mapping.get("hostPort")]
        words = " ".join(f"container.portMappings[{at}].hostPort=0" for at in fixed)
    return Step("ports", f"`{update} {words}` takes any host ports")


def drop(update: str, spec: RunSpec, words: str) -> Step:
    """Give up a constraint."""
    if spec.is_pod:
        return Step("drop", f"drop the constraint {words} of {spec.id}", words)
    left = json.dumps(without(spec.document["constraints"], words))
    return Step("drop", f"`{update} 'constraints={left}'` drops {words}", words)


def lower(update: str, spec: RunSpec, name: str, after: int) -> Step:
    """Request less of a scalar: `after` thousandths with the executor's part."""
    wanted = spec.asked[name]
    beside = next(beside for scalar, _, beside in spec.scalars if scalar == name)
    less = f"{count_text(after, name)} instead of {wanted / 1000:g}"
    if spec.is_pod:
        text = f"ask for {less} in all in {spec.id}"
    else:
        text = f"`{update} {amount_text(name, after - beside)}` asks for {less}"
        text += " for each member" if spec.gang_size > 1 else ""
    return Step("lower", text, name, {name: after}, part=Fraction(wanted - after, wanted))


def quota(role: str, limits: Mapping[str, int], over: Mapping[str, int], asked: Mapping[str, int]) -> Step:
    """Let a role have `over` more than `limits`."""
    after = {name: limits.get(name, 0) + amount for name, amount in over.items()}
    words = " ".join(f"--{amount_text(name, limit)}".replace("=", " ") for name, limit in after.items())
    more = ", ".join(count_text(amount, name) for name, amount in over.items())
    text = f"`mesos-gpu quota set {role} {words}` lets the role have {more} more"
    return Step("quota", text, role, after, part=part_of(over, asked))


def add(
    amounts: Mapping[str, int],
    attributes: Mapping[str, str],
    asked: Mapping[str, int],
    *,
    machines: int = 1,
    members: int = 1,
) -> Step:
    """Add machines with `amounts` each, which have room for `members` in all."""
    what = ", ".join(count_text(amount, name) for name, amount in amounts.items())
    shown = ", ".join(f"{name} {'of its own' if value == OWN else value}" for name, value in attributes.items())
    text = f"add {'a machine' if machines == 1 else f'{machines} machines, each'} with {what or 'anything'}"
    text += f" and {shown}" if shown else ""
    part = machines * part_of(amounts, asked)
    return Step("add", text, "", dict(amounts), attributes, part, machines, members)


def part_of(amounts: Mapping[str, int], asked: Mapping[str, int]) -> Fraction:
    """Return how much amounts are in parts of what one instance requests, added up."""
    return sum((Fraction(amounts.get(name, 0), wanted) for name, wanted in asked.items()), Fraction(0))
