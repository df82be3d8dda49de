"""Which units of device plugins an agent may offer: those that nobody holds who no longer pays for them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from mesos_gpu.agent.decisions.state import AgentState
from mesos_gpu.agent.model.device_units import stale_units, with_units
from mesos_gpu.agent.model.tasks import Phase
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.resources import Resources


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
