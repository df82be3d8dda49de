"""Shared persistent volumes: offered also while they are in use, held by any number of tasks, counted once. Pure.

Source: Mesos src/master/allocator/mesos/hierarchical.hpp (Slave::updateAvailable), sorter/drf/sorter.hpp (Allocation),
src/master/master.cpp (_accept).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from mesos_gpu.mesos.ids import AgentId
from mesos_gpu.mesos.resource import Resource
from mesos_gpu.mesos.resources import Resources

Token: TypeAlias = tuple[str, tuple[object, ...]]
"""(agent id, key of the resource): one shared volume of the cluster."""


def free_of(total: Resources, *taken: Resources) -> Resources:
    """Return what of an agent's total may be offered, unallocated. What is shared always is."""
    left = total.without(*taken)
    shared = total.shared()
    return left.nonshared() + shared if shared else left


def adds_up(total: Resources, *parts: Resources) -> bool:
    """Return whether these are an agent's whole: exactly, but for what is shared, all of which must be known to it."""
    together, shared = Resources(), total.shared()
    for part in parts:
        together = together + part.nonshared()
    return together == total.nonshared() and all(shared.contains(part.shared().single()) for part in parts)


def tokens(agent_id: AgentId, resources: Resources) -> dict[Token, dict[str, int]]:
    """Return the shared volumes among an agent's resources (unallocated)."""
    return {
        (agent_id, resource.key): {resource.name: resource.amount}
        for resource in resources.shared()
        if isinstance(resource.amount, int)
    }


def summed(parts: Iterable[Resources]) -> Resources:
    """Return the sum over several agents for people to see: a volume of each counts, though they may look alike."""
    return Resources(resource.unshared() if resource.shared else resource for part in parts for resource in part)


def uses(resources: Resources, volumes: Iterable[Resource]) -> bool:
    """Return whether one of the volumes is among resources, whoever these are allocated to."""
    ids = {(resource.role, resource.persistence_id) for resource in resources if resource.disk}
    return any((volume.role, volume.persistence_id) in ids for volume in volumes)


class Left(Struct, frozen=True):
    """What is left of the offers of an ACCEPT. One copy of what is shared serves any number of its tasks."""

    resources: Resources
    shared: Resources
    """All that was offered and created of what is shared, also what tasks took already."""

    @classmethod
    def of(cls, offered: Resources) -> Left:
        """Return what the offers hold."""
        return cls(offered, offered.shared())

    @property
    def available(self) -> Resources:
        """Return what a task may use."""
        return self.resources.nonshared() + self.shared if self.shared else self.resources

    def less(self, taken: Resources) -> Left:
        """Return what is left when a task has taken this."""
        return replace(self, resources=self.resources - taken)

    def after(self, resources: Resources) -> Left:
        """Return what is left when an operation has made these of what was left."""
        before, now = self.resources.shared(), resources.shared()
        return Left(resources, self.shared - (before - now) + (now - before))
