"""What would happen if something were asked for: the very decisions that would be taken, on what there is now. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from mesos_gpu.marathon.matching.machines import Machine
from mesos_gpu.marathon.matching.reasons import Reason
from mesos_gpu.marathon.model.deployment import Deployment
from mesos_gpu.marathon.simulation.replica import End, Replica, Start
from mesos_gpu.marathon.state.actions import Answer
from mesos_gpu.marathon.state.events import Event, Moment
from mesos_gpu.marathon.state.settings import Settings
from mesos_gpu.marathon.state.state import State
from mesos_gpu.mesos.ids import OfferId, Role


class Wait(Struct, frozen=True):
    """Instances that would wait, and what speaks against each agent, by host."""

    app: str
    count: int
    reasons: Mapping[str, tuple[Reason, ...]]
    members: int = 1
    """How many start together: each may have room somewhere, and all together have not."""
    offers: bool = False
    """Whether any agent has anything to offer."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """What would happen. `apps` are those that the change is about."""

    apps: tuple[str, ...]
    steps: tuple[tuple[tuple[str, str], ...], ...]
    """Of the deployment: pairs of what is done, in Marathon's words, and the app."""
    starts: tuple[Start, ...]
    ends: tuple[End, ...]
    waits: tuple[Wait, ...]
    done: bool
    """Whether the deployment would get to its end."""
    suspends: tuple[End, ...] = ()
    """Those whose GPUs would be put away for others; `gpus`: whole ones."""
    machines: tuple[Machine, ...] = field(default=(), repr=False)
    """As they would be then."""

    @property
    def now(self) -> bool:
        """Return whether all that is asked for would start at once, without waiting for anything else."""
        waiting = {wait.app for wait in self.waits}
        late = {start.app for start in self.starts if start.after_s}
        return self.done and not (waiting | late) & set(self.apps)


def dry_run(
    state: State,
    events: Sequence[Event],
    machines: Sequence[Machine],
    settings: Settings,
    moment: Moment,
    headroom: Mapping[Role, Mapping[str, int]] | None = None,
) -> DryRun:
    """Return what would happen after these events. Raises what the decisions raise, then nothing would.

    `headroom` is what quotas leave to roles, in thousandths by name.
    """
    replica = Replica(state, machines, settings, moment, headroom or {})
    replica.settle_what_is_under_way()
    apps: set[str] = set()
    deployments: list[Deployment] = []
    for event in events:
        known = set(replica.state.waiting.values())
        for action in replica.tell(event):
            if isinstance(action, Answer) and action.deployment is not None:
                deployments.append(action.deployment)
                apps |= set(action.deployment.apps)
        if not deployments:  # a run of a job has none
            apps |= set(replica.state.waiting.values()) - known
    replica.play()
    final = replica.state
    return DryRun(
        apps=tuple(sorted(apps)),
        steps=tuple(tuple((w.value, app) for w, app in step.actions) for each in deployments for step in each.steps),
        starts=tuple(replica.starts),
        ends=tuple(replica.ends),
        suspends=tuple(replica.suspends),
        waits=tuple(_waits(final, replica.machines.values())),
        done=not any(each.id in final.deployments for each in deployments),
        machines=tuple(replica.machines.values()),
    )


def _waits(state: State, machines: Collection[Machine]) -> Iterator[Wait]:
    for app_id, number in sorted(Counter(state.waiting.values()).items()):
        entry, spec = state.queue.get(app_id), state.app(app_id)
        last = {} if entry is None else entry.last_offers
        reasons = {offer.offer["hostname"]: offer.reasons for offer in last.values()}
        if spec is None:
            yield Wait(app_id, number, reasons)
        else:
            role = Role(str(spec.document["role"]))
            offers = any(machine.offer(OfferId(""), role, {}) is not None for machine in machines)
            yield Wait(app_id, number, reasons, spec.gang_size, offers)
