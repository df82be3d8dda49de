"""An offer as the scheduler uses it: exact resources, and attributes as text."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN, Decimal
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mesos_gpu.mesos.documents import OfferDocument
from mesos_gpu.mesos.ids import ANY_ROLE, AgentId, OfferId, Role
from mesos_gpu.mesos.resource import Resource
from mesos_gpu.mesos.resources import Resources


class Offer(Struct, frozen=True, dict=True):
    """What one agent has for one role. `attributes` are pairs of name and text (Marathon's mesos/Constraints.scala)."""

    id: OfferId
    agent_id: AgentId
    host: str
    role: Role
    resources: Resources
    attributes: tuple[tuple[str, str], ...]
    region: str | None
    zone: str | None
    document: OfferDocument

    @classmethod
    def from_json(cls, document: OfferDocument) -> Offer:
        """Read Mesos' v1 Offer. Raises BadResources, or KeyError when a required field is missing."""
        fault = document.get("domain", {}).get("fault_domain", {})
        return cls(
            id=document["id"]["value"],
            agent_id=document["agent_id"]["value"],
            host=document["hostname"],
            role=document.get("allocation_info", {}).get("role", ANY_ROLE),
            resources=Resources.from_json(document.get("resources", [])),
            attributes=tuple((a["name"], attribute_text(a)) for a in document.get("attributes", [])),
            region=fault.get("region", {}).get("name"),
            zone=fault.get("zone", {}).get("name"),
            document=document,
        )

    def again(self, document: OfferDocument) -> Offer | None:
        """Return it as a document offers it anew: with all that was found out of it, under another id.

        None where that says anything else than the document that it was read from. Only of one that was read is this
        asked, not of the rest of one.
        """
        if document is self.document:
            return self
        if document != {**self.document, "id": document["id"]}:
            return None
        made = replace(self, id=document["id"]["value"], document=document)
        vars(made).update(vars(self))
        return made

    @cached_property
    def reasons(self) -> dict[str, tuple[Any, ...]]:
        """Why it does not suit those that wait, by what they have in common; no reasons for those that it suits.

        Kept here by who looks (`decisions/in_order.py`): of all that is offered that does not change.
        """
        return {}

    @cached_property
    def _usable(self) -> dict[tuple[Role, ...], Resources]:
        """What of all that is offered may be used, by roles."""
        return {}

    @cached_property
    def named(self) -> Mapping[str, str]:
        """Return the attributes by name, the first of each."""
        return dict(reversed(self.attributes))

    @cached_property
    def amounts(self) -> tuple[int, int, int]:
        """Return the amounts of what is offered that any task may use."""
        return amounts(self.resources)

    @property
    def gpus(self) -> int:
        """Return all whole GPUs in the offer, whatever their role."""
        return self.resources.gpus

    @property
    def address(self) -> str:
        """Return the address at which other machines reach it: that of its agent, where the master tells it."""
        told = self.document.get("url", {}).get("address", {})
        return str(told.get("ip") or self.host)

    def usable(self, roles: tuple[Role, ...], left: Resources) -> Resources:
        """Return what of `left` a task without reservations of its own may use, from these roles only.

        Volumes, revocable resources and what Marathon reserved for one resident task never count.
        """
        known = self._usable.get(roles) if left is self.resources else None
        if known is None:
            known = left.filter(lambda r: r.role in roles and not r.revocable and not _set_apart(r))
            if left is self.resources:
                self._usable[roles] = known
        return known


def amounts(left: Resources) -> tuple[int, int, int]:
    """Return how much of an offer any task may use, of whichever role (see `Offer.usable`).

    Thousandths of CPUs, whole MiB and whole GPUs.
    """
    left = left.filter(lambda r: not r.revocable and not _set_apart(r))
    return left.milli("cpus"), left.milli("mem") // 1000, left.gpus


def attribute_text(attribute: Mapping[str, Any]) -> str:
    """Return an attribute's value as constraints compare it."""
    kind = attribute["type"]
    if kind == "SCALAR":
        return number_text(attribute["scalar"]["value"])
    if kind == "RANGES":
        ranges = sorted((int(r["begin"]), int(r["end"])) for r in attribute["ranges"].get("range", []))
        return "[" + ",".join(f"{begin}-{end}" for begin, end in ranges) + "]"
    if kind == "SET":
        return "{" + ",".join(sorted(attribute["set"].get("item", []))) + "}"
    return str(attribute["text"]["value"])


def number_text(value: float | str) -> str:
    """Return a number with up to three decimals, half to even, no trailing zeros."""
    exact = Decimal(repr(value) if isinstance(value, float) else str(value))
    text = f"{exact.quantize(Decimal('0.001'), rounding=ROUND_HALF_EVEN):f}"
    return text.rstrip("0").rstrip(".")


def _set_apart(resource: Resource) -> bool:
    if not resource.other and not resource.reservations:
        return False
    if '"volume"' in resource.other or '"persistence"' in resource.other:
        return True
    return any('"marathon_task_id"' in r.labels or '"marathon_framework_id"' in r.labels for r in resource.reservations)
