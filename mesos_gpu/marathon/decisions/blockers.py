"""Deployments that cannot go on by themselves because the GPUs they wait for are held by what they replace.

A rolling upgrade that starts new instances before it ends old ones needs room for both. On a cluster whose GPUs are
all in use there is none, and Marathon waits forever without a word. This finds such deployments; nothing is changed.
"""

from __future__ import annotations

from typing import Any

from mesos_gpu.marathon.decisions import lifecycle
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.constraints import all_fulfilled
from mesos_gpu.marathon.matching.reasons import Reason
from mesos_gpu.marathon.model.deployment import Deployment, Work
from mesos_gpu.marathon.model.instances import COMING_UP, Instance, Phase
from mesos_gpu.marathon.state.state import State

_OUT_OF_QUESTION = frozenset({Reason.INSUFFICIENT_GPUS, Reason.UNFULFILLED_CONSTRAINT})
"""Why an agent is none that could take a new instance as things are, whatever else it has."""


def blockers(state: State, deployment: Deployment) -> list[dict[str, Any]]:
    """Return what keeps a deployment from ever ending, one entry for each app that waits for its own GPUs."""
    if deployment.finished:
        return []
    found = []
    for work, app_id in deployment.steps[deployment.current].actions:
        spec = state.app(app_id)
        if work is Work.RESTART and spec is not None and spec.gpus > 0:
            entry = _blocked(state, spec)
            found += [entry] if entry is not None else []
    return found


def _blocked(state: State, spec: RunSpec) -> dict[str, Any] | None:
    instances = state.instances_of(spec.id)
    waiting = [i for i in instances if i.wanted and i.phase is Phase.SCHEDULED]
    old = [i for i in instances if i.wanted and i.active and lifecycle.outdated(i, spec)]
    # As long as something comes up or ends, the next move is still to come.
    moving = any(i.phase in COMING_UP or (i.active and not i.wanted) or _ending(state, i) for i in instances)
    if not waiting or not old or moving or not _no_gpus_anywhere(state, spec):
        return None
    if not _would_do(state, spec, instances, old):
        return None
    held = sum(gpus_of(state, i) for i in old)
    # Rounded down, so that one may always be missing.
    health = (spec.instances - 1) * 1000 // spec.instances / 1000
    message = (
        f"New instances of {spec.id} wait: {len(waiting)}, for {_gpus(spec.gpus)} each. No agent that suits has them "
        f"free. Old instances, which are ended only once new ones run: {len(old)}, and they hold {_gpus(held)}."
    )
    return {
        "pod" if spec.is_pod else "app": spec.id,
        "reason": Reason.INSUFFICIENT_GPUS.value,
        "waitingInstances": len(waiting),
        "gpusPerInstance": spec.gpus,
        "gpusHeldByOldInstances": held,
        "message": message,
        "suggestion": {"upgradeStrategy": {"minimumHealthCapacity": health, "maximumOverCapacity": 0}},
    }


def _gpus(number: int) -> str:
    return "1 GPU" if number == 1 else f"{number} GPUs"


def gpus_of(state: State, instance: Instance) -> int:
    """Return the GPUs that the task of an instance holds, by the version of its app that it runs."""
    spec = state.spec_of(instance)
    return spec.gpus if spec is not None else 0


def _ending(state: State, instance: Instance) -> bool:
    return instance.task is not None and instance.task.id in state.kills


def _would_do(state: State, spec: RunSpec, instances: list[Instance], old: list[Instance]) -> bool:
    """Return whether a new instance may go where an old one is: else its GPUs are not what is missing."""
    new = [i for i in instances if i.wanted and i.active and not lifecycle.outdated(i, spec)]
    constraints = spec.document["constraints"]
    return any(
        i.task is not None and all_fulfilled(constraints, i.task, new, spec.instances, state.region) for i in old
    )


def _no_gpus_anywhere(state: State, spec: RunSpec) -> bool:
    """Return whether no agent's last offer had enough GPUs where the app may go. Full agents make no offer at all.

    What constraints refuse stays so as long as nothing moves: attributes are fixed, and so are the instances counted.
    """
    entry = state.queue.get(spec.id)
    last = entry.last_offers.values() if entry is not None else ()
    return all(_OUT_OF_QUESTION & set(unused.reasons) for unused in last)
