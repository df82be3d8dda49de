"""One offer while it is used: which instances start on it, and what is left.

Source: Marathon core/matcher/manager/impl/OfferMatcherManagerActor.scala.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from mesos_gpu.marathon.decisions import lifecycle, residency
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.gpu_shares import cards_taken
from mesos_gpu.marathon.matching.matching import Match, Pool, Refusal, accepted_roles, match, pool_of
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.matching.pod_taskinfo import task_group
from mesos_gpu.marathon.matching.reasons import Reason
from mesos_gpu.marathon.matching.taskinfo import task_info
from mesos_gpu.marathon.model.gangs import Membership
from mesos_gpu.marathon.model.instances import Cause, Instance, Task, moved
from mesos_gpu.marathon.model.task_group import TaskGroup
from mesos_gpu.marathon.state.accounting import held_by
from mesos_gpu.marathon.state.actions import Launch
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.marathon.state.lines import Lines
from mesos_gpu.marathon.state.queue_entry import QueueEntry
from mesos_gpu.marathon.state.turns import Line
from mesos_gpu.marathon.state.unused import Unsuited
from mesos_gpu.mesos.documents import OfferDocument, TaskInfo
from mesos_gpu.mesos.ids import FrameworkId, Role
from mesos_gpu.mesos.resources import Resources


class Ready(dict[str, Line]):
    """Ids of the instances that may start now, by app; of the apps also what they ask for."""

    def __init__(self, ids: Mapping[str, Line], specs: Mapping[str, RunSpec], lines: Lines | None = None) -> None:
        super().__init__(ids)
        self.specs = specs
        self.lines = lines
        """Those that may start, where all of them wait in lines; then nobody is here by name."""

    @property
    def ordered(self) -> bool:
        """Return whether one of the apps has asked for an order of what waits."""
        return any(self.specs[app_id].ordered for app_id in self)


def waits_in_lines(draft: Draft, documents: Sequence[OfferDocument]) -> bool:
    """Return whether all that waits does so in lines (state/lines.py), and there is no choice of offers for it."""
    if len(documents) != 1 or draft.settings.offer_window_s > 0 or draft.backoffs:
        return False
    return len(draft.in_line) == len(draft.waiting)


class OpenOffer:
    """An offer, what is `left` of it, and what is to be done on it."""

    def __init__(self, draft: Draft, offer: Offer) -> None:
        self._draft, self.offer = draft, offer
        sifted = residency.sift(draft, offer)
        self._left: Resources = sifted.left
        self._pools: dict[tuple[Role, ...], Pool] = {}
        self._unsuited: dict[str, Refusal] = {}
        """Why what is left does not do, by what all have in common for whom it does not (`RunSpec.alike`)."""
        self._amounts: dict[str, int] | None = None
        """Thousandths of what is left by name, once somebody has asked."""
        self._operations = list(sifted.operations)
        self._started: list[TaskInfo | TaskGroup] = []
        self._reserved = 0
        self._refused: dict[str, tuple[Reason, ...]] = {}
        self.cut_short = False
        """Whether no more was tried because the offer is full, or no token was left."""
        self._tells = draft.settings.offer_statistics

    @property
    def left(self) -> Resources:
        """Return what nothing has been started on."""
        return self._left

    def set_aside(self, resources: Resources) -> None:
        """Keep some of what is left from those that are tried next."""
        self._take(resources)

    def bring_back(self, resources: Resources) -> None:
        """Let those that are tried next have what was set aside."""
        self._changed(self._left + resources)

    def _take(self, taken: Resources) -> None:
        self._changed(self._left - taken)

    def _changed(self, left: Resources) -> None:
        self._left = left
        self._pools.clear()
        self._unsuited.clear()
        self._amounts = None

    @property
    def full(self) -> bool:
        """Return whether as many instances start here as may on one offer."""
        return len(self._started) + self._reserved >= self._draft.settings.max_instances_per_offer

    def fill(self, ready: Ready, nowhere: Collection[str] = ()) -> None:
        """Start instances, one of each app in turn.

        For an app with persistent volumes the start may be to reserve what it needs. Those that are started, and those
        that something was reserved for, leave `ready`. `nowhere`: what those have in common (`RunSpec.alike`) whom
        this offer does not suit; they are tried only where somebody wants to know why.
        """
        if ready.lines is not None:
            self._fill_by_lines(ready.lines)
            return
        apps = list(ready)
        specs, unsuited = ready.specs, self._unsuited
        full = self.full or self._draft.tokens.left == 0
        while apps and not self.cut_short:
            # An app that this offer does not suit is not tried again on it.
            again: list[str] = []
            for app_id in apps:
                if full:
                    self.cut_short = True
                    break
                spec = specs[app_id]
                if not self._tells and spec.alike in nowhere:
                    continue
                if (alike := spec.alike) in unsuited and alike is not None:
                    # One of those who ask for the same was tried: no other way here, of thousands who wait.
                    self.refuse(app_id, unsuited[alike].reasons)
                elif self.try_app(app_id, spec, ready):
                    full = self.full or self._draft.tokens.left == 0
                    if app_id in ready:
                        again.append(app_id)
            apps = again

    def _fill_by_lines(self, lines: Lines) -> None:
        """Do the same for those that wait in lines: what does not suit one suits nobody behind it."""
        draft, turns = self._draft, lines.in_turn()
        turn = next(turns, None)
        while turn is not None:
            app_id = draft.waiting[turn[1]]
            spec = draft.app(app_id)
            placed = False
            if spec is not None and not self._lacks(spec):
                alone = Ready({app_id: Line(draft.waiting.line(app_id))}, {app_id: spec})
                placed = self.try_app(app_id, spec, alone)
            if (self.full or draft.tokens.left == 0) and turn < lines.last:
                self.cut_short = True
                return
            try:
                turn = turns.send(placed)
            except StopIteration:
                return

    def _lacks(self, spec: RunSpec) -> bool:
        """Return whether less is left of something, whoever it is for, than an instance asks for.

        Most that wait are told apart by that, and where nobody counts offers no more need be known of them.
        """
        if self._amounts is None:
            self._amounts = {}
            for resource in self._left:
                if isinstance(resource.amount, int):
                    self._amounts[resource.name] = self._amounts.get(resource.name, 0) + resource.amount
        amounts = self._amounts
        return not spec.resident and any(asked + beside > amounts.get(name, 0) for name, asked, beside in spec.scalars)

    def try_app(
        self, app_id: str, spec: RunSpec, ready: Ready, *, tell: bool = True, prefer: Sequence[int] = ()
    ) -> bool:
        """Start one instance of an app, if it fits; why it does not is kept for /v2/queue where we are to `tell`.

        `prefer`: the shared cards that were chosen for it.
        """
        draft = self._draft
        instance, found = self._find(spec, ready[app_id], prefer)
        if not isinstance(found, Match):
            if tell:
                self.refuse(app_id, found.reasons)
            return False
        self._take(found.whole)
        ready[app_id].leave(instance.id)
        if spec.resident and instance.reservation is None:
            self._operations += residency.reserve(draft, spec, instance, self.offer, found)
            self._reserved += 1
        else:
            self._started.append(_provision(draft, instance, spec, self.offer, found))
        entry = draft.queue.get(app_id) or QueueEntry(draft.now_s)
        draft.queue.put(app_id, entry.used(draft.now_s))
        self._refused.pop(app_id, None)
        if not ready[app_id]:
            del ready[app_id]
        return True

    def _find(self, spec: RunSpec, waiting: Line, prefer: Sequence[int]) -> tuple[Instance, Match | Refusal]:
        """Return which of the waiting instances of an app fits what is left, or why none does."""
        draft, offer = self._draft, self.offer
        if spec.resident:
            return self._find_resident(spec, waiting)
        instance = draft.instances[waiting.first]
        if spec.alike is not None and (known := self._unsuited.get(spec.alike)) is not None:
            return instance, known
        roles = accepted_roles(spec, draft.settings.roles_behaviour)
        pool = self._pools.get(roles)
        if pool is None:
            pool = self._pools[roles] = pool_of(offer, self._left, roles)
        found = matched(draft, spec, offer, self._left, placed_instances(draft, spec), pool, prefer)
        if spec.alike is not None and isinstance(found, Refusal):
            self._unsuited[spec.alike] = found
        return instance, found

    def _find_resident(self, spec: RunSpec, waiting: Line) -> tuple[Instance, Match | Refusal]:
        draft = self._draft
        members = draft.instances_of(spec.id)
        placed = placed_instances(draft, spec)
        chosen = residency.choose([draft.instances[instance_id] for instance_id in waiting], self.offer, self._left)
        if chosen is None:
            return draft.instances[waiting.first], Refusal((Reason.NO_CORRESPONDING_RESERVATION,))
        instance, pool = chosen
        placed += residency.bound(members, instance)
        found = matched(draft, spec, self.offer, self._left, placed, pool)
        if isinstance(found, Match) and instance.reservation is not None:
            found = residency.with_volumes(spec, instance, found, self._left)
        return instance, found

    def take(self, instance: Instance, spec: RunSpec, found: Match, gang: Membership | None) -> None:
        """Start an instance here on what was found for it, as a member of a gang where it is one."""
        self._take(found.whole)
        self._started.append(_provision(self._draft, instance, spec, self.offer, found, gang))
        entry = self._draft.queue.get(spec.id) or QueueEntry(self._draft.now_s)
        self._draft.queue.put(spec.id, entry.used(self._draft.now_s))
        self._refused.pop(spec.id, None)

    def refuse(self, app_id: str, reasons: tuple[Reason, ...]) -> None:
        """Keep for /v2/queue why this offer did not do for an app."""
        if self._tells:
            self._refused[app_id] = reasons

    def close(self, refuse_s: float) -> bool:
        """Say what is to be done; return whether the offer was used. `refuse_s`: for how long its rest is refused."""
        self._draft.queue.note(Unsuited(self.offer.agent_id, self.offer.document, self._draft.now_s, self._refused))
        if not self._started and not self._operations:
            return False
        infos = [item for item in self._started if not isinstance(item, TaskGroup)]
        groups = [item for item in self._started if isinstance(item, TaskGroup)]
        # What is left is worth another look at once if we stopped before trying everything, or wait for what we made.
        again = self.cut_short or self._reserved
        self._draft.actions.append(Launch(self.offer.id, infos, 0.0 if again else refuse_s, groups, self._operations))
        return True


def matched(
    draft: Draft,
    spec: RunSpec,
    offer: Offer,
    left: Resources,
    placed: Sequence[Instance],
    pool: Pool | None = None,
    prefer: Sequence[int] = (),
) -> Match | Refusal:
    """Return what one more instance would take of what is left of an offer, beside those that are `placed`."""
    return match(
        spec,
        offer,
        left,
        placed,
        behaviour=draft.settings.gpu_behaviour,
        roles_behaviour=draft.settings.roles_behaviour,
        now_s=draft.now_s,
        pick=draft.pick() if spec.ports else 0,
        home_region=draft.region,
        pool=pool,
        draining_s=draft.settings.draining_s,
        prefer=prefer,
    )


def placed_instances(draft: Draft, spec: RunSpec) -> list[Instance]:
    """Return the instances of an app that its constraints count."""
    members = draft.instances_of(spec.id) if spec.document["constraints"] else ()
    return [i for i in members if i.active and i.wanted and not lifecycle.outdated(i, spec)]


def task_of(
    draft: Draft, instance: Instance, spec: RunSpec, offer: Offer, found: Match, gang: Membership | None = None
) -> Task:
    """Return the task that fills an instance when it starts on an offer."""
    return Task(
        id=instance.next_task_id,
        agent_id=offer.agent_id,
        host=offer.host,
        ports=found.host_ports,
        version=spec.version,
        staged_at_s=draft.now_s,
        attributes=offer.attributes,
        region=offer.region,
        zone=offer.zone,
        gang=gang,
        cards=cards_taken(found.whole),
        held=held_by(spec, found.whole, draft.settings.user),
    )


def _provision(
    draft: Draft, instance: Instance, spec: RunSpec, offer: Offer, found: Match, gang: Membership | None = None
) -> TaskInfo | TaskGroup:
    task_id, pick = instance.next_task_id, draft.pick()
    pod = (
        task_group(
            spec,
            instance,
            offer,
            found,
            framework_id=draft.framework_id or FrameworkId(""),
            env_prefix=draft.settings.env_prefix,
            pick=pick,
            bridge_name=draft.settings.rules.bridge_name,
        )
        if spec.is_pod
        else None
    )
    task = task_of(draft, instance, spec, offer, found, gang)
    if pod is not None:
        task = replace(task, containers=tuple(replace(c, since_s=draft.now_s) for c in pod.containers))
    draft.tokens = draft.tokens.taken(1)
    launched = moved(instance, Cause.LAUNCHED, draft.now_s)
    draft.put_instance(replace(launched, task=task, incarnation=instance.incarnation + 1, version=spec.version))
    if pod is not None:
        return pod.group
    return task_info(
        spec,
        task_id,
        offer,
        found,
        env_prefix=draft.settings.env_prefix,
        enforces_role=draft.enforces_role(spec.id),
        pick=pick,
        bridge_name=draft.settings.rules.bridge_name,
        gang=gang,
    )
