"""Which units of device plugins and of shared GPUs an agent may offer: not what is held and not paid for. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from mesos_gpu.agent.decisions.state import AgentState
from mesos_gpu.agent.model.device_units import stale_units, with_units
from mesos_gpu.agent.model.tasks import Phase
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.shares.gpu_shares import CardPart, Share, parts


def with_offered(
    total: Resources,
    units: Mapping[str, int],
    held: Mapping[ContainerId, Mapping[str, Iterable[str]]],
    state: AgentState,
    kept: Resources,
) -> Resources:
    """Return an agent's total with the units of plugins (`units`) that may be offered beside it.

    What a container still `held` after its task ended, for its executor runs on, is left out: the master counts it as
    free already. `kept` is what the master reserved here.
    """
    left, gpus_from = Counter(units), state.identity.gpus_from
    tasks, executors = state.frameworks.tasks(), state.frameworks.executors()
    for container, devices in held.items():
        infos: list[Mapping[str, Any]] = [
            task.info for task in tasks if task.container_id == container and task.phase is not Phase.OVER
        ]
        infos += [executor.info for executor in executors if executor.container_id == container]
        left.subtract(stale_units(devices, infos, gpus_from))
    return with_units(total, {name: count for name, count in left.items() if count > 0}, kept, gpus_from)


def lingering_parts(state: AgentState, shares: Mapping[ContainerId, Share]) -> list[CardPart]:
    """Return what containers have of shared cards for tasks that have ended, as others of the same executor run on.

    A container's part is not changed while it runs, and the master counts an ended task's as free. An executor all of
    whose tasks have ended is about to end itself: for that moment alone an agent does not become smaller.
    """
    found: list[CardPart] = []
    for framework in state.frameworks.active.values():
        for executor in framework.executors.values():
            share = shares.get(executor.container_id)
            tasks = [task for task in framework.hosted_by(executor) if task.phase is not Phase.OVER]
            if share is None or share.booked or executor.over or not tasks:
                continue
            infos: list[Mapping[str, Any]] = [executor.info, *(task.info for task in tasks)]
            paid = sum((Resources.from_json(info.get("resources", [])) for info in infos), Resources())
            left = {part.card: part for part in parts(paid)}
            for part in share.parts:
                mine = left.get(part.card, CardPart(part.card, 0, 0))
                found.append(CardPart(part.card, part.mem_units - mine.mem_units, part.weight - mine.weight))
    return found
