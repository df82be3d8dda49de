"""Random clusters on which an app waits in order, what changes do to them, and every change that there is.

The clusters are the deciding cores of a master and a Marathon (mesos_gpu.replay); what is advised is done there, by the
requests that the advised commands send. Which changes there are, how large they are, and which cannot help stands here
a second time, written for the tests alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from msgspec.structs import replace

from mesos_gpu.marathon.engine.ids import ids_from
from mesos_gpu.marathon.matching.machines import headroom_of, limits_of, read_machine
from mesos_gpu.marathon.model.instances import Phase
from mesos_gpu.marathon.simulation.scenario import Scenario
from mesos_gpu.marathon.state import actions as marathon_actions
from mesos_gpu.marathon.state.events import Event, KillTasks, Moment, PutApps, StopRun
from mesos_gpu.marathon.state.state import State
from mesos_gpu.marathon.why.change import Step
from mesos_gpu.master.events import operators, schedulers
from mesos_gpu.master.events.timers import Tick
from mesos_gpu.master.views.views import roles_view, slaves_view
from mesos_gpu.mesos.ids import AgentId, FrameworkId, Role
from mesos_gpu.placement.demand import WHOLE, Demand, Machine
from mesos_gpu.replay.cluster import BEGIN_S, ReplayedCluster

ME, ROLE, OTHER_ROLE = "/train", "team", "web"
TOGETHER = [
    ["gpu_model", "CLUSTER"],
    ["gpu_model", "CLUSTER", "t4"],
    ["gpu_model", "UNLIKE", "a.*"],
    ["gpu_model", "MAX_PER", "1"],
]
"""Constraints that are about where the others of an app are, or may be."""
SEED = "ffffffff-0000-0000-0000-000000000000"
NAMES = ("cpus", "mem", "disk", "gpus")
BETWEEN_S = 20.0
"""So long it takes somebody to type the next command."""
WAIT_S = 90.0
"""So long the app is waited for after the last one."""


class Cluster(ReplayedCluster):
    """Apps run until they are ended."""

    def __init__(self, machines: dict[str, Machine]) -> None:
        super().__init__(machines, "capacity")
        rules = dataclasses.replace(self._settings.rules, mesos_role=Role(ROLE))
        self._settings = replace(self._settings, rules=rules)
        self._tell_master(self._with_roles([ROLE]))

    def ask(self, event: Event) -> None:
        self._tell_marathon(event)
        self._settle()

    def order(self, request: operators.OperatorRequest) -> None:
        self._tell_master(request)  # type: ignore[arg-type]
        self._settle()

    def until(self, at_s: float) -> None:
        """Let time pass; the master looks at refusals, and offers what is free, each second as it does."""
        while self.now_s < at_s:
            super().until(min(at_s, self.now_s + 1))
            self._tell_master(Tick())
            self._settle()

    def put(self, document: Mapping[str, Any]) -> None:
        deployment_id = f"D{next(self._numbers)}"
        self.ask(PutApps([document], deployment_id, force=True, partial=True))
        self.until(self.now_s + 8)

    def limit(self, role: str, limits: Mapping[str, int]) -> None:
        shown = {name: {"value": amount / 1000} for name, amount in limits.items()}
        self.order(operators.UpdateQuota({"force": True, "quota_configs": [{"role": role, "limits": shown}]}))

    def deactivate(self, name: str) -> None:
        self.order(operators.DeactivateAgent(self._agents[name]))

    @property
    def state(self) -> State:
        return self._marathon

    @property
    def stuck(self) -> bool:
        """Whether the app waits, in order, and whole (none of it runs, or is about to)."""
        waits = ME in self.state.waiting.values() and ME in self.state.places
        return waits and all(i.phase in (Phase.SCHEDULED, Phase.RUNNING) for i in self.state.instances_of(ME))

    def scenario(self) -> Scenario:
        slaves = slaves_view(self._master, None)["slaves"]
        roles = roles_view(self._master)["roles"]
        return Scenario(
            self._marathon,
            [read_machine(one) for one in slaves],
            self._settings,
            Moment(BEGIN_S + self.now_s, ids_from(SEED)),
            headroom_of(roles),
            limits_of(roles),
        )

    def started_by(self, steps: Sequence[Step]) -> bool:
        """Do what steps say, one after another; whether more of the app runs then."""
        before = units(self.state)
        for number, step in enumerate(steps):
            self._do(step, number)
            self.until(self.now_s + BETWEEN_S)
        until_s = self.now_s + WAIT_S
        while units(self.state) <= before and self.now_s < until_s:
            self.until(self.now_s + 5)
        return units(self.state) > before

    def _do(self, step: Step, number: int) -> None:
        events = list(asked_for(self.state, step))
        for event in events:
            self.ask(event)
        if step.kind == "quota":
            self.limit(step.target, {**self.scenario().limits[Role(step.target)], **step.amounts})
        elif step.kind == "reactivate":
            self.order(operators.ReactivateAgent(AgentId(step.target)))
        elif step.kind == "add":
            for at in range(step.value or 1):
                told = {n: f"{v}-{at}" if v == "new" else v for n, v in step.attributes.items()}
                cards = (WHOLE,) * (step.amounts.get("gpus", 0) // 1000)
                found = Machine(step.amounts["cpus"], step.amounts["mem"] // 1000, cards, told.get("gpu_model", ""))
                name = told.get("hostname", f"added-{number}-{at}")
                self._add(name, found, 100 + 10 * number + at)
            self._settle()
        else:
            assert events, step

    def _with_roles(self, roles: Sequence[str]) -> schedulers.Call:
        named = [{"type": name} for name in ("PARTITION_AWARE", "MULTI_ROLE", "TASK_KILLING_STATE", "GPU_RESOURCES")]
        framework_id = self._marathon.framework_id or FrameworkId("")
        info = {"user": "root", "name": "marathon", "roles": list(roles), "checkpoint": True, "capabilities": named}
        told = {"framework_info": {**info, "id": {"value": framework_id}}}
        return schedulers.UpdateFramework(framework_id, told)

    def _call(self, action: marathon_actions.Action) -> schedulers.Call | None:
        if isinstance(action, marathon_actions.UpdateRoles):
            return self._with_roles(action.roles)
        return super()._call(action)

    def _run(self, agent_id: Any, task_id: Any, task: Mapping[str, Any]) -> None:
        self._durations.setdefault(str(task["name"]).split(".", 1)[0], float("inf"))
        super()._run(agent_id, task_id, task)


def units(state: State) -> int:
    """How many instances of the app run, or gangs."""
    running = [i for i in state.instances_of(ME) if i.phase is Phase.RUNNING and i.task is not None]
    gangs = {i.task.gang.id for i in running if i.task is not None and i.task.gang is not None}
    return len(gangs) if gangs else len(running)


def asked_for(state: State, step: Step) -> Iterator[Event]:
    """Yield what the command sends to Marathon that a step names; nothing for one that is the master's."""
    spec = state.app(ME)
    assert spec is not None
    mine = dict(spec.document)
    size = spec.gang_size
    fields: dict[str, Any] = {}
    if step.kind == "lower":
        fields = {step.target: step.amounts[step.target] / 1000}
        fields = {name: int(amount) if name == "gpus" else amount for name, amount in fields.items()}
    elif step.kind == "size":
        fields = {"gang": {**mine["gang"], "size": step.value}, "instances": mine["instances"] // size * step.value}
    elif step.kind == "together":
        fields = {"gang": {**mine["gang"], "onePerHost": False}}
    elif step.kind == "drop":
        fields = {"constraints": [c for c in mine["constraints"] if " ".join(c) != step.target]}
    elif step.kind in ("priority", "runtime"):
        fields = {{"priority": "priority", "runtime": "maxRuntimeSeconds"}[step.kind]: step.value}
    if fields:
        yield PutApps([{"id": ME, **fields}], f"D{step.kind}{step.target}", force=True)
    elif step.kind == "preemptible":
        yield PutApps([{"id": step.target, "preemptible": True}], f"D{step.target}", force=True)
    elif step.kind == "scale":
        yield PutApps([{"id": step.target, "instances": step.value}], f"D{step.target}", force=True)
    elif step.kind == "end":
        owner = next(i for i in state.instances.values() if i.task is not None and i.task.id == step.target)
        job_id, _, run_id = owner.app_id[1:].partition("/")
        if job_id in state.jobs:
            yield StopRun(job_id, run_id)
        else:
            yield KillTasks([step.target], f"D{step.target}", scale=True, force=True)


class _Never(Random):
    def random(self) -> float:
        return 1.0


def stuck_cluster(seed: int, *, plain: bool = False) -> Cluster:
    """Return a cluster on which the app waits in order, and does not start; a `plain` one has one role alone."""
    random, more = Random(seed), _Never() if plain else Random(~seed)
    while True:
        found = _cluster(random, more)
        if found is not None:
            return found


def _cluster(random: Random, more: Random) -> Cluster | None:
    machines = {
        f"m{number}": Machine(
            random.randint(3, 8) * 1000,
            random.randint(2, 8) * 1024,
            (WHOLE,) * random.choice([0, 1, 2, 2, 4]),
            random.choice(["a100", "t4"]),
        )
        for number in range(random.choice([2, 2, 3, 3, 4]))
    }
    found = Cluster(machines)
    limited = random.random() < 0.25
    if more.random() < 0.1:
        found.limit(OTHER_ROLE, {"gpus": more.randint(0, 4) * 1000})
    if limited:
        amounts = {"gpus": random.randint(1, 6) * 1000, "cpus": random.randint(2, 12) * 500}
        found.limit(ROLE, {name: amounts[name] for name in random.sample(sorted(amounts), random.randint(1, 2))})
    for number in range(random.randint(1, 3)):
        if random.random() < 0.2:
            found.start(str(number), Demand(random.randint(1, 3) * 1000, 512, random.randint(0, 2)), float("inf"))
            found.until(found.now_s + 8)
        else:
            found.put({**_app(random, f"/other{number}"), **(_in_another_role(number) if more.random() < 0.2 else {})})
    if random.random() < 0.2:
        found.deactivate(random.choice(sorted(machines)))
    constraints = _constraints(random)
    if more.random() < 0.15:
        constraints = [more.choice(TOGETHER)]
    found.put({**_app(random, ME), "constraints": constraints})
    found.until(found.now_s + 20)
    # What has only given way, or is held back for a moment, would start a moment later.
    return found if found.stuck else None


def _in_another_role(number: int) -> dict[str, str]:
    return {"id": f"/{OTHER_ROLE}/other{number}", "role": OTHER_ROLE}


def _app(random: Random, app_id: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": app_id,
        "cmd": "sleep 1000",
        "cpus": random.randint(1, 6) / 2,
        "mem": random.choice([128, 512, 1024]),
        "gpus": random.choice([0, 1, 1, 2, 4]),
        "instances": random.randint(1, 2),
        "portDefinitions": [],
        "role": ROLE,
    }
    if random.random() < 0.5:
        size = random.randint(2, 3)
        found["gang"] = {"size": size, "onePerHost": random.random() < 0.7}
        found["instances"] = size * random.choice([1, 1, 2])
    if random.random() < 0.4:
        found["priority"] = random.randint(-2, 3)
    if app_id != ME and random.random() < 0.4:
        found["preemptible"] = True
    if random.random() < 0.5:
        found["maxRuntimeSeconds"] = random.randint(5, 120) * 60
    return found


def _constraints(random: Random) -> list[list[str]]:
    some = [
        ["gpu_model", "IS", "a100"],
        ["gpu_model", "UNIQUE"],
        ["hostname", "LIKE", "m[01]"],
        ["hostname", "UNIQUE"],
    ]
    return random.sample(some, random.choice([0, 0, 0, 1]))
