"""What an agent has the master offer: what flags say, less what is ill or lent, more where tasks are suspended."""

from __future__ import annotations

from dataclasses import dataclass

from mesos_gpu.agent.decisions.offered_units import with_offered
from mesos_gpu.agent.decisions.state import AgentState
from mesos_gpu.agent.gpus.care import AgentGpus
from mesos_gpu.agent.gpus.suspender import Suspender
from mesos_gpu.agent.model.resources import with_gpus, with_more_gpus
from mesos_gpu.agent.running.containers import Devices
from mesos_gpu.agent.views.state_json import used_by
from mesos_gpu.mesos.resources import Resources
from mesos_gpu.mesos.shares.gpu_shares import without_cards


@dataclass(frozen=True, slots=True)
class Offering:
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
            if closed := self.gpus.closed_cards:
                total = without_cards(total, closed, used_by(state, self.gpus.sharers) + kept)
        if self.devices is not None:
            total = with_offered(total, self.devices.totals, self.devices.held, state, kept)
        return total
