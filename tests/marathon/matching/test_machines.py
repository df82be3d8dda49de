"""Agents as a master shows them, and the offers of them."""

from __future__ import annotations

from typing import Any

from mesos_gpu.marathon.matching.machines import Machine, headroom_of, operated, read_machine
from mesos_gpu.mesos.ids import AgentId, OfferId, Role
from mesos_gpu.mesos.resources import Resources

OFFER = OfferId("O")
ML = Role("ml")


def machine(resources: str, **more: Any) -> Machine:
    return Machine(AgentId("S0"), "gpu1", Resources.parse(resources), **more)


def offered(found: Machine, role: Role = ML, **headroom: int) -> Resources | None:
    document = found.offer(OFFER, role, headroom)
    return None if document is None else Resources.from_json(document["resources"]).unallocated()


def test_a_role_is_offered_what_is_its_own_and_what_is_nobodys() -> None:
    found = machine("cpus:2;cpus(ml):1;cpus(web):4;mem:100;gpus(ml):1")
    assert offered(found) == Resources.parse("cpus:2;cpus(ml):1;mem:100;gpus(ml):1")
    assert offered(found, Role("web")) == Resources.parse("cpus:2;cpus(web):4;mem:100")


def test_a_quota_leaves_no_more_than_it_has() -> None:
    found = machine("cpus:2;cpus(ml):1;mem:100;gpus:2")
    assert offered(found, cpus=1500, gpus=0) == Resources.parse("cpus:0.5;cpus(ml):1;mem:100")
    assert offered(found, cpus=9000) == found.free
    assert offered(found, cpus=-1, mem=0) is None


def test_an_agent_that_takes_no_tasks_offers_nothing() -> None:
    assert offered(machine("cpus:2;mem:100", takes_tasks=False)) is None
    assert offered(machine("gpus:2")) is None


def test_an_offer_says_where_its_agent_is() -> None:
    here = machine("cpus:1", attributes=(("rack", "r1"),), region="north", zone="a")
    document: Any = here.offer(OFFER, ML, {})
    assert document["domain"] == {"fault_domain": {"region": {"name": "north"}, "zone": {"name": "a"}}}
    assert document["attributes"] == [{"name": "rack", "type": "TEXT", "text": {"value": "r1"}}]
    assert (document["hostname"], document["agent_id"]) == ("gpu1", {"value": "S0"})


def test_what_is_used_leaves_what_is_free_and_comes_back() -> None:
    found = machine("cpus:2;mem:100")
    taken = Resources.parse("cpus:0.5;mem:40")
    assert found.without(taken).free == Resources.parse("cpus:1.5;mem:60")
    assert found.without(taken).with_back(taken) == found


def test_reservations_and_volumes_are_made_and_undone() -> None:
    reservation = [{"type": "DYNAMIC", "role": "ml", "principal": "p"}]
    disk = {"name": "disk", "type": "SCALAR", "scalar": {"value": 64.0}, "reservations": reservation}
    volume = disk | {"disk": {"persistence": {"id": "v1"}, "volume": {"container_path": "data", "mode": "RW"}}}
    before = machine("cpus:1;disk:100")
    there = operated(
        before,
        [
            {"type": "RESERVE", "reserve": {"resources": [disk]}},
            {"type": "CREATE", "create": {"volumes": [volume]}},
            {"type": "LAUNCH", "launch": {"task_infos": []}},
        ],
    )
    assert there.free == Resources.parse("cpus:1;disk:36") + Resources.from_json([volume])
    undone = [
        {"type": "DESTROY", "destroy": {"volumes": [volume]}},
        {"type": "UNRESERVE", "unreserve": {"resources": [disk]}},
    ]
    assert operated(there, undone) == before


def test_a_master_that_shows_resources_in_short_is_believed() -> None:
    found = read_machine(
        {
            "id": "S1",
            "hostname": "old",
            "resources": {"cpus": 4.0, "mem": 1000.0, "gpus": 2.0, "ports": "[31000-31009]"},
            "used_resources": {"cpus": 1.0, "mem": 100.0, "gpus": 1.0, "ports": "[31002-31003]"},
            "unreserved_resources": {"cpus": 3.0, "mem": 1000.0, "gpus": 2.0},
            "reserved_resources": {"ml": {"cpus": 1.0}},
        }
    )
    assert found.free == Resources.parse("cpus:2;cpus(ml):1;mem:900;gpus:1;ports:[31000-31001,31004-31009]")
    assert found.used == Resources.parse("cpus:1;mem:100;gpus:1;ports:[31002-31003]")
    assert read_machine({"id": "S2", "hostname": "bare"}).free == Resources()


def test_what_quotas_leave() -> None:
    roles = [
        {"name": "ml", "quota": {"limit": {"gpus": 4.0, "cpus": 8.0}, "consumed": {"gpus": 1.5}}},
        {"name": "web", "quota": {"guarantee": {"cpus": 1.0}}},
        {"name": "*"},
    ]
    assert headroom_of(roles) == {"ml": {"gpus": 2500, "cpus": 8000}}
