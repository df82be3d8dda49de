"""What an agent has the master offer: what flags say, less what is ill or lent, more where tasks are suspended."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from mesos_gpu.agent.decisions.offered_units import lingering_parts, with_offered
from mesos_gpu.agent.decisions.state import AgentState
from mesos_gpu.agent.gpus.care import AgentGpus
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
    devices: Devices | None

    @property
    def fixed(self) -> bool:
        """Return whether what flags say is what there is."""
        return self.gpus is None and self.devices is None

    def total(
        self, whole: Resources, kept: Resources, state: AgentState, ended: ContainerId | None = None
    ) -> Resources:
        """Return what there is now, of `whole`, with what the master reserved here (`kept`).

        `ended`: the container whose end is about to be told.
        """
        total = whole
        if self.gpus is not None:
            ledger = self.gpus.ledger
            total = with_more_gpus(with_gpus(total, ledger.present, kept), ledger.absent)
            if state.identity.shared_cards:
                total = self._with_displaced(total, kept, state, self.gpus.shares, ended)
            if closed := self.gpus.closed_cards:
                total = without_cards(total, closed, used_by(state, self.gpus.sharers) + kept)
        if self.devices is not None:
            total = with_offered(total, self.devices.totals, self.devices.held, state, kept)
        return total

    def _with_displaced(
        self,
        total: Resources,
        kept: Resources,
        state: AgentState,
        shares: Mapping[ContainerId, Share],
        ended: ContainerId | None,
    ) -> Resources:
        """Return `total` with units in the place of those of suspended containers, and of those that were moved."""
        displaced = {one: share for one, share in shares.items() if share.booked}
        owners: list[Task | Executor] = [*state.frameworks.tasks(), *state.frameworks.executors()]
        live: list[Task | Executor] = []
        over: list[Task | Executor] = []
        for one in owners:
            is_over = one.phase is Phase.OVER if isinstance(one, Task) else one.over
            (over if is_over or (ended is not None and one.container_id == ended) else live).append(one)
        return with_displaced(
            total,
            state.identity.shared_cards.values(),
            live=had_by(live),
            kept=kept,
            over=had_by(over),
            away=used_by(state, displaced.keys()),
            displaced=displaced.values(),
            lingering=lingering_parts(state, shares),
        )
