"""Apps with persistent volumes: what is reserved for their instances, used again, and given back.

An instance of such an app starts in two steps. First what it needs is reserved on an agent and its volumes are made of
it, under labels with the instance's id; when that comes back in an offer, a task starts on it. Later tasks of the
instance do the same, so they stay on the agent and find their data.
Source: Marathon core/launcher/impl/InstanceOpFactoryImpl.scala and InstanceOpFactoryHelper.scala,
core/matcher/reconcile/impl/OfferMatcherReconciler.scala, mesos/PersistentVolumeMatcher.scala.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.matching import Match, Pool
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.model.instances import Instance, Task
from mesos_gpu.marathon.model.reservations import LocalVolume, Reservation, reservation_labels, reserved_for
from mesos_gpu.marathon.state.actions import Say
from mesos_gpu.marathon.state.draft import Draft
from mesos_gpu.marathon.state.settings import Settings
from mesos_gpu.mesos.documents import TaskStatus
from mesos_gpu.mesos.ids import AgentId, FrameworkId, Role, TaskId
from mesos_gpu.mesos.resource import UNRESERVED, Resource
from mesos_gpu.mesos.resource import Reservation as Reserved
from mesos_gpu.mesos.resources import Resources

Operation = Mapping[str, Any]

_NOT_THERE = frozenset(("TASK_GONE", "TASK_DROPPED", "TASK_UNKNOWN", "TASK_LOST"))
_GONE = "TASK_GONE_BY_OPERATOR"
RELEASE_S = 3600.0
"""For so long offers are asked for to give back what nobody needs; later it must happen to come in one."""


class Sifted(Struct, frozen=True):
    """An offer without what is to be given back, and the operations that do so."""

    left: Resources
    operations: tuple[Operation, ...] = ()


def sift(draft: Draft, offer: Offer) -> Sifted:
    """Look at what Marathon reserved in an offer: what an instance needs is confirmed, the rest is given back."""
    spurious: list[Resource] = []
    there = {resource.persistence_id for resource in offer.resources}
    for resource in offer.resources:
        labels = reserved_for(resource)
        if labels is None:
            continue
        framework_id, instance_id = labels
        instance = draft.instances.get(instance_id)
        known = instance.reservation if instance is not None else None
        shown = known is not None and there.issuperset(volume.persistence_id for volume in known.volumes)
        if instance is not None and known is not None and known.agent_id != offer.agent_id and not instance.released:
            shown = shown and bool(known.volumes)
            if shown and instance.active:
                continue  # nothing has told the end of its task yet; what the agent keeps waits for that, too
            if shown:
                instance, known = _rebound(draft, instance, known, offer)
        if instance is None or known is None or known.agent_id != offer.agent_id or instance.released:
            # Of other frameworks, ours from before we had to start over among them, only what we know of ourselves.
            if framework_id in (draft.framework_id, known.framework_id if known is not None else None):
                spurious.append(resource)
                if instance is not None and known is not None and instance.released:
                    draft.instances.put(instance_id, replace(instance, reservation=replace(known, freed_s=draft.now_s)))
        elif not known.confirmed and shown:
            # All of it: an agent that was killed meanwhile may have reserved, and not made the volume yet.
            draft.put_instance(replace(instance, reservation=replace(known, confirmed=True)))
    if not spurious:
        return Sifted(offer.resources)
    gone = sorted({labels[1] for resource in spurious if (labels := reserved_for(resource)) is not None})
    draft.actions.append(Say(f"giving back what {offer.host} keeps for {', '.join(gone)}"))
    return Sifted(offer.resources - Resources(spurious), tuple(_freeing(spurious)))


def _rebound(draft: Draft, instance: Instance, known: Reservation, offer: Offer) -> tuple[Instance, Reservation]:
    """Bind an instance to the agent that has its volumes now, and return it so.

    An agent that left (SIGUSR1) or was sent away comes back with another id and all that it kept. Marathon goes by
    the labels and volumes alone (InstanceOpFactoryImpl.inferForResidents, PersistentVolumeMatcher).
    """
    known = replace(
        known,
        agent_id=offer.agent_id,
        host=offer.host,
        attributes=offer.attributes,
        region=offer.region,
        zone=offer.zone,
    )
    instance = replace(instance, reservation=known)
    draft.put_instance(instance)
    draft.actions.append(Say(f"{offer.host} is another agent now, and has the volumes of {instance.id} still"))
    return instance, known


def _freeing(spurious: Sequence[Resource]) -> list[Operation]:
    volumes = [resource for resource in spurious if resource.persistence_id is not None]
    plain = Resources(r.without_volume() if r.persistence_id is not None else r for r in spurious)
    destroy = [{"type": "DESTROY", "destroy": {"volumes": [v.to_json() for v in volumes]}}] if volumes else []
    return [*destroy, {"type": "UNRESERVE", "unreserve": {"resources": plain.to_json()}}]


def choose(waiting: Sequence[Instance], offer: Offer, left: Resources) -> tuple[Instance, Pool] | None:
    """Return the instance that an offer is for, and what it may take of it; None when all are bound to other agents.

    One whose volumes are in the offer comes before one that has none yet. `waiting` are all of one app.
    """
    for instance in waiting:
        if (kept := _kept(instance, left)) is not None:
            return instance, Pool(kept.filter(lambda r: r.persistence_id is None), (instance.role,), kept=True)
    for instance in waiting:
        if instance.reservation is None:
            # Only what is nobody's can be reserved.
            return instance, Pool(offer.usable((UNRESERVED,), left), (UNRESERVED,), creates=True)
    return None


def with_volumes(spec: RunSpec, instance: Instance, found: Match, left: Resources) -> Match:
    """Return what a task takes, and the volumes of its instance with it."""
    kept = _kept(instance, left) or Resources()
    volumes = kept.filter(lambda r: r.persistence_id is not None)
    if spec.is_pod:
        # They are the executor's, from whose sandbox the containers mount them.
        return replace(found, executor=found.executor + volumes)
    return replace(found, resources=found.resources + volumes)


def _kept(instance: Instance, left: Resources) -> Resources | None:
    """Return what is there for an instance; None when not all of its volumes are."""
    if instance.reservation is None:
        return None
    mine = left.filter(lambda r: reserved_for(r) is not None and _belongs(r, instance))
    there = {resource.persistence_id for resource in mine}
    return mine if all(volume.persistence_id in there for volume in instance.reservation.volumes) else None


def _belongs(resource: Resource, instance: Instance) -> bool:
    known = instance.reservation
    return known is not None and reserved_for(resource) == (known.framework_id, instance.id)


def reserve(draft: Draft, spec: RunSpec, instance: Instance, offer: Offer, found: Match) -> list[Operation]:
    """Bind an instance to an agent, and return the operations that reserve and create what it needs there."""
    framework_id = draft.framework_id or FrameworkId("")
    volumes = tuple(LocalVolume(spec.id, volume["containerPath"], draft.new_id()) for volume in spec.persistent_volumes)
    draft.put_instance(
        replace(
            instance,
            version=spec.version,
            reservation=Reservation(
                framework_id,
                offer.agent_id,
                offer.host,
                volumes,
                draft.now_s,
                attributes=offer.attributes,
                region=offer.region,
                zone=offer.zone,
            ),
        )
    )
    principal = draft.settings.principal
    reserved = Reserved(Role(instance.role), "DYNAMIC", principal, reservation_labels(framework_id, instance.id))
    created = [
        _volume(disk.pushed(reserved), volume.persistence_id, wish, principal)
        for disk, volume, wish in zip(found.disks, volumes, spec.persistent_volumes, strict=True)
    ]
    everything = Resources(resource.pushed(reserved) for resource in found.whole)
    return [
        {"type": "RESERVE", "reserve": {"resources": everything.to_json()}},
        {"type": "CREATE", "create": {"volumes": [volume.to_json() for volume in created]}},
    ]


def _volume(disk: Resource, persistence_id: str, wish: Mapping[str, Any], principal: str | None) -> Resource:
    volume = {"container_path": wish["containerPath"], "mode": wish.get("mode", "RW")}
    persistence = {"id": persistence_id, **({} if principal is None else {"principal": principal})}
    info = {**disk.disk, "persistence": persistence, "volume": volume}
    fields = json.loads(disk.other) if disk.other else {}
    return dataclasses.replace(disk, other=json.dumps({**fields, "disk": info}, sort_keys=True))


def bound(members: Sequence[Instance], besides: Instance) -> list[Instance]:
    """Return the instances that wait where their volumes are, as if they ran there: constraints count them."""
    return [
        replace(i, task=_placeholder(i, i.reservation))
        for i in members
        if i.reservation is not None and i.wanted and not i.active and i.id != besides.id
    ]


def _placeholder(instance: Instance, kept: Reservation) -> Task:
    return Task(
        id=instance.next_task_id,
        agent_id=kept.agent_id,
        host=kept.host,
        ports=(),
        version=instance.version,
        staged_at_s=kept.since_s,
        attributes=kept.attributes,
        region=kept.region,
        zone=kept.zone,
    )


def after_subscribing(draft: Draft) -> None:
    """Give reservations that are not confirmed their time again: nothing could confirm them while we were away."""
    for instance in list(draft.instances.values()):
        known = instance.reservation
        if known is not None and not known.confirmed and not instance.released:
            draft.instances.put(instance.id, replace(instance, reservation=replace(known, since_s=draft.now_s)))


def never_there(task: Task) -> bool:
    """Tell whether a task has ended of which its agent knew nothing: what was sent to the agent with it is in doubt."""
    return task.state in _NOT_THERE and task.started_at_s is None


def in_doubt(instance: Instance, now_s: float) -> Instance:
    """Return an instance whose agent has known none of its tasks: what was reserved for it may not have got there.

    A master offers what it was asked to reserve before the agent has it, as often as it is asked; an agent whose
    connection broke then comes back without. An offer confirms it again, or it is reserved anew.
    """
    known = instance.reservation
    if known is None or known.last_state is not None or instance.released:
        return instance
    return replace(instance, reservation=replace(known, confirmed=False, since_s=now_s))


def places(instances: Iterable[Instance]) -> dict[TaskId, AgentId]:
    """Return which agents keep something for instances without a task, by what a master is asked instead of a task."""
    return {
        i.place_id: i.reservation.agent_id
        for i in instances
        if i.reservation is not None and not i.active and not i.released
    }


def take_place(draft: Draft, instance: Instance, status: TaskStatus) -> None:
    """Take a master's word of the agent that keeps something for an instance: one that is gone does not come back.

    Marathon hears of that by the status of a task there alone (InstanceUpdater.shouldAbandonReservation), and an
    instance that has none just then waits for ever.
    """
    known, agent_id = instance.reservation, status.get("agent_id", {}).get("value")
    if known is None or status["state"] != _GONE or places([instance]).get(instance.place_id) != agent_id:
        return
    draft.actions.append(Say(f"{known.host} is gone, and what it kept for {instance.id} with it"))
    draft.put_instance(replace(instance, reservation=None))
    draft.asked_for = draft.asked_for.after({instance.next_task_id}, ())  # of any agent now
    if not instance.wanted:
        draft.drop_instance(draft.instances[instance.id])


def due_s(instance: Instance, settings: Settings) -> float | None:
    """Return when something must be done about the reservation of an instance; None when it may stay as it is."""
    kept = instance.reservation
    if kept is None:
        return None
    if instance.released:
        freed_s = kept.freed_s
        return instance.since_s + RELEASE_S if freed_s is None else freed_s + settings.reservation_timeout_s
    return None if kept.confirmed or instance.active else kept.since_s + settings.reservation_timeout_s


def watch(draft: Draft) -> None:
    """Look after reservations that nobody confirmed in time, and forget those that have been given back."""
    for instance in list(draft.instances.values()):
        at_s = due_s(instance, draft.settings) if instance.reservation is not None else None
        if at_s is None or draft.now_s < at_s or not draft.subscribed:
            continue
        if instance.released:
            draft.forget_release(instance)
        else:
            host = instance.host
            draft.actions.append(Say(f"{host} did not confirm what was reserved for {instance.id}; trying again"))
            draft.drop_instance(instance)
