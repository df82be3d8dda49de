"""Random clusters on which an app waits, what changes do to them, and whether it would start: twice, by Marathon's
matching, and by plain arithmetic written for the tests alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations, product
from random import Random
from types import SimpleNamespace
from typing import Any

from mesos_gpu.marathon.definitions.app import AppRules, read_app
from mesos_gpu.marathon.definitions.runspec import versioned
from mesos_gpu.marathon.matching import machines
from mesos_gpu.marathon.matching.matching import GpuBehaviour, Match, Rules, match
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.why.change import Change, Held
from mesos_gpu.marathon.why.request import request_of
from mesos_gpu.marathon.why.smallest import Surroundings
from mesos_gpu.marathon.why.steps import NEW
from mesos_gpu.marathon.why.verdict import task_at
from tests.support.marathon.builders import T0, V0

NAMES = ("cpus", "mem", "gpus")
ME, ROLE = "/train", "ml"
STEP = {"cpus": 500, "mem": 512_000, "gpus": 1000}
"""All amounts are multiples of these thousandths."""
Amounts = dict[str, int]


@dataclass(frozen=True)
class Machine:
    name: str
    total: Amounts
    tasks: tuple[Held, ...] = ()
    attributes: dict[str, str] = field(default_factory=dict)
    state: str = "active"

    def free(self, name: str) -> int:
        return self.total.get(name, 0) - sum(task.amounts.get(name, 0) for task in self.tasks)


@dataclass(frozen=True)
class Stuck:
    """An app, machines with tasks, and what its role may have."""

    app: dict[str, Any]
    machines: tuple[Machine, ...]
    limits: Amounts
    restricted: bool

    @property
    def asked(self) -> Amounts:
        return {name: round(self.app[name] * 1000) for name in NAMES if self.app[name]}

    @property
    def consumed(self) -> Amounts:
        mine = [task for machine in self.machines for task in machine.tasks if task.role == ROLE]
        return {name: sum(task.amounts.get(name, 0) for task in mine) for name in self.limits}

    @property
    def placed(self) -> list[Any]:
        """Its instances, as constraints count them."""
        by_name = {machine.name: machine for machine in self.machines}
        hosts = [machine.name for machine in self.machines for task in machine.tasks if task.owner == ME]
        return [task_at(_agent(by_name[host]), host, float(at)) for at, host in enumerate(hosts)]

    @property
    def behaviour(self) -> GpuBehaviour:
        return GpuBehaviour.RESTRICTED if self.restricted else GpuBehaviour.UNRESTRICTED

    def surroundings(self) -> tuple[Any, Surroundings]:
        around = Surroundings(
            agents=[_agent(machine) for machine in self.machines],
            placed=self.placed,
            held={f"A-{machine.name}": machine.tasks for machine in self.machines},
            limits=self.limits,
            consumed=self.consumed,
            rules=Rules(self.behaviour),
        )
        return request_of(self.app), around

    def with_change(self, change: Change) -> Stuck:
        """Do what a change says."""
        it = self
        for step in change.steps:
            app = dict(it.app)
            if step.kind == "reactivate":
                it = replace(
                    it,
                    machines=tuple(
                        replace(m, state="active") if f"A-{m.name}" == step.target else m for m in it.machines
                    ),
                )
            elif step.kind == "label":
                app["labels"] = {step.target: "unrestricted"}
            elif step.kind == "lower":
                app[step.target] = step.amounts[step.target] / 1000
            elif step.kind == "quota":
                it = replace(it, limits={**it.limits, **step.amounts})
            elif step.kind == "drop":
                app["constraints"] = [c for c in app["constraints"] if " ".join(c) != step.target]
            elif step.kind == "end":
                it = replace(
                    it,
                    machines=tuple(
                        replace(m, tasks=tuple(t for t in m.tasks if t.id != step.target)) for m in it.machines
                    ),
                )
            else:
                told = dict(step.attributes)
                new = Machine(told.pop("hostname", NEW), dict(step.amounts), attributes=told)
                it = replace(it, machines=(*it.machines, new))
            it = replace(it, app=app)
        return it

    def starts(self) -> bool:
        """Whether Marathon's matching takes an offer of one of the machines, and the quota lets the master make it."""
        for name, limit in self.limits.items():
            if name in self.asked and self.consumed[name] + self.asked[name] > limit:
                return False
        spec = versioned(read_app(self.app, AppRules(mesos_role=ROLE)), V0, None)
        placed: Any = [SimpleNamespace(task=task) for task in self.placed]
        for machine in self.machines:
            if machine.state == "active":
                offer = Offer.from_json(_offer(machine))
                if isinstance(match(spec, offer, offer.resources, placed, behaviour=self.behaviour, now_s=T0), Match):
                    return True
        return False


def _agent(machine: Machine) -> machines.Machine:
    used = {name: (machine.total.get(name, 0) - machine.free(name)) / 1000 for name in NAMES}
    return machines.read_machine(
        {
            "id": f"A-{machine.name}",
            "hostname": machine.name,
            "pid": f"slave(1)@{machine.name}:5051",
            "resources": {name: machine.total.get(name, 0) / 1000 for name in NAMES},
            "used_resources": used,
            "attributes": machine.attributes,
            "deactivated": machine.state != "active",
        }
    )


def _offer(machine: Machine) -> Any:
    resources = [
        {
            "name": n,
            "type": "SCALAR",
            "scalar": {"value": machine.free(n) / 1000},
            "role": "*",
            "allocation_info": {"role": ROLE},
        }
        for n in NAMES
        if machine.free(n) > 0
    ]
    return {
        "id": {"value": "O"},
        "framework_id": {"value": "F"},
        "agent_id": {"value": f"A-{machine.name}"},
        "hostname": machine.name,
        "allocation_info": {"role": ROLE},
        "resources": resources,
        "attributes": [{"name": n, "type": "TEXT", "text": {"value": v}} for n, v in machine.attributes.items()],
    }


def stuck_cluster(seed: int) -> Stuck:
    """Return a cluster on which the app does not start."""
    random = Random(seed)
    while True:
        found = _cluster(random)
        if not found.starts():
            return found


def _cluster(random: Random) -> Stuck:
    machines = []
    for number in range(random.randint(1, 3)):
        total = {
            "cpus": random.randint(2, 8) * 1000,
            "mem": random.randint(2, 8) * 1_024_000,
            "gpus": random.choice([0, 1, 2, 4]) * 1000,
        }
        attributes = {"rack": random.choice(["r1", "r2"])} if random.random() < 0.8 else {}
        machine = Machine(f"m{number}", total, (), attributes, "deactivated" if random.random() < 0.15 else "active")
        for task in range(random.randint(0, 4)):
            amounts = {name: random.randint(0, max(0, machine.free(name)) // STEP[name]) * STEP[name] for name in NAMES}
            if amounts["cpus"]:
                owner = random.choice([ME, "/web", "/data", "framework other"])
                role = {ME: ROLE, "/web": ROLE}.get(owner, "*")
                held = Held(f"{owner}.{number}.{task}", owner, amounts, role, owner.startswith("/"))
                machine = replace(machine, tasks=(*machine.tasks, held))
        machines.append(machine)
    constraints = random.sample(
        [
            ["rack", "IS", "r1"],
            ["rack", "UNIQUE"],
            ["hostname", "UNIQUE"],
            ["rack", "LIKE", "r2|r3"],
            ["hostname", "LIKE", "m[01]"],
            ["rack", "CLUSTER"],
            ["rack", "MAX_PER", "1"],
            ["zoo", "IS", "x"],
            ["rack", "GROUP_BY", "2"],
            ["hostname", "IS", "m9"],
        ],
        random.choice([0, 0, 0, 1, 2]),
    )
    app = {
        "id": ME,
        "cmd": "sleep 1000",
        "cpus": random.randint(1, 12) / 2,
        "mem": random.randint(1, 10) * 512,
        "gpus": random.choice([0, 1, 1, 2, 4]),
        "disk": 0,
        "instances": 4,
        "role": ROLE,
        "constraints": constraints,
        "labels": {},
        "portDefinitions": [],
    }
    limits = {
        name: random.randint(0, 8) * (1000 if name != "mem" else 1_024_000) for name in NAMES if random.random() < 0.25
    }
    return Stuck(app, tuple(machines), limits, random.random() < 0.3)


def smaller_change(it: Stuck, than: Change) -> tuple[Any, ...] | None:
    """Try every change that measures less; return one after which the app would start, None where there is none.

    Nothing here is shared with what is tested: steps are tokens, and whether it starts is reckoned anew.
    """
    tokens = _tokens(it)
    measure = than.measure
    if measure[0]:
        # Steps only make room: if all of them together do not do without a machine, no choice of them does.
        everything = [_strongest(it, token) for token in tokens]
        if _plainly_starts(it, everything, None):
            return tuple(everything)
        places = list(_new_places(it))
    else:
        places = [None]
    for count in range(measure[1] - measure[0] + 1):
        for chosen in combinations(tokens, count):
            for place in places:
                if not _plainly_starts(it, [_strongest(it, token) for token in chosen], place):
                    continue
                for steps in product(*(_versions(it, token) for token in chosen)):
                    if _plainly_starts(it, steps, place) and _measure(it, steps, place) < measure:
                        return (*steps, place)
    return None


def _tokens(it: Stuck) -> list[tuple[Any, ...]]:
    tokens: list[tuple[Any, ...]] = [("reactivate", m.name) for m in it.machines if m.state != "active"]
    tokens += [("label",)] if it.restricted and not it.app["gpus"] else []
    tokens += [("lower", name) for name in it.asked]
    tokens += [("quota",)] if it.limits else []
    tokens += [("drop", at) for at in range(len(it.app["constraints"]))]
    tokens += [("end", task.id) for m in it.machines for task in m.tasks if task.owner != ME]
    return tokens


def _versions(it: Stuck, token: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if token[0] != "lower":
        yield token
        return
    name = token[1]
    asked = it.asked[name]
    for amount in range(asked - STEP[name], 0, -STEP[name]):
        if 2 * amount >= asked:
            yield (*token, amount)


def _strongest(it: Stuck, token: tuple[Any, ...]) -> tuple[Any, ...]:
    return list(_versions(it, token))[-1] if list(_versions(it, token)) else ("nothing",)


def _new_places(it: Stuck) -> Iterator[tuple[str, dict[str, str]]]:
    fields = sorted({c[0] for c in it.app["constraints"]} - {"hostname"})
    for host in ("fresh", "m9"):
        for values in product(["r1", "r2", "r3", "x", "fresh"], repeat=len(fields)):
            yield host, dict(zip(fields, values, strict=True))


def _measure(it: Stuck, steps: Sequence[tuple[Any, ...]], place: Any) -> tuple[Any, ...]:
    asked = {**it.asked}
    after = {**asked, **{step[1]: step[2] for step in steps if step[0] == "lower"}}
    ended = [_task(it, step[1]) for step in steps if step[0] == "end"]
    part = sum((Fraction(asked[n] - after[n], asked[n]) for n in asked), Fraction(0))
    part += sum((Fraction(task.amounts.get(n, 0), asked[n]) for task in ended for n in asked), Fraction(0))
    if ("quota",) in steps:
        for name, limit in it.limits.items():
            used = it.consumed[name] - sum(task.amounts.get(name, 0) for task in ended if task.role == ROLE)
            if name in after and used + after[name] > limit:
                part += Fraction(used + after[name] - limit, asked[name])
    if place is not None:
        part += sum((Fraction(after[n], asked[n]) for n in asked), Fraction(0))
    dropped = sum(step[0] == "drop" for step in steps)
    return int(place is not None), len(steps) + (place is not None), len(ended), dropped, part


def _task(it: Stuck, task_id: str) -> Held:
    return next(task for machine in it.machines for task in machine.tasks if task.id == task_id)


def _plainly_starts(it: Stuck, steps: Sequence[tuple[Any, ...]], place: Any) -> bool:
    done = {step[:2] for step in steps}
    ended = {step[1] for step in steps if step[0] == "end"}
    after = {**it.asked, **{step[1]: step[2] for step in steps if step[0] == "lower"}}
    if ("quota",) not in done:
        for name, limit in it.limits.items():
            back = sum(_task(it, one).amounts.get(name, 0) for one in ended if _task(it, one).role == ROLE)
            if name in after and it.consumed[name] - back + after[name] > limit:
                return False
    constraints = [c for at, c in enumerate(it.app["constraints"]) if ("drop", at) not in done]
    lone = it.restricted and not it.app["gpus"] and ("label",) not in done
    if place is not None:
        return _allows(it, constraints, place[0], place[1])
    for machine in it.machines:
        if machine.state != "active" and ("reactivate", machine.name) not in done:
            continue
        free = {
            name: machine.total[name] - sum(t.amounts.get(name, 0) for t in machine.tasks if t.id not in ended)
            for name in NAMES
        }
        enough = all(free[name] >= amount for name, amount in after.items()) and not (lone and free["gpus"])
        if enough and _allows(it, constraints, machine.name, machine.attributes):
            return True
    return False


def _allows(it: Stuck, constraints: Sequence[Sequence[str]], host: str, attributes: dict[str, str]) -> bool:
    instances = [(m.name, m.attributes) for m in it.machines for task in m.tasks if task.owner == ME]
    for name, operator, *rest in constraints:
        here = host if name == "hostname" else attributes.get(name)
        there = [who if name == "hostname" else told.get(name) for who, told in instances]
        counts = Counter(value for value in there if value is not None)
        first = next((value for value in there if value is not None), None)
        if here is None:
            return False
        if operator == "IS":
            good = here == rest[0]
        elif operator == "LIKE":
            good = here in {"r2|r3": ("r2", "r3"), "m[01]": ("m0", "m1")}[rest[0]]
        elif operator == "UNIQUE":
            good = not counts[here]
        elif operator == "MAX_PER":
            good = counts[here] < int(rest[0])
        elif operator == "CLUSTER":
            good = first is None or here == first
        else:  # GROUP_BY 2, of four instances: two in each of two groups
            good = counts[here] < 2 if counts[here] else len(counts) < 2
        if not good:
            return False
    return True
