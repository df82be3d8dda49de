"""A bag of Mesos resources, with exact arithmetic.

Source of the rules: Mesos src/common/resources.cpp and values.cpp.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mesos_gpu.errors import BadResources
from mesos_gpu.mesos.ids import Role
from mesos_gpu.mesos.resource import (
    UNRESERVED,
    Amount,
    Document,
    Ranges,
    Reservation,
    Resource,
    ResourceDocument,
    amount_text,
    merge_ranges,
    milli,
)
from mesos_gpu.mesos.resource_rules import disk_problem, refused_text, reservations_problem, value_problem

WHOLE = 1000
"""Thousandths in one whole GPU."""

# Names that every endpoint shows even when there is none of them (src/common/http.cpp, json for Resources).
_ALWAYS_SHOWN = ("cpus", "gpus", "mem", "disk")
_ENTRY = re.compile(r"^(?P<name>[^:()]+)(?:\((?P<role>[^)]*)\))?:(?P<amount>.+)$", re.DOTALL)


class Resources:
    """An immutable bag of resources. Equal keys are merged and empty ones dropped, so equality is by content."""

    __slots__ = ("_bare", "_by_key")

    _bare: Resources | None
    """What `unallocated` has returned, which books ask for again and again; NOTHING for this one (no cycle)."""

    def __init__(self, resources: Iterable[Resource] = ()) -> None:
        by_key: dict[tuple[object, ...], Resource] = {}
        empty = False
        for resource in resources:
            key = resource.key
            known = by_key.get(key)
            by_key[key] = resource = resource if known is None else known.plus(resource)
            empty = empty or resource.empty
        self._by_key = {key: resource for key, resource in by_key.items() if not resource.empty} if empty else by_key
        self._bare = None

    @classmethod
    def parse(cls, text: str, default_role: Role = UNRESERVED) -> Resources:
        """Read what `--resources` takes: `cpus:2;gpus(ml):1;ports:[31000-32000]`, or a JSON list of Resources.

        Raises BadResources that names the entry.
        """
        if text.strip().startswith("["):
            try:
                return cls.from_json(json.loads(text))
            except json.JSONDecodeError as error:
                raise BadResources(f"resources are not JSON: {error}") from None
        return cls(_entry(part.strip(), default_role) for part in text.split(";") if part.strip())

    @classmethod
    def from_json(cls, documents: Sequence[Mapping[str, Any]]) -> Resources:
        """Read a list of Resource documents. Raises BadResources with Mesos' text for what it would refuse."""
        return cls(read_each(documents))

    def to_json(self, *, refined: bool = False, shown: bool = False) -> list[ResourceDocument]:
        """Return a list of Resource documents; for `refined` and `shown` see Resource.to_json."""
        return [resource.to_json(refined=refined, shown=shown) for resource in self]

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._by_key.values())

    def __len__(self) -> int:
        return len(self._by_key)

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def __eq__(self, other: object) -> bool:
        """Compare what is there, not how a volume is to be mounted; see Resource.key."""
        return self is other or (isinstance(other, Resources) and self._amounts() == other._amounts())

    def __hash__(self) -> int:
        return hash(frozenset(self._amounts().items()))

    def _amounts(self) -> dict[tuple[object, ...], tuple[Amount, int]]:
        return {key: (resource.amount, resource.copies) for key, resource in self._by_key.items()}

    @classmethod
    def _of(cls, by_key: dict[tuple[object, ...], Resource]) -> Resources:
        """Return a bag of resources whose keys are known and of which none is empty."""
        made = cls.__new__(cls)
        made._by_key, made._bare = by_key, None
        return made

    def __add__(self, other: Resources) -> Resources:
        if not self._by_key or not other._by_key:
            return self if self._by_key else other
        by_key = dict(self._by_key)
        for key, resource in other._by_key.items():
            known = by_key.get(key)
            by_key[key] = resource if known is None else known.plus(resource)
        return Resources._of(by_key)

    def __sub__(self, other: Resources) -> Resources:
        """Return what is left; what is not here to be taken is ignored."""
        if not other._by_key:
            return self
        if other is self:
            return NOTHING
        left = dict(self._by_key)
        for key, taken in other._by_key.items():
            if key in left:
                remains = left[key].minus(taken)
                if remains.empty:
                    del left[key]
                else:
                    left[key] = remains
        return Resources._of(left)

    def without(self, *taken: Resources) -> Resources:
        """Return what is left, all allocated to nobody, whoever has what is taken; what is not here is ignored."""
        scalars: dict[str, int] = {}
        left: dict[tuple[object, ...], Resource] | None = None
        for bag in taken:
            for resource in bag._by_key.values():
                if isinstance(resource.amount, int) and not resource.reservations and not resource.other:
                    scalars[resource.name] = scalars.get(resource.name, 0) + resource.amount
                    continue
                resource = resource.allocated(None)
                left = dict(self._by_key) if left is None else left
                if (key := resource.key) in left:
                    left[key] = left[key].minus(resource)
        kept: dict[tuple[object, ...], Resource] = {}
        for key, resource in (self._by_key if left is None else left).items():
            amount = resource.amount
            if resource.name in scalars and isinstance(amount, int) and not (resource.reservations or resource.other):
                if amount > (gone := scalars[resource.name]):
                    kept[key] = resource.of_amount(amount - gone)
            elif left is None or not resource.empty:
                kept[key] = resource
        return Resources._of(kept)

    def contains(self, other: Resources) -> bool:
        """Return whether all of `other` is here, key by key."""
        if other is self:
            return True
        return all(key in self._by_key and self._by_key[key].holds(r) for key, r in other._by_key.items())

    def __str__(self) -> str:
        return "; ".join(f"{r}<{r.copies}>" if r.shared else str(r) for r in self) if self else "{}"

    def __repr__(self) -> str:
        return f"Resources({self})"

    def milli(self, name: str) -> int:
        """Return thousandths of a scalar over all roles, 0 when absent."""
        total = 0
        for resource in self._by_key.values():
            if resource.name == name and isinstance(resource.amount, int):
                total += resource.amount
        return total

    def value(self, name: str) -> float:
        """Return a scalar over all roles in its own unit (cpus, MB, ...)."""
        return self.milli(name) / 1000

    @property
    def gpus(self) -> int:
        """Return the whole GPUs over all roles; a fraction, which `validate_gpus` refuses, is cut off."""
        return self.milli("gpus") // WHOLE

    @property
    def ports(self) -> Ranges:
        """Return all ports as sorted, disjoint inclusive ranges."""
        return merge_ranges(
            tuple(p for r in self if r.name == "ports" and isinstance(r.amount, tuple) for p in r.amount)
        )

    def names(self) -> tuple[str, ...]:
        """Return each name once, in order of first appearance."""
        return tuple(dict.fromkeys(r.name for r in self))

    def filter(self, keep: Callable[[Resource], bool]) -> Resources:
        """Return the resources for which `keep` is true."""
        return Resources._of({key: resource for key, resource in self._by_key.items() if keep(resource)})

    def allocated(self, role: Role) -> Resources:
        """Return the same, allocated to `role`."""
        each = [r.allocated(role) for r in self._by_key.values()]
        if any(r.allocation_role is not None for r in self._by_key.values()):
            return Resources(each)
        return Resources._of({resource.key: resource for resource in each})

    def unallocated(self) -> Resources:
        """Return the same, without saying to whom it is allocated."""
        if self._bare is None:
            allocated = any(resource.allocation_role is not None for resource in self._by_key.values())
            self._bare = Resources(r.allocated(None) for r in self) if allocated else NOTHING
        return self if self._bare is NOTHING else self._bare

    def unreserved(self) -> Resources:
        """Return what anyone may have."""
        return self.filter(lambda r: not r.reservations)

    def shared(self) -> Resources:
        """Return what several tasks may have at once, each with as many copies as are here."""
        return self.filter(lambda r: r.shared) if any(r.other and r.shared for r in self) else NOTHING

    def nonshared(self) -> Resources:
        """Return what one task alone may have."""
        return self.filter(lambda r: not r.shared) if any(r.other and r.shared for r in self) else self

    def single(self) -> Resources:
        """Return the same with one copy of everything."""
        return self if all(r.copies == 1 for r in self) else Resources(replace(r, copies=1) for r in self)

    def reserved(self, role: Role) -> Resources:
        """Return what is reserved for exactly `role`."""
        return self.filter(lambda r: bool(r.reservations) and r.role == role)

    def reserved_roles(self) -> tuple[Role, ...]:
        """Return the roles that something is reserved for, sorted."""
        return tuple(sorted({r.role for r in self if r.reservations}))

    def kept(self) -> Resources:
        """Return what an agent keeps on disk: dynamic reservations and persistent volumes."""
        return self.filter(lambda r: r.kept)

    def base(self) -> Resources:
        """Return the same as the agent's flags give it; see Resource.base."""
        return Resources(resource.base() for resource in self)

    def find(self, name: str, thousandths: int, roles: Sequence[str]) -> Resources | None:
        """Take so much of a scalar from resources of `roles`, tried in that order, possibly from several.

        Returns what was taken, nothing for 0, and None when there is not enough. A persistent volume is no such amount:
        it is taken whole, by whoever wants that very volume.
        """
        if thousandths <= 0:
            return NOTHING
        taken: list[Resource] = []
        missing = thousandths
        for role in roles:
            for resource in self._by_key.values():
                if resource.name != name or resource.role != role or missing <= 0:
                    continue
                if isinstance(resource.amount, int) and resource.persistence_id is None:
                    part = min(missing, resource.amount)
                    taken.append(resource.of_amount(part))
                    missing -= part
        return None if missing > 0 else Resources(taken)

    def summary(self) -> Document:
        """Return the object that Mesos' unversioned endpoints show: numbers by name, ranges and sets as text."""
        shown: Document = dict.fromkeys(_ALWAYS_SHOWN, 0.0)
        others: dict[str, Amount] = {}
        for resource in self:
            name = f"{resource.name}_revocable" if resource.revocable else resource.name
            if isinstance(resource.amount, int):
                shown[name] = (milli(shown.get(name, 0.0)) + resource.amount) / 1000
            else:
                plain = Resource(name, resource.amount)
                others[name] = plain.plus(Resource(name, others[name])).amount if name in others else plain.amount
        return {**shown, **{name: amount_text(amount) for name, amount in others.items()}}


NOTHING = Resources()
_VALUES = {"SCALAR": "scalar", "RANGES": "ranges", "SET": "set"}
_MOST = 1e15


def validate(documents: Sequence[Mapping[str, Any]]) -> str | None:
    """Return why Mesos would refuse these Resource documents, in its words; None when it would not."""
    try:
        read_each(documents)
    except BadResources as error:
        return str(error)
    return None


def read_each(documents: Sequence[Mapping[str, Any]]) -> list[Resource]:
    """Return each of these Resource documents as a value. Raises BadResources with Mesos' text for what it refuses."""
    return [_read(document) for document in documents]


def _read(document: Mapping[str, Any]) -> Resource:
    plain = Resource.plain(document)
    if plain is not None:
        return plain
    try:
        problem = value_problem(document)
        shown = None if problem is None else refused_text(document)
    except (TypeError, KeyError, ValueError, AttributeError):
        problem = None  # not of the shape of a message: said below
    if problem is not None:
        raise BadResources(f"Resource '{shown}' is invalid: {problem}")
    resource = Resource.from_json(document)
    problem = disk_problem(document) or reservations_problem(document) or _sharing_problem(resource)
    if problem is not None:
        raise BadResources(f"Resource '{resource}' is invalid: {problem}")
    return resource


def _sharing_problem(resource: Resource) -> str | None:
    """Return why a resource cannot be shared; only persistent volumes can."""
    if not resource.other or not resource.shared:
        return None
    if resource.name != "disk":
        return f"Resource {resource.name} cannot be shared"
    return "Only persistent volumes can be shared" if resource.persistence_id is None else None


def validate_gpus(resources: Resources) -> str | None:
    """Return why Mesos refuses a fraction of a GPU, in its words; None for whole GPUs.

    Mesos truncates a binary product and so lets 1.001 pass; thousandths do not (docs/reference/differences.md).
    """
    if resources.milli("gpus") % WHOLE:
        return "Invalid 'gpus' resource: The 'gpus' resource must be an unsigned integer"
    return None


def _entry(text: str, default_role: Role) -> Resource:
    match = _ENTRY.match(text)
    if match is None:
        raise BadResources(f"'{text}' is not a resource; write NAME:VALUE or NAME(ROLE):VALUE, for example gpus:2")
    role = Role((match["role"] or default_role).strip())
    try:
        amount = _parse_amount(match["amount"].strip())
    except ValueError as error:
        raise BadResources(f"'{text}' is not a resource: {error}") from None
    return Resource(match["name"].strip(), amount, () if role == UNRESERVED else (Reservation(role),))


def _parse_amount(text: str) -> Amount:
    if text.startswith("[") and text.endswith("]"):
        pairs = [tuple(int(n) for n in part.split("-")) for part in text[1:-1].split(",") if part.strip()]
        if any(len(pair) != 2 or pair[0] > pair[1] for pair in pairs):
            raise ValueError("ranges are written [BEGIN-END, ...] with BEGIN <= END")
        return merge_ranges(tuple((pair[0], pair[1]) for pair in pairs))
    if text.startswith("{") and text.endswith("}"):
        return frozenset(item.strip() for item in text[1:-1].split(",") if item.strip())
    try:
        thousandths = milli(text)
    except (ValueError, ArithmeticError):
        raise ValueError(f"{text} is neither a number, [ranges] nor {{a, set}}") from None
    if thousandths < 0:
        raise ValueError("it is less than 0")
    return thousandths
