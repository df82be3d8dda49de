"""Agents as a master's /slaves shows them, and the offers that the master can make of them. Pure.

Source: Mesos' endpoint /slaves (src/master/http.cpp), which the documents are of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from msgspec import Struct, field
from msgspec.structs import replace

from mesos_gpu.errors import BadResources
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.mesos.clients.agents import SCALARS, names, read_agent
from mesos_gpu.mesos.documents import OfferDocument
from mesos_gpu.mesos.ids import AgentId, OfferId, Role
from mesos_gpu.mesos.resource import UNRESERVED, Resource, milli
from mesos_gpu.mesos.resources import NOTHING, Resources

_NO_DOCUMENT = cast(OfferDocument, {})


class Machine(Struct, frozen=True):
    """One agent. `used` is what tasks and executors of all frameworks use; all else is `free`, offered or not."""

    id: AgentId
    host: str
    free: Resources
    used: Resources = field(default_factory=Resources)
    attributes: tuple[tuple[str, str], ...] = ()
    region: str | None = None
    zone: str | None = None
    takes_tasks: bool = True
    connected: bool = True
    """Whether it could take some again when somebody says so."""
    offered: Resources = field(default_factory=Resources)
    """What of `free` is in an offer that no framework has answered."""
    state: str = "active"
    """active, draining, drained, deactivated, or inactive (not connected)."""
    address: str = ""
    """Where it answers, HOST:PORT."""
    name: str = ""
    """What to call it where its host is not enough: host and port, if several agents are on one host."""

    @property
    def called(self) -> str:
        """Return what to call it."""
        return self.name or self.host

    @property
    def total(self) -> Resources:
        """Return all resources of the agent."""
        return self.free + self.used

    def offer_of(self, resources: Resources, role: Role) -> Offer:
        """Return the offer that the master can make to a role of these resources of the agent."""
        mine = resources.filter(lambda resource: _can_have(role, resource) and not resource.revocable)
        return Offer(
            id=OfferId(""),
            agent_id=self.id,
            host=self.host,
            role=role,
            resources=mine,
            attributes=self.attributes,
            region=self.region,
            zone=self.zone,
            document=_NO_DOCUMENT,
        )

    def without(self, taken: Resources) -> Machine:
        """Return it when something more is used."""
        return replace(self, free=self.free - taken, used=self.used + taken)

    def with_back(self, given: Resources) -> Machine:
        """Return it when something is used no more."""
        return replace(self, free=self.free + given, used=self.used - given)

    def offer(self, offer_id: OfferId, role: Role, headroom: Mapping[str, int]) -> OfferDocument | None:
        """Return an offer of what a role may have here; None of nothing. `headroom`: scalars that its quota leaves."""
        mine = self.free.filter(lambda resource: _can_have(role, resource) and not resource.revocable)
        for name, most in headroom.items():
            mine = _at_most(mine, name, max(0, most))
        if not self.takes_tasks or (not mine.milli("cpus") and not mine.milli("mem")):
            return None
        document: OfferDocument = {
            "id": {"value": offer_id},
            "agent_id": {"value": self.id},
            "hostname": self.host,
            "resources": mine.allocated(role).to_json(),
            "allocation_info": {"role": role},
            "attributes": [{"name": n, "type": "TEXT", "text": {"value": text}} for n, text in self.attributes],
        }  # type: ignore[typeddict-item]
        if self.region is not None:
            fault = {"region": {"name": self.region}, "zone": {"name": self.zone or ""}}
            document["domain"] = {"fault_domain": fault}
        return document


def read_machine(document: Mapping[str, Any]) -> Machine:
    """Return one of the `slaves` of a master. What is in an offer that nobody has answered counts as free.

    Masters that do not show resources in full are believed what they show in short: reservations by role, ports.
    """
    agent = read_agent(document)
    if "unreserved_resources_full" in document:
        reserved = (document.get("reserved_resources_full") or {}).values()
        listed = [*(document.get("unreserved_resources_full") or []), *(one for each in reserved for one in each)]
        total = Resources.from_json(listed).unallocated()
    else:
        total = _in_short(agent.total, document.get("resources"))
    used = _taken(document, "used_resources", total)
    return Machine(
        id=AgentId(agent.id),
        host=agent.hostname,
        free=total - used,
        used=used,
        attributes=tuple(agent.attributes.items()),
        region=agent.region,
        zone=agent.zone,
        takes_tasks=agent.takes_tasks,
        connected=agent.state != "inactive",
        offered=_taken(document, "offered_resources", total - used),
        state=agent.state,
        address=agent.address,
    )


def read_machines(documents: Sequence[Mapping[str, Any]]) -> list[Machine]:
    """Return the `slaves` of a master by host, each with a name of its own."""
    called = names([read_agent(document) for document in documents])
    found = [replace(machine, name=called[machine.id]) for machine in map(read_machine, documents)]
    return sorted(found, key=lambda machine: (machine.host, _port_last(machine.address), machine.id))


def _port_last(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port) if port.isdigit() else 0


def operated(machine: Machine, operations: Iterable[Mapping[str, Any]]) -> Machine:
    """Return an agent after what a framework does to its resources: reservations and volumes, made and undone."""
    for operation in operations:
        kind = str(operation["type"])
        body = operation.get(kind.lower()) or {}
        listed = Resources.from_json(body.get("resources") or body.get("volumes") or []).unallocated()
        before = Resources(_before(resource, kind) for resource in listed)
        if kind in ("RESERVE", "CREATE"):
            machine = replace(machine, free=machine.free - before + listed)
        elif kind in ("UNRESERVE", "DESTROY"):
            machine = replace(machine, free=machine.free - listed + before)
    return machine


def _before(resource: Resource, kind: str) -> Resource:
    """Return what was reserved or made into a volume, as it was before."""
    if kind in ("RESERVE", "UNRESERVE"):
        return resource.popped()
    return resource.without_volume()


def _at_most(resources: Resources, name: str, most: int) -> Resources:
    over = resources.milli(name) - most
    if over <= 0:
        return resources
    roles = [UNRESERVED, *resources.reserved_roles()]
    taken = resources.find(name, over, roles)
    return resources if taken is None else resources - taken


def _taken(document: Mapping[str, Any], key: str, available: Resources) -> Resources:
    """Return what of `available` is used or offered. A master that shows it in short does not show of which roles."""
    full = document.get(f"{key}_full")
    if full is not None:
        return Resources.from_json(full).unallocated()
    short = document.get(key) or {}
    roles = (UNRESERVED, *available.reserved_roles())
    found = _in_short({}, short)
    for name in SCALARS:
        amount = milli(short.get(name) or 0)
        found += available.find(name, min(amount, available.milli(name)), roles) or NOTHING
    return found


def _in_short(by_role: Mapping[str, Mapping[str, float]], shown: Mapping[str, Any] | None) -> Resources:
    """Return scalars by role, with the ranges and sets (ports, parts of shared GPUs) among what is shown in short."""
    found = Resources()
    for role, amounts in by_role.items():
        text = ";".join(f"{name}({role}):{amounts[name]}" for name in SCALARS if amounts.get(name))
        found += Resources.parse(text) if text else NOTHING
    texts = [f"{name}:{text}" for name, text in (shown or {}).items() if text and isinstance(text, str)]
    return found + Resources.parse(";".join(text for text in texts if "_revocable:" not in text))


def _can_have(role: str, resource: Resource) -> bool:
    """Return whether the master offers a resource to a role: it is unreserved, or of the role or one above it.

    Source: Mesos src/common/resources.cpp, Resources::isAllocatableTo.
    """
    return resource.role in (UNRESERVED, role) or role.startswith(f"{resource.role}/")


def headroom_of(roles: Sequence[Mapping[str, Any]]) -> dict[Role, dict[str, int]]:
    """Return what the quota of each role leaves it, in thousandths, by name; of those of a master's /roles."""
    found: dict[Role, dict[str, int]] = {}
    for entry in roles:
        consumed = (entry.get("quota") or {}).get("consumed") or {}
        for role, limits in limits_of([entry]).items():
            found[role] = {name: most - round(float(consumed.get(name) or 0) * 1000) for name, most in limits.items()}
    return found


def limits_of(roles: Sequence[Mapping[str, Any]]) -> dict[Role, dict[str, int]]:
    """Return the limits of the quota of each role that has any, in thousandths, by name."""
    found: dict[Role, dict[str, int]] = {}
    for entry in roles:
        limits = (entry.get("quota") or {}).get("limit") or {}
        if limits:
            found[Role(str(entry.get("name")))] = {
                str(name): round(float(limit) * 1000) for name, limit in limits.items()
            }
    return found


def readable(documents: Sequence[OfferDocument]) -> Iterator[Offer]:
    """Yield the offers that can be read: the others are declined when they are looked at."""
    for document in documents:
        with suppress(BadResources, KeyError):
            yield Offer.from_json(document)


def given_back(used: Resources, amounts: Mapping[str, int], role: str) -> Resources:
    """Return the scalars that a task of a role gives back of what is used: of its role first."""
    found = NOTHING
    for name, amount in amounts.items():
        found += used.find(name, amount, (role, UNRESERVED)) or NOTHING
    return found


def of_quota(role: str) -> Role:
    """Return the role that has the quota of a role: the first of its names."""
    return Role(role.partition("/")[0])
