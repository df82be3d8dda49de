"""Does an offer fit an app? What a task would take of it, or every reason why not.

Source: Marathon's mesos/ResourceMatcher.scala, mesos/RunSpecOfferMatcher.scala, mesos/NoOfferMatchReason.scala.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import cached_property

from msgspec import Struct, field

from mesos_gpu.marathon.definitions.ports import take_ports
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.constraints import all_fulfilled
from mesos_gpu.marathon.matching.disks import is_root_disk, take_volumes
from mesos_gpu.marathon.matching.gpu_shares import take_shares
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.matching.reasons import Reason
from mesos_gpu.marathon.model.instances import Instance
from mesos_gpu.mesos.ids import Role
from mesos_gpu.mesos.resource import UNRESERVED, Resource
from mesos_gpu.mesos.resources import NOTHING, Resources


class GpuBehaviour(str, Enum):
    """--gpu_scheduling_behavior: whether apps without GPUs may run on agents that have some."""

    RESTRICTED = "restricted"
    UNRESTRICTED = "unrestricted"


class RolesBehaviour(str, Enum):
    """--accepted_resource_roles_default_behavior: whose resources an app takes that does not say."""

    ANY = "any"
    UNRESERVED = "unreserved"
    RESERVED = "reserved"


BEHAVIOUR_LABEL = "GPU_SCHEDULING_BEHAVIOR"
_LACKING = {
    "cpus": Reason.INSUFFICIENT_CPUS,
    "mem": Reason.INSUFFICIENT_MEMORY,
    "disk": Reason.INSUFFICIENT_DISK,
    "gpus": Reason.INSUFFICIENT_GPUS,
}
_FUNNEL = list(Reason)


class Pool(Struct, frozen=True, dict=True):
    """What of an offer a task may take: resources of these roles.

    `creates`: the app's persistent volumes are to be made of it. `kept`: it has been reserved for this very instance,
    so that there is nothing to be spared for others.
    """

    resources: Resources
    roles: tuple[Role, ...]
    creates: bool = False
    kept: bool = False

    @cached_property
    def scalars(self) -> Resources:
        """Return what amounts are taken of: everything but disks that are not the machine's own."""
        return self.resources.filter(is_root_disk)


class Match(Struct, frozen=True):
    """What a task takes of an offer; `ports` are its host ports in the order of the app's, None where it takes none."""

    resources: Resources
    ports: tuple[int | None, ...]
    executor: Resources = field(default_factory=Resources)
    """What its own executor takes, beside the task."""
    disks: tuple[Resource, ...] = ()
    """What becomes the app's persistent volumes, one for each."""
    extra_ports: tuple[int | None, ...] = ()
    """Ports that are taken beside those that the app asks for."""
    shares: tuple[Resources, ...] = ()
    """What of `resources` each task has of shared GPUs, in the order of the app's, or of the pod's containers."""

    @property
    def whole(self) -> Resources:
        """Return everything that is taken."""
        return self.resources + self.executor + Resources(self.disks)

    @property
    def host_ports(self) -> tuple[int, ...]:
        """Return the ports of the agent that are taken."""
        return tuple(port for port in self.ports if port is not None)


class Refusal(Struct, frozen=True):
    """Every reason that speaks against the offer, in the order of the funnel."""

    reasons: tuple[Reason, ...]


def match(
    spec: RunSpec,
    offer: Offer,
    left: Resources,
    placed: Sequence[Instance],
    *,
    behaviour: GpuBehaviour,
    now_s: float,
    pick: int = 0,
    home_region: str | None = None,
    pool: Pool | None = None,
    roles_behaviour: RolesBehaviour = RolesBehaviour.ANY,
    draining_s: float | None = 0.0,
    prefer: Sequence[int] = (),
) -> Match | Refusal:
    """Decide whether one instance of `spec` may start on what is `left` of the offer.

    An app that names no region or zone stays in `home_region`, the master's.
    `placed` are the instances of the app that count for constraints; `pick` chooses among ports. `pool` is what it may
    take, by default everything of the roles that the app accepts. An agent is left alone from `draining_s` before its
    maintenance on; None: whether it is in maintenance or not. Of shared GPUs the cards `prefer` go before others.
    """
    if pool is None:
        pool = pool_of(offer, left, accepted_roles(spec, roles_behaviour))
    usable, roles, scalars = pool.resources, pool.roles, pool.scalars
    reasons: set[Reason] = set()
    taken = Resources()
    if offer.role != spec.document["role"] or (left and not usable):
        reasons.add(Reason.UNFULFILLED_ROLE)
    executor = Resources()
    for name, asked, asked_beside in spec.scalars:
        part = scalars.find(name, asked, roles)
        beside = NOTHING if part is None or not asked_beside else (scalars - part).find(name, asked_beside, roles)
        if part is None or beside is None:
            reasons.add(_LACKING[name])
        else:
            taken += part
            executor += beside
    shares = take_shares(spec.shares, usable, roles, offer.attributes, prefer)
    disks = take_volumes(spec.persistent_volumes, usable - taken - executor) if pool.creates else ()
    lacking = {Reason.INSUFFICIENT_GPUS: shares, Reason.INSUFFICIENT_DISK: disks}
    reasons |= {reason for reason, found in lacking.items() if found is None}
    if not all_fulfilled(spec.document["constraints"], offer, placed, spec.instances, home_region):
        reasons.add(Reason.UNFULFILLED_CONSTRAINT)
    if draining_s is not None and _in_maintenance(offer, now_s, draining_s):
        reasons.add(Reason.AGENT_MAINTENANCE)
    ports = take_ports(spec.ports, usable, roles, pick)
    if ports is None:
        reasons.add(Reason.INSUFFICIENT_PORTS)
    if not pool.kept and wasted(spec, offer, behaviour):
        reasons.add(Reason.DECLINED_SCARCE_RESOURCES)
    if reasons or ports is None or disks is None or shares is None:
        return Refusal(tuple(sorted(reasons, key=_FUNNEL.index)))
    return Match(sum(shares, taken + ports[1]), ports[0], executor, disks, shares=shares)


def pool_of(offer: Offer, left: Resources, roles: tuple[Role, ...]) -> Pool:
    """Return what an app that accepts these roles may take of what is left, where nothing is kept for it."""
    return Pool(offer.usable(roles, left), roles)


def accepted_roles(spec: RunSpec, behaviour: RolesBehaviour = RolesBehaviour.ANY) -> tuple[Role, ...]:
    """Return the roles whose resources the app takes, its own first so that the common ones are left to others."""
    given, own = spec.document.get("acceptedResourceRoles"), spec.document["role"]
    if given:
        return tuple(sorted(set(given), key=lambda role: (role == UNRESERVED, role)))
    if own == UNRESERVED or behaviour is RolesBehaviour.UNRESERVED:
        return (UNRESERVED,)
    return (own, UNRESERVED) if behaviour is RolesBehaviour.ANY else (own,)


def wasted(spec: RunSpec, offer: Offer, flag: GpuBehaviour) -> bool:
    """Return whether an app without GPUs would sit on an agent that offers some, where that is not wanted."""
    label = spec.document["labels"].get(BEHAVIOUR_LABEL)
    behaviour = GpuBehaviour(label) if label in list(GpuBehaviour) else flag
    return behaviour is GpuBehaviour.RESTRICTED and offer.gpus > 0 and spec.gpus == 0 and not any(spec.shares)


def _in_maintenance(offer: Offer, now_s: float, draining_s: float) -> bool:
    window = offer.document.get("unavailability")
    if window is None:
        return False
    start_s = int(window["start"]["nanoseconds"]) / 1e9
    length = window.get("duration")
    return start_s - draining_s <= now_s and (length is None or now_s < start_s + int(length["nanoseconds"]) / 1e9)
