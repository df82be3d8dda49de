"""One Mesos resource: an exact amount of something, for somebody.

Scalars are integers of thousandths, as Mesos' arithmetic is: `llround(v * 1000)` (src/common/values.cpp). Amounts of
resources with equal `Resource.key` add up; anything else about a resource is part of that key.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import Any, TypeAlias, TypedDict

from mesos_gpu.errors import BadResources
from mesos_gpu.mesos.ids import ANY_ROLE, Role

Ranges: TypeAlias = tuple[tuple[int, int], ...]
Amount: TypeAlias = int | Ranges | frozenset[str]
Document: TypeAlias = dict[str, Any]

MAX_EXPONENT = 14
"""Thousandths of amounts below 10^15 fit into 64 bits, as Mesos keeps them."""
UNRESERVED = ANY_ROLE
# Fields of mesos.Resource that neither the key nor the amount spells out; kept as they came.
_OTHER_FIELDS = ("provider_id", "disk", "revocable", "shared")
_PLAIN = frozenset({"name", "type", "scalar", "role", "allocation_info"})
_MANY = 1e12


class _ResourceDocument(TypedDict):
    name: str
    type: str


class ResourceDocument(_ResourceDocument, total=False):
    """A v1 Resource, in either reservation format; of `scalar`, `ranges` and `set` it has the one that `type` names."""

    scalar: Document
    ranges: Document
    set: Document
    role: Role
    reservation: Document
    reservations: list[Document]
    allocation_info: Document
    disk: Document
    revocable: Document
    shared: Document
    provider_id: Document


@dataclass(frozen=True, slots=True)
class Reservation:
    """One level of the reservation stack; `labels` is canonical JSON text, empty when there are none."""

    role: Role
    type: str = "STATIC"
    principal: str | None = None
    labels: str = ""

    def to_json(self) -> Document:
        """Return it as Resource.ReservationInfo."""
        document: Document = {"type": self.type, "role": self.role}
        if self.principal is not None:
            document["principal"] = self.principal
        if self.labels:
            document["labels"] = json.loads(self.labels)
        return document

    def __str__(self) -> str:
        parts = [self.type, self.role, *([] if self.principal is None else [self.principal])]
        return f"({','.join(parts)})"


@dataclass(frozen=True, slots=True)
class Resource:
    """An amount of one thing: thousandths (SCALAR), inclusive ranges (RANGES) or a set of texts (SET)."""

    name: str
    amount: Amount
    reservations: tuple[Reservation, ...] = ()
    allocation_role: Role | None = None
    other: str = ""
    copies: int = 1
    """How often it is here, which may be more than once for what is shared alone: its amount does not add up."""

    @property
    def type(self) -> str:
        """Return `SCALAR`, `RANGES` or `SET`."""
        if isinstance(self.amount, int):
            return "SCALAR"
        return "RANGES" if isinstance(self.amount, tuple) else "SET"

    @property
    def key(self) -> tuple[object, ...]:
        """Return what must be equal for two amounts to add up.

        Of a DiskInfo that is its source and the id of its volume: how a task wants to see the volume (path, mode) is
        no property of the disk, and may differ from task to task.
        """
        if not self.other:
            return (self.name, self.type, self.reservations, self.allocation_role, "")
        identity = (self.name, self.type, self.reservations, self.allocation_role, identity_text(self.other))
        return (*identity, self.amount) if self.shared else identity

    @property
    def role(self) -> Role:
        """Return the role it is reserved for, `*` when unreserved: the innermost reservation counts."""
        return self.reservations[-1].role if self.reservations else UNRESERVED

    @property
    def empty(self) -> bool:
        """Return whether there is none of it."""
        return not self.amount or self.copies < 1

    @property
    def revocable(self) -> bool:
        """Return whether Mesos may take it back at any time."""
        return '"revocable":' in self.other

    @property
    def shared(self) -> bool:
        """Return whether several tasks may have it at once."""
        return '"shared":' in self.other

    @property
    def dynamic(self) -> bool:
        """Return whether a framework or operator reserved it, and not the agent's flags: the innermost counts."""
        return bool(self.reservations) and self.reservations[-1].type == "DYNAMIC"

    @property
    def refined(self) -> bool:
        """Return whether a reservation was made of something reserved: only RESERVATION_REFINEMENT can say that."""
        return len(self.reservations) > 1

    @property
    def disk(self) -> Document:
        """Return its DiskInfo, empty for anything but a disk that has one."""
        found: Document = json.loads(self.other).get("disk", {}) if self.other else {}
        return found

    @property
    def persistence_id(self) -> str | None:
        """Return the id of the persistent volume that it is, None when it is none."""
        persistence = self.disk.get("persistence")
        return None if persistence is None else str(persistence["id"])

    @property
    def kept(self) -> bool:
        """Return whether an agent keeps it on disk: it is not in the flags that the agent starts with."""
        return self.dynamic or self.persistence_id is not None

    def pushed(self, reservation: Reservation) -> Resource:
        """Return it reserved, on top of the reservations that it has."""
        return replace(self, reservations=(*self.reservations, reservation))

    def popped(self) -> Resource:
        """Return it without its innermost reservation. Raises BadResources when it has none."""
        if not self.reservations:
            raise BadResources(f"Resource {self} is not reserved")
        return replace(self, reservations=self.reservations[:-1])

    def without_volume(self) -> Resource:
        """Return the plain disk that a persistent volume is made of."""
        fields: Document = json.loads(self.other) if self.other else {}
        disk = fields.pop("disk", {})
        fields.pop("shared", None)
        if "source" in disk:
            fields["disk"] = {"source": disk["source"]}
        return replace(self, other=json.dumps(fields, sort_keys=True) if fields else "", copies=1)

    def unshared(self) -> Resource:
        """Return a shared volume as one that only one task may have."""
        fields: Document = json.loads(self.other) if self.other else {}
        fields.pop("shared", None)
        return replace(self, other=json.dumps(fields, sort_keys=True) if fields else "", copies=1)

    def base(self) -> Resource:
        """Return it as the agent's flags give it: static reservations only, no volume, allocated to nobody."""
        static = tuple(reservation for reservation in self.reservations if reservation.type == "STATIC")
        return replace(self.without_volume(), reservations=static, allocation_role=None)

    def plus(self, other: Resource) -> Resource:
        """Return the sum; both have one key."""
        if self.shared:
            return replace(self, copies=self.copies + other.copies)
        return self.of_amount(_plus(self.amount, other.amount))

    def minus(self, other: Resource) -> Resource:
        """Return what is left, never less than nothing; both have one key."""
        if self.shared:
            return replace(self, copies=max(0, self.copies - other.copies))
        return self.of_amount(_minus(self.amount, other.amount))

    def of_amount(self, amount: Amount) -> Resource:
        """Return so much of it."""
        # As `replace` does, in a third of its time: a master adds and takes away at every event.
        return Resource(self.name, amount, self.reservations, self.allocation_role, self.other, self.copies)

    def allocated(self, role: Role | None) -> Resource:
        """Return it allocated to `role`, or to nobody."""
        return Resource(self.name, self.amount, self.reservations, role, self.other, self.copies)

    def holds(self, other: Resource) -> bool:
        """Return whether all of `other` is in this one, of the same key. A persistent volume is taken whole or not."""
        if self.shared:
            return self.copies >= other.copies
        if self.other and self.persistence_id is not None:
            return self.amount == other.amount
        if isinstance(self.amount, int) and isinstance(other.amount, int):
            return other.amount <= self.amount
        return not _minus(other.amount, self.amount)

    @classmethod
    def plain(cls, document: Mapping[str, Any]) -> Resource | None:
        """Return a scalar that is reserved for nobody, as most are, in a fourth of the time of `from_json`.

        None for anything else, and whenever something may be wrong with it.
        """
        name, scalar = document.get("name"), document.get("scalar")
        if type(name) is not str or not name or document.get("type") != "SCALAR" or not document.keys() <= _PLAIN:
            return None
        value = scalar.get("value") if type(scalar) is dict else None
        if type(value) is not float or not 0.001 <= value < _MANY or document.get("role", UNRESERVED) != UNRESERVED:
            return None
        return cls(name, milli(value), (), (document.get("allocation_info") or {}).get("role"))

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Resource:
        """Read a Resource in either reservation format. Raises BadResources when it is not of that shape."""
        name, kind = document.get("name"), document.get("type")
        if not isinstance(name, str) or not name:
            raise BadResources("Empty resource name")
        try:
            amount = _amount(str(kind), document)
        except (TypeError, KeyError, ValueError, AttributeError):
            raise BadResources(f"resource '{name}' of type {kind} has no readable {str(kind).lower()}") from None
        other = {key: document[key] for key in _OTHER_FIELDS if key in document}
        allocation = document.get("allocation_info") or {}
        return cls(
            name=name,
            amount=amount,
            reservations=_reservations(document),
            allocation_role=allocation.get("role"),
            other=json.dumps(other, sort_keys=True) if other else "",
        )

    def to_json(self, *, refined: bool = False, shown: bool = False) -> ResourceDocument:
        """Return it as a Resource document.

        With `refined`, in the format of RESERVATION_REFINEMENT (`reservations`, no `role`); else in the older one
        (`role`, and `reservation` for a dynamic one), which is what Mesos shows to everyone who lacks that capability.
        With `shown`, as endpoints do: in both at once, where the older one can say it.
        """
        document: ResourceDocument = {"name": self.name, "type": self.type}
        if isinstance(self.amount, int):
            document["scalar"] = {"value": self.amount / 1000}
        elif isinstance(self.amount, tuple):
            document["ranges"] = {"range": [{"begin": begin, "end": end} for begin, end in self.amount]}
        else:
            document["set"] = {"item": sorted(self.amount)}
        if self.reservations and (refined or shown or self.refined):
            document["reservations"] = [reservation.to_json() for reservation in self.reservations]
        if not refined and not self.refined:
            document["role"] = self.role
            if self.reservations and self.reservations[0].type == "DYNAMIC":
                inner = self.reservations[0].to_json()
                document["reservation"] = {key: inner[key] for key in ("principal", "labels") if key in inner}
        if self.allocation_role is not None:
            document["allocation_info"] = {"role": self.allocation_role}
        if self.other:
            document.update(json.loads(self.other))
        return document

    def __str__(self) -> str:
        """Return it as Mesos prints it (src/common/resources.cpp, operator<<)."""
        text = self.name
        if self.allocation_role is not None:
            text += f"(allocated: {self.allocation_role})"
        if self.reservations:
            text += f"(reservations: [{','.join(map(str, self.reservations))}])"
        if disk := self.disk:
            text += f"[{disk_text(disk)}]"
        if self.revocable:
            text += "{REV}"
        if self.shared:
            text += "<SHARED>"
        return f"{text}:{amount_text(self.amount)}"


@lru_cache(maxsize=4096)
def milli(value: float | int | str | Decimal) -> int:
    """Return a scalar in thousandths, rounded half away from zero as `llround` does. Raises ValueError off the line."""
    # Mesos multiplies the binary number, so that 4.0005 is 4.
    number = Decimal(value * 1000.0) if isinstance(value, float) else Decimal(str(value)) * 1000
    if not number.is_finite() or number.adjusted() > MAX_EXPONENT + 3:
        raise ValueError(f"{value} is not a finite number of reasonable size")
    return int(number.quantize(Decimal(1), rounding=ROUND_HALF_UP))


def scalar_text(thousandths: int) -> str:
    """Return a scalar as Mesos prints it: up to three decimals, no trailing zeros."""
    sign, size = "-" if thousandths < 0 else "", abs(thousandths)
    whole, part = divmod(size, 1000)
    return f"{sign}{whole}" + (f".{part:03d}".rstrip("0") if part else "")


def amount_text(amount: Amount) -> str:
    """Return an amount as Mesos prints it: `1.5`, `[31000-32000]`, `{a, b}`."""
    if isinstance(amount, int):
        return scalar_text(amount)
    if isinstance(amount, tuple):
        return "[" + ", ".join(f"{begin}-{end}" for begin, end in amount) + "]"
    return "{" + ", ".join(sorted(amount)) + "}"


def merge_ranges(ranges: Ranges) -> Ranges:
    """Return the same numbers as sorted, disjoint, non-adjacent inclusive ranges."""
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(ranges):
        if merged and begin <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return tuple(merged)


def subtract_ranges(ranges: Ranges, taken: Ranges) -> Ranges:
    """Return the numbers of `ranges` that are not in `taken`; both are disjoint and sorted."""
    left: list[tuple[int, int]] = []
    for whole_begin, end in ranges:
        begin = whole_begin
        for gone_begin, gone_end in taken:
            if gone_end < begin or gone_begin > end:
                continue
            if gone_begin > begin:
                left.append((begin, gone_begin - 1))
            begin = gone_end + 1
        if begin <= end:
            left.append((begin, end))
    return tuple(left)


def _plus(a: Amount, b: Amount) -> Amount:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if isinstance(a, tuple) and isinstance(b, tuple):
        return merge_ranges((*a, *b))
    if isinstance(a, frozenset) and isinstance(b, frozenset):
        return a | b
    raise TypeError(f"{a!r} and {b!r} do not add up")


def _minus(a: Amount, b: Amount) -> Amount:
    if isinstance(a, int) and isinstance(b, int):
        return max(0, a - b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return () if a == b else subtract_ranges(a, b)
    if isinstance(a, frozenset) and isinstance(b, frozenset):
        return a - b
    raise TypeError(f"{b!r} cannot be taken from {a!r}")


def _amount(kind: str, document: Mapping[str, Any]) -> Amount:
    if kind == "SCALAR":
        value = document["scalar"]["value"]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise TypeError("not a number")
        return milli(value)
    if kind == "RANGES":
        pairs = [(int(r["begin"]), int(r["end"])) for r in document["ranges"].get("range", [])]
        if any(begin > end for begin, end in pairs):
            raise ValueError("inverted range")
        return merge_ranges(tuple(pairs))
    if kind == "SET":
        return frozenset(str(item) for item in document["set"].get("item", []))
    raise ValueError(f"unknown type {kind}")


def _reservations(document: Mapping[str, Any]) -> tuple[Reservation, ...]:
    if document.get("reservations"):
        return tuple(
            Reservation(r.get("role", UNRESERVED), r.get("type", "STATIC"), r.get("principal"), _labels(r))
            for r in document["reservations"]
        )
    role = document.get("role", UNRESERVED)
    if role == UNRESERVED:
        return ()
    dynamic = document.get("reservation")
    if dynamic is None:
        return (Reservation(role),)
    return (Reservation(role, "DYNAMIC", dynamic.get("principal"), _labels(dynamic)),)


def _labels(document: Mapping[str, Any]) -> str:
    return json.dumps(document["labels"], sort_keys=True) if document.get("labels") else ""


@lru_cache(maxsize=4096)
def identity_text(other: str) -> str:
    """Return what of the other fields distinguishes (Mesos' comparison of DiskInfo: source and persistence id)."""
    fields = json.loads(other)
    if "disk" in fields:
        disk = fields["disk"]
        kept = {key: disk[key] for key in ("source",) if key in disk}
        if "persistence" in disk:
            kept["persistence"] = disk["persistence"]["id"]
        fields["disk"] = kept
    return json.dumps(fields, sort_keys=True)


def disk_text(disk: Mapping[str, Any]) -> str:
    """Return a DiskInfo as Mesos prints it: source, persistence id, path of the volume, and its place on the host."""
    parts = []
    if "source" in disk:
        source = disk["source"]
        root = source.get(str(source.get("type", "")).lower(), {}).get("root")
        parts.append(str(source.get("type", "")) + (f":{root}" if root else ""))
    if "persistence" in disk:
        parts.append(str(disk["persistence"]["id"]))
    text = ",".join(parts)
    if "volume" in disk:
        volume = disk["volume"]
        path = volume.get("container_path", "")
        if "host_path" in volume:
            mode = {"RW": ":rw", "RO": ":ro"}.get(str(volume.get("mode")), "")
            path = f"{volume['host_path']}:{path}{mode}"
        text += f":{path}"
    return text
