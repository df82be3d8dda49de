"""Where instances may go: Marathon's constraint operators.

Source: Marathon's mesos/Constraints.scala.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import InvalidOperation
from typing import TYPE_CHECKING, Protocol

from mesos_gpu.marathon.definitions.patterns import like
from mesos_gpu.marathon.matching.offers import number_text

if TYPE_CHECKING:
    from mesos_gpu.marathon.model.instances import Instance, Task

_HOST_FIELDS = ("hostname", "@hostname")
FAULT_DOMAIN = ("@region", "@zone")
"""Fields of constraints by which an app chooses its region itself."""


class Place(Protocol):
    """An agent, as far as constraints look at it: an offer of it, or a task there."""

    @property
    def host(self) -> str:
        """Its name."""

    @property
    def region(self) -> str | None:
        """Its region, if it has one."""

    @property
    def zone(self) -> str | None:
        """Its zone, if it has one."""

    @property
    def attributes(self) -> tuple[tuple[str, str], ...]:
        """Its attributes as text."""


class Placed(Protocol):
    """An instance of an app, as constraints count it: by its task."""

    @property
    def task(self) -> Task | None:
        """Its task, if it has one."""


def fulfilled(constraint: Sequence[str], place: Place, placed: Sequence[Task], instances: int) -> bool:
    """Return whether one more instance may go to an agent.

    `placed` are the tasks of the app that count (those not about to be replaced), oldest first, `instances` how many
    are asked for.
    """
    field, operator, value = constraint[0], constraint[1].upper(), constraint[2] if len(constraint) > 2 else None
    here = value_at(field, place)
    if here is None:
        return operator == "UNLIKE"
    if operator in ("LIKE", "UNLIKE"):
        return like(value or "", here) == (operator == "LIKE")
    if operator == "IS":
        return _same(value or "", here)
    taken = [text for task in placed if (text := value_at(field, task)) is not None]
    counts = Counter(taken)
    if operator == "UNIQUE":
        return counts[here] == 0
    if operator == "CLUSTER":
        return here == value if value else not taken or here == taken[0]
    if operator == "MAX_PER":
        return counts[here] < int(value or "0")
    return _balanced(counts, here, instances, int(value) if value is not None else None)


def all_fulfilled(
    constraints: Sequence[Sequence[str]],
    place: Place,
    placed: Sequence[Placed],
    instances: int,
    home_region: str | None = None,
) -> bool:
    """Return whether every constraint lets one more instance go to an agent.

    An app that names no region or zone stays in `home_region`, the master's, or where there are none.
    """
    if not in_home_region(constraints, place, home_region):
        return False
    tasks = placed_tasks(placed)
    return all(fulfilled(constraint, place, tasks, instances) for constraint in constraints)


def in_home_region(constraints: Sequence[Sequence[str]], place: Place, home_region: str | None) -> bool:
    """Return whether an app may go to the region of an agent: to the master's, or its constraints choose."""
    return place.region in (None, home_region) or any(c[0] in FAULT_DOMAIN for c in constraints)


def placed_tasks(placed: Sequence[Placed]) -> list[Task]:
    """Return the tasks of instances, oldest first."""
    return sorted((i.task for i in placed if i.task is not None), key=lambda task: task.staged_at_s)


def from_fullest(candidates: Sequence[Instance], constraints: Sequence[Sequence[str]], count: int) -> list[Instance]:
    """Return `count` of the candidates to end, in their order, but so that every GROUP_BY stays balanced.

    Each is taken from the fullest groups. Instances without a task are in no group and go first.
    """
    fields = [constraint[0] for constraint in constraints if constraint[1].upper() == "GROUP_BY"]
    left = list(candidates)
    chosen: list[Instance] = []
    if not fields:
        return left[:count]
    while left and len(chosen) < count:
        groups = [Counter(value_at(field, i.task) for i in left if i.task is not None) for field in fields]

        def emptier(instance: Instance, groups: Sequence[Counter[str | None]] = tuple(groups)) -> tuple[int, ...]:
            if instance.task is None:
                return ()
            return tuple(-g[value_at(f, instance.task)] for f, g in zip(fields, groups, strict=True))

        # min() takes the first of equals, so that the order of the candidates decides among them.
        first = min(left, key=emptier)
        left.remove(first)
        chosen.append(first)
    return chosen


def _balanced(counts: Mapping[str, int], here: str, instances: int, groups: int | None) -> bool:
    """GROUP_BY: each of the groups takes its share, the remainder spread one each.

    Without a number Marathon divides by zero; we take as many groups as were seen so far
    (docs/reference/differences.md).
    """
    used = len([value for value, count in counts.items() if count])
    seen = len({*counts, here})
    wanted = max(1, groups if groups is not None else seen)
    share, rest = divmod(instances, wanted)
    if counts.get(here, 0) == 0:
        return groups is None or used < wanted
    full = sum(1 for count in counts.values() if count > share)
    return counts[here] < share or (counts[here] == share and full < rest)


def _same(wanted: str, here: str) -> bool:
    try:
        return number_text(wanted) == number_text(here)
    except InvalidOperation:
        return wanted == here


def value_at(field: str, place: Place) -> str | None:
    """Return what a place has for the field of a constraint; None where it has nothing of that name."""
    if field in _HOST_FIELDS:
        return place.host
    if field == "@region":
        return place.region
    if field == "@zone":
        return place.zone
    return next((text for name, text in place.attributes if name == field), None)
