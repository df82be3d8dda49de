"""What an agent has the master offer: what flags say, less what is ill or lent, more where tasks are suspended."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from mesos_gpu.agent.decisions.offered_units import with_offered
from mesos_gpu.agent.decisions.state import AgentState
from mesos_gpu.agent.gpus.care import AgentGpus
from mesos_gpu.agent.gpus.suspender import Suspender
from mesos_gpu.agent.model.executors import Executor
from mesos_gpu.agent.model.resources import with_gpus, with_more_gpus
from mesos_gpu.agent.model.tasks import Phase, Task
from mesos_gpu.agent.running.containers import Devices
from mesos_gpu.agent.views.state_json import had_by, used_by
from mesos_gpu.mesos.ids import ContainerId
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.shares.displaced import with_displaced
from mesos_gpu.mesos.shares.gpu_shares import Share, without_cards


class Offering(Struct, frozen=True):
    """Those by whom what is offered changes while an agent runs; None: there is no such part."""

    gpus: AgentGpus | None
    suspender: Suspender | None
    devices: Devices | None

    @property
    def fixed(self) -> bool:
        """Return whether what flags say is what there is."""
        return self.gpus is None and self.devices is None

    def total(self, whole: Resources, kept: Resources, state: AgentState) -> Resources:
        """Return what there is now, of `whole`, with what the master reserved here (`kept`)."""
        total = whole
        if self.gpus is not None:
            total = with_gpus(total, self.gpus.advertised, kept)
            total = with_more_gpus(total, 0 if self.suspender is None else self.suspender.parked)
            if state.identity.shared_cards:
                total = self._with_displaced(total, kept, state, self.gpus.shares)
            if closed := self.gpus.closed_cards:
                total = without_cards(total, closed, used_by(state, self.gpus.sharers) + kept)
        if self.devices is not None:
            total = with_offered(total, self.devices.totals, self.devices.held, state, kept)
        return total

    def _with_displaced(
        self, total: Resources, kept: Resources, state: AgentState, shares: Mapping[ContainerId, Share]
    ) -> Resources:
        """Return `total` with units in the place of those of suspended containers, and of those that were moved."""
        displaced = {one: share for one, share in shares.items() if share.booked}
        tasks: list[Task | Executor] = [*state.frameworks.tasks(), *state.frameworks.executors()]
        over = [task for task in tasks if isinstance(task, Task) and task.phase is Phase.OVER]
        return with_displaced(
            total,
            state.identity.shared_cards.values(),
            live=had_by([task for task in tasks if task not in over]),
            over=had_by(over) + kept,
            away=used_by(state, displaced.keys()),
            displaced=displaced.values(),
        )
