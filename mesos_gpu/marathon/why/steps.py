"""The steps of a change, each with the command that does it. Pure.

Which of them help is searched in smallest.py, and for what waits in order in simulation/smallest_change.py.

`update` is the command that changes the app, as in `mesos-gpu app update /train`. What a pod requests is changed by an
editor: there is no command for one field of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.machines import Machine
from mesos_gpu.marathon.matching.matching import BEHAVIOUR_LABEL
from mesos_gpu.marathon.why.change import OWN, Step, amount_text, any_ports, without
from mesos_gpu.marathon.why.verdict import count_text


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
