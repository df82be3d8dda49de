"""What is free of an agent is most often what was offered and declined: it is the same, and so is how it is shown."""

from __future__ import annotations

import pytest

from mesos_gpu.master.model.model import Agent, Offer, Shown
from mesos_gpu.mesos.ids import AgentId, FrameworkId, OfferId, Role
from mesos_gpu.mesos.resources import Resources

ROLE, F = Role("ml"), FrameworkId("F")


def agent() -> Agent:
    total = Resources.parse("cpus:8;mem:1024;gpus(ml):2;ports:[1-9]")
    return Agent(AgentId("S"), {"hostname": "h"}, "slave(1)@127.0.0.1:5051", "1.12.0", (), total, 0.0)


def offered(one: Agent, number: int) -> Offer:
    shown = one.shown(one.free, ROLE, refined=True, several_roles=True)
    return Offer(OfferId(f"O{number}"), F, one.id, ROLE, shown.resources, {}, shown.unallocated)  # type: ignore[typeddict-item]


def test_what_was_declined_is_free_as_it_was() -> None:
    one = agent()
    one.charge(F, Resources.parse("cpus:2;mem:24").allocated(ROLE))
    before = one.free
    first = offered(one, 1)
    one.add_offer(first)
    assert one.offered == first.resources
    one.drop_offer(first)
    assert one.free is before
    second = offered(one, 2)
    assert second.resources is first.resources
    one.add_offer(second)
    one.drop_offer(second)
    one.charge(F, Resources.parse("cpus:1").allocated(ROLE))
    assert offered(one, 3).resources == Resources.parse("cpus:5;mem:1000;gpus(ml):2;ports:[1-9]").allocated(ROLE)


@pytest.mark.parametrize("role", [ROLE, Role("other")])
@pytest.mark.parametrize("refined", [False, True])
@pytest.mark.parametrize("several_roles", [False, True])
def test_each_framework_is_shown_it_as_it_understands(role: Role, refined: bool, several_roles: bool) -> None:
    one = agent()
    offered(one, 1)
    shown = one.shown(one.free, role, refined=refined, several_roles=several_roles)
    assert shown == Shown.of(one.free, role, refined=refined, several_roles=several_roles)
    assert all(("allocation_info" in document) == several_roles for document in shown.documents)
    assert any("reservations" in document for document in shown.documents) == refined
