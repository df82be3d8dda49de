"""Whose turn it is by chance, weighted: `--role_sorter=random`. Values to values; the chance is passed in.

Source: Mesos src/master/allocator/mesos/sorter/random (sorter.cpp, utils.hpp). What anyone holds does not count. A
role's part of all chances is its weight among its siblings that want offers, of the part of the role above it; the
frameworks of a role have equal chances.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from mesos_gpu.mesos.ids import FrameworkId, Role

Draw: TypeAlias = Callable[[], float]
"""Gives a number from 0 up to, and without, 1, each as likely as any other."""
Wanting: TypeAlias = Mapping[Role, Sequence[FrameworkId]]
"""The ids of the frameworks that want offers, by role; none of the lists is empty."""
_T = TypeVar("_T")


def chances(roles: Sequence[Role], weights: Mapping[Role, float], default: float = 1.0) -> dict[Role, float]:
    """Return the chance of each role to come first; together they are 1.

    A role that has others below it competes with them, with the default weight.
    """
    paths = {role: (*_prefixes(role), Role(f"{role}/.")) for role in roles}
    siblings: dict[str, set[Role]] = {}
    for path in paths.values():
        for above, node in zip(("", *path), path, strict=False):
            siblings.setdefault(above, set()).add(node)
    together = {above: sum(weights.get(node, default) for node in nodes) for above, nodes in siblings.items()}
    return {
        role: math.prod(
            weights.get(node, default) / together[above] for above, node in zip(("", *path), path, strict=False)
        )
        for role, path in paths.items()
    }


def shuffled(weighted: Sequence[tuple[_T, float]], draw: Draw) -> list[_T]:
    """Return all of them in a random order, in which the next is always drawn by the weights of those that are left.

    Each waits for as long as an exponential variable of its weight says, and the shortest wait goes first; the chance
    of the first is its part of all weights, and then the same holds among the rest.
    """
    waits = [(-math.log1p(-draw()) / weight, at) for at, (_, weight) in enumerate(weighted)]
    return [weighted[at][0] for _, at in sorted(waits)]


def order(wanting: Wanting, odds: Mapping[Role, float], draw: Draw) -> Iterator[tuple[Role, FrameworkId]]:
    """Yield (role, framework id) of all who want offers, drawn again; a role's frameworks one after another."""
    for role in shuffled([(role, odds[role]) for role in wanting], draw):
        for framework_id in shuffled([(framework_id, 1.0) for framework_id in wanting[role]], draw):
            yield role, framework_id


def _prefixes(role: Role) -> tuple[Role, ...]:
    parts = role.split("/")
    return tuple(Role("/".join(parts[:end])) for end in range(1, len(parts) + 1))
