"""Does an offer fit an app? What a task would take of it, or every reason why not.

Source: Marathon's mesos/ResourceMatcher.scala, mesos/RunSpecOfferMatcher.scala, mesos/NoOfferMatchReason.scala.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from enum import Enum
from functools import cached_property
from typing import Any, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from mesos_gpu.marathon.definitions.ports import missing_ports, offered_ports, take_ports
from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.constraints import (
    FAULT_DOMAIN,
    Placed,
    all_fulfilled,
    fulfilled,
    in_home_region,
    placed_tasks,
    value_at,
)
from mesos_gpu.marathon.matching.disks import is_root_disk, largest_disk, take_volumes
from mesos_gpu.marathon.matching.gpu_shares import free_memory, take_shares
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.matching.reasons import Reason
from mesos_gpu.mesos.ids import Role
from mesos_gpu.mesos.resource import UNRESERVED, Resource, milli
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


class Rules(Struct, frozen=True):
    """How a Marathon matches offers, as far as it is known; see `match` for what each means."""

    behaviour: GpuBehaviour = GpuBehaviour.UNRESTRICTED
    roles_behaviour: RolesBehaviour = RolesBehaviour.ANY
    home_region: str | None = None
    knows_region: bool = False
    """Whether `home_region` is known to be the master's; if not, no agent is excluded because of its region."""


Measure: TypeAlias = int | str | tuple[Any, ...] | None
"""An amount in thousandths, a text, several of these, or None for something that does not exist."""


class Finding(Struct, frozen=True):
    """One requirement compared with an offer: what was requested, and what the offer has."""

    reason: Reason
    """The reason against the offer if the requirement is not met."""
    subject: str
    """A scalar's name, `ports`, `gpu_mem` (parts of shared GPUs), `volume`, `role`, `region`, `maintenance`, `scarce`,
    or the words of a constraint."""
    requested: Measure
    found: Measure
    met: bool
    empty: Measure = None
    """What the same machine has if no task runs there (`explain`)."""
    lasting: bool = False
    """Whether the requirement is not met even then."""


def match(
    spec: RunSpec,
    offer: Offer,
    left: Resources,
    placed: Sequence[Placed],
    *,
    behaviour: GpuBehaviour,
    now_s: float,
    pick: int = 0,
    home_region: str | None = None,
    pool: Pool | None = None,
    roles_behaviour: RolesBehaviour = RolesBehaviour.ANY,
    draining_s: float | None = 0.0,
    prefer: Sequence[int] = (),
    findings: list[Finding] | None = None,
) -> Match | Refusal:
    """Decide whether one instance of `spec` may start on what is `left` of the offer.

    An app that names no region or zone stays in `home_region`, the master's.
    `placed` are the instances of the app that count for constraints; `pick` chooses among ports. `pool` is what it may
    take, by default everything of the roles that the app accepts. An agent is left alone from `draining_s` before its
    maintenance on; None: whether it is in maintenance or not. Of shared GPUs the cards `prefer` go before others.
    If `findings` is given, each requirement is added to it with what was requested and found, whether it is met or not.
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
    if findings is not None:
        findings += _findings(spec, offer, left, pool, placed, home_region, reasons, taken + executor)
    if reasons or ports is None or disks is None or shares is None:
        return Refusal(tuple(sorted(reasons, key=_FUNNEL.index)))
    return Match(sum(shares, taken + ports[1]), ports[0], executor, disks, shares=shares)


def explain(
    spec: RunSpec,
    here: Offer,
    empty: Offer,
    placed: Sequence[Placed],
    rules: Rules,
) -> tuple[Finding, ...]:
    """Return each requirement of one more instance of `spec` that `here` does not meet; none if it may start there.

    `empty` is an offer of all resources of the same machine. Each finding states what that has, and whether the
    requirement is not met there either, with no other instance of the app anywhere. An instance of an app with
    persistent volumes is one that has no volume yet.
    """
    now, ever = list[Finding](), list[Finding]()
    match_new(spec, here, placed, rules, now)
    match_new(spec, empty, (), rules, ever)
    pairs = zip(now, ever, strict=True)
    return tuple(replace(one, empty=other.found, lasting=not other.met) for one, other in pairs if not one.met)


def match_new(
    spec: RunSpec, offer: Offer, placed: Sequence[Placed], rules: Rules, findings: list[Finding] | None = None
) -> Match | Refusal:
    """Decide the same for an instance that has nothing reserved, on all of an offer; maintenance does not count."""
    return match(
        spec,
        offer,
        offer.resources,
        placed,
        behaviour=rules.behaviour,
        now_s=0.0,
        home_region=rules.home_region if rules.knows_region else offer.region,
        pool=pool_of_new(spec, offer, offer.resources, rules.roles_behaviour),
        draining_s=None,
        findings=findings,
    )


def capacity(spec: RunSpec, offer: Offer, rules: Rules) -> int:
    """Return how many instances an offer has resources for; constraints do not count.

    As many as are requested where an instance needs nothing.
    """
    counts = [*capacity_by_scalar(spec, offer, rules).values(), *_capacity_by_ports(spec, offer, rules)]
    most = min(counts, default=spec.instances)
    if not any(spec.shares) and not spec.resident:
        return most
    plain, rules = RunSpec({**spec.document, "constraints": []}), Rules(roles_behaviour=rules.roles_behaviour)
    for number in range(most):
        found = match_new(plain, offer, (), rules)
        if isinstance(found, Refusal):
            return number
        offer = replace(offer, resources=offer.resources - found.whole)
    return most


def _capacity_by_ports(spec: RunSpec, offer: Offer, rules: Rules) -> Iterator[int]:
    count = sum(wish.on_host for wish in spec.ports)
    if count:
        pool = pool_of_new(spec, offer, offer.resources, rules.roles_behaviour)
        offered = offered_ports(pool.resources, pool.roles)
        numbers, _ = missing_ports(spec.ports, offered)
        most = sum(end - begin + 1 for begin, end in offered) // count
        yield 0 if numbers else min(most, 1) if any(wish.number is not None for wish in spec.ports) else most


def capacity_by_scalar(spec: RunSpec, offer: Offer, rules: Rules) -> dict[str, int]:
    """Return for how many instances an offer has enough of each scalar that they request."""
    pool = pool_of_new(spec, offer, offer.resources, rules.roles_behaviour)
    return {name: _amount(pool, name) // amount for name, amount in spec.asked.items()}


def pool_of_new(spec: RunSpec, offer: Offer, left: Resources, behaviour: RolesBehaviour) -> Pool:
    """Return what an instance may take of what is left that has nothing reserved: of an app with volumes, `*` only."""
    if spec.resident:
        return Pool(offer.usable((UNRESERVED,), left), (UNRESERVED,), creates=True)
    return pool_of(offer, left, accepted_roles(spec, behaviour))


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


def _findings(
    spec: RunSpec,
    offer: Offer,
    left: Resources,
    pool: Pool,
    placed: Sequence[Placed],
    home_region: str | None,
    reasons: Collection[Reason],
    taken: Resources,
) -> Iterator[Finding]:
    """Yield each requirement with what was requested and found, in an order that depends on `spec` only.

    `reasons` are those that `match` has decided; `taken` are the scalars that it takes.
    """
    there = tuple(sorted({resource.role for resource in left}))
    unfulfilled_role = Reason.UNFULFILLED_ROLE in reasons
    yield Finding(Reason.UNFULFILLED_ROLE, "role", pool.roles, there, not unfulfilled_role)
    for name, own, beside in spec.scalars:
        if own + beside:
            found = _amount(pool, name)
            yield Finding(_LACKING[name], name, own + beside, found, found >= own + beside)
    if asks := [ask for ask in spec.shares if ask is not None]:
        memory = tuple(sorted((gib for ask in asks for gib in ask.mem_gib), reverse=True))
        free = free_memory(asks, pool.resources, offer.attributes)
        met = take_shares(spec.shares, pool.resources, pool.roles, offer.attributes) is not None
        yield Finding(Reason.INSUFFICIENT_GPUS, "gpu_mem", memory, free, met)
    if spec.persistent_volumes and not pool.kept:
        disks = pool.resources - taken
        sizes = tuple(milli(volume["persistent"]["size"]) for volume in spec.persistent_volumes)
        largest = tuple(largest_disk(volume, disks) for volume in spec.persistent_volumes)
        met = take_volumes(spec.persistent_volumes, disks) is not None
        yield Finding(Reason.INSUFFICIENT_DISK, "volume", sizes, largest, met)
    if not any(constraint[0] in FAULT_DOMAIN for constraint in spec.document["constraints"]):
        met = in_home_region((), offer, home_region)
        yield Finding(Reason.UNFULFILLED_CONSTRAINT, "region", home_region, offer.region, met)
    tasks = placed_tasks(placed)
    for constraint in spec.document["constraints"]:
        met = fulfilled(constraint, offer, tasks, spec.instances)
        here = value_at(constraint[0], offer)
        yield Finding(Reason.UNFULFILLED_CONSTRAINT, " ".join(constraint), tuple(constraint), here, met)
    maintenance = Reason.AGENT_MAINTENANCE in reasons
    yield Finding(Reason.AGENT_MAINTENANCE, "maintenance", None, None, not maintenance)
    if spec.ports:
        offered = offered_ports(pool.resources, pool.roles)
        numbers, count = missing_ports(spec.ports, offered)
        yield Finding(Reason.INSUFFICIENT_PORTS, "ports", numbers, offered, not numbers)
        has = sum(end - begin + 1 for begin, end in offered)
        asked = sum(wish.on_host for wish in spec.ports)
        yield Finding(Reason.INSUFFICIENT_PORTS, "port_count", asked, has, bool(numbers) or not count)
    scarce = Reason.DECLINED_SCARCE_RESOURCES in reasons
    yield Finding(Reason.DECLINED_SCARCE_RESOURCES, "scarce", 0, offer.gpus, not scarce)


def _amount(pool: Pool, name: str) -> int:
    """Return how much of a scalar a task may take, in thousandths; see Resources.find."""
    return sum(
        resource.amount
        for resource in pool.scalars
        if resource.name == name and resource.role in pool.roles and isinstance(resource.amount, int)
        if resource.persistence_id is None
    )
