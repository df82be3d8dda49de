"""What agents do in a rehearsal that are asked to put a task's GPUs away, or to give it some again. Pure.

They do it at once, as agents with simulated GPUs do; what a driver refuses, and how long copying takes, is not known.
"""

from __future__ import annotations

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching import share_scheduling
from mesos_gpu.marathon.matching.gpu_shares import parts_of
from mesos_gpu.marathon.matching.machines import Machine
from mesos_gpu.marathon.model.instances import Instance, Task
from mesos_gpu.marathon.state.actions import Tell
from mesos_gpu.mesos.ids import Role
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.shares.gpu_shares import GPU_MEM, GPU_SLICES
from mesos_gpu.mesos.shares.suspending import NOT_RESUMED, NOT_SUSPENDED, RESUMED, SUSPEND, SUSPENDED, WORDS
from mesos_gpu.queueing.parts import Room

_GPUS = ("gpus", GPU_MEM, GPU_SLICES)


def answered(machine: Machine, tell: Tell, instance: Instance, spec: RunSpec, *, away: bool) -> tuple[Machine, str]:
    """Return an agent after it was told to put the GPUs of a task away, or to give it some, and what it says of that.

    `away`: whether they are put away already.
    """
    if away == (WORDS[tell.data] == SUSPEND):
        return machine, SUSPENDED if away else RESUMED
    assert instance.task is not None
    moved = gpus_among(machine.free if away else machine.used, instance, instance.task, spec)
    if moved is None:
        return machine, f"{NOT_RESUMED if away else NOT_SUSPENDED}others have what it had"
    return (machine.without(moved), RESUMED) if away else (machine.with_back(moved), SUSPENDED)


def only_gpus(resources: Resources) -> Resources:
    """Return what resources have of GPUs, whole and in parts."""
    return resources.filter(lambda resource: resource.name in _GPUS)


def parts_had(instance: Instance, task: Task, spec: RunSpec) -> Room:
    """Return GiB and slices of each shared card that the task of an app has, or has given back; pods are left out."""
    return {} if spec.is_pod or not task.cards else share_scheduling.sharer(instance, task, spec).parts


def gpus_among(resources: Resources, instance: Instance, task: Task, spec: RunSpec) -> Resources | None:
    """Return as many GPUs and parts of cards as a task is to have, out of resources; None where there are less.

    Which units of a card these are is all the same: others of it stand for those of a suspended task.
    """
    whole = resources.find("gpus", spec.gpus * 1000, (Role(instance.role), Role("*"))) if spec.gpus else Resources()
    parts = parts_had(instance, task, spec)
    units = parts_of(resources, parts)
    asked = sum(gib + slices for gib, slices in parts.values())
    return None if whole is None or _units(units) < asked else whole + units


def _units(resources: Resources) -> int:
    amounts = (resource.amount for resource in resources)
    return sum(last - first + 1 for ranges in amounts if isinstance(ranges, tuple) for first, last in ranges)
