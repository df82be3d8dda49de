"""Apps, offers and tasks in the words of the queue: who asks for what, where it may go, and until when others run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.constraints import Place, value_at
from mesos_gpu.marathon.matching.reasons import Reason
from mesos_gpu.marathon.model.instances import Instance, Task
from mesos_gpu.marathon.model.jobs import run_of
from mesos_gpu.placement.demand import Demand
from mesos_gpu.queueing.places import room
from mesos_gpu.queueing.values import Ask, Free, Running

RUN_LABEL = "MESOS_GPU_RUN"
"""What `mesos-gpu run` labels its apps with: their command runs once."""
GRACE_S = 3
"""How long Mesos waits between TERM and KILL where an app does not say (taskKillGracePeriodSeconds)."""
PASSES = frozenset({Reason.INSUFFICIENT_CPUS, Reason.INSUFFICIENT_MEMORY, Reason.INSUFFICIENT_GPUS})
"""Reasons against an offer that the end of a task may lift."""


def grace_s(spec: RunSpec) -> int:
    """Return how long a task may take to end."""
    return int(spec.document.get("taskKillGracePeriodSeconds", GRACE_S))


def lasting_s(spec: RunSpec) -> float | None:
    """Return for how long a task of it occupies a place at most; None where nothing says so."""
    return None if spec.max_run_s is None else float(spec.max_run_s + grace_s(spec))


def stays(spec: RunSpec) -> bool:
    """Return whether its tasks run until somebody stops them: those of an app, that is no run of a job or command."""
    return spec.max_run_s is None and run_of(spec.id) is None and RUN_LABEL not in spec.document["labels"]


def ask(spec: RunSpec, waiting: int, rank: float, demand: Demand, machines: frozenset[str]) -> Ask:
    """Return what an app asks for of which so many instances wait; those that make no whole gang are left out."""
    size = spec.gang_size
    return Ask(
        id=spec.id,
        rank=rank,
        demand=demand,
        size=size,
        units=waiting // size,
        one_per_host="gang" in spec.document and bool(spec.document["gang"]["onePerHost"]),
        priority=spec.priority,
        max_run_s=lasting_s(spec),
        stays=stays(spec),
        machines=machines,
    )


def running(
    instance: Instance, task: Task, spec: RunSpec, machine: str, demand: Demand, *, now_s: float, ending: bool
) -> Running:
    """Return a task as the queue sees it. `ending`: its end has been asked for."""
    began_s = task.started_at_s or task.staged_at_s
    limit_s = lasting_s(spec)
    ends_s = None if stays(spec) else inf if limit_s is None else max(now_s, began_s + limit_s)
    return Running(
        unit=task.gang.id if task.gang is not None else instance.id,
        machine=machine,
        demand=demand,
        ends_s=now_s if ending else ends_s,
        since_s=began_s,
        priority=spec.priority,
        preemptible=bool(spec.document.get("preemptible")),
        ending=ending,
    )


def role_shares(held: Iterable[tuple[str, Demand]]) -> dict[str, float]:
    """Return which part each role has of what runs: of GPUs, or of CPUs where no GPUs are held."""
    gpus: dict[str, int] = {}
    cpus: dict[str, int] = {}
    for role, demand in held:
        gpus[role] = gpus.get(role, 0) + demand.gpus
        cpus[role] = cpus.get(role, 0) + demand.cpus_milli
    amounts = gpus if any(gpus.values()) else cpus
    total = sum(amounts.values())
    return {role: amount / total for role, amount in amounts.items()} if total else {}


def clusters(spec: RunSpec) -> list[str]:
    """Return the fields by which a gang is to be together, wherever that is (CLUSTER without a value)."""
    return [
        c[0] for c in spec.document["constraints"] if c[1].upper() == "CLUSTER" and len(c) < 3 and spec.gang_size > 1
    ]


def one_cluster(spec: RunSpec, asked: Ask, stages: Iterable[Free], places: Mapping[str, Place]) -> frozenset[str]:
    """Return the machines of one value of the first of those fields; there must be one.

    `stages` is what is free now, and later. The value is the one that has room for all the earliest, else most room in
    the end.
    """
    field = clusters(spec)[0]
    values = {name: value for name, place in places.items() if (value := value_at(field, place)) is not None}
    best = None
    for free in stages:
        counts: dict[str, int] = {}
        for name, count in room(asked, free).items():
            if name in values:
                counts[values[name]] = counts.get(values[name], 0) + count
        best = max(counts, key=counts.__getitem__, default=best)
        if best is not None and counts.get(best, 0) >= asked.size:
            break
    return frozenset(name for name, value in values.items() if value == best and asked.may_use(name))
