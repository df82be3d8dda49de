"""Does an offer fit an app?"""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from msgspec.structs import replace

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching import queue_requests
from mesos_gpu.marathon.matching.matching import GpuBehaviour, Match, Refusal, RolesBehaviour, match
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.matching.reasons import Reason
from mesos_gpu.marathon.model.gangs import Membership
from mesos_gpu.marathon.model.instances import Instance, Phase, Task
from mesos_gpu.mesos.ids import Role
from mesos_gpu.placement.demand import Demand
from tests.support.marathon.builders import T0, offer, scalar, spec

RESTRICTED, UNRESTRICTED = GpuBehaviour.RESTRICTED, GpuBehaviour.UNRESTRICTED


def decide(wanted: RunSpec, behaviour: GpuBehaviour = RESTRICTED, **changes: Any) -> Match | Refusal:
    found = Offer.from_json(offer(**changes))
    return match(wanted, found, found.resources, [], behaviour=behaviour, now_s=T0)


def reasons(wanted: RunSpec, behaviour: GpuBehaviour = RESTRICTED, **changes: Any) -> tuple[Reason, ...]:
    found = decide(wanted, behaviour, **changes)
    return found.reasons if isinstance(found, Refusal) else ()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"cpus": 0.05}, Reason.INSUFFICIENT_CPUS),
        ({"mem": 31.999}, Reason.INSUFFICIENT_MEMORY),
        ({"disk": 9}, Reason.INSUFFICIENT_DISK),
        ({"gpus": 1}, Reason.INSUFFICIENT_GPUS),
        ({"ports": ()}, Reason.INSUFFICIENT_PORTS),
    ],
)
def test_what_is_missing_is_the_reason(changes: dict[str, Any], reason: Reason) -> None:
    wanted = spec(disk=10, gpus=2)
    assert reasons(wanted, **{"gpus": 2, **changes}) == (reason,)
    assert isinstance(decide(wanted, gpus=2), Match)


def test_every_reason_is_given_in_the_order_of_the_funnel() -> None:
    found = reasons(spec(gpus=2, constraints=[["rack", "IS", "r1"]]), cpus=0.01, mem=0, gpus=1)
    assert found == (
        Reason.UNFULFILLED_CONSTRAINT,
        Reason.INSUFFICIENT_CPUS,
        Reason.INSUFFICIENT_MEMORY,
        Reason.INSUFFICIENT_GPUS,
    )


def test_an_offer_for_another_role_does_not_fit() -> None:
    assert reasons(spec(), allocation_info={"role": "other"}) == (Reason.UNFULFILLED_ROLE,)


def test_resources_of_roles_that_are_not_accepted_do_not_count() -> None:
    wanted = spec(acceptedResourceRoles=["slave_public"])
    assert reasons(wanted)[0] is Reason.UNFULFILLED_ROLE
    assert Reason.INSUFFICIENT_CPUS in reasons(wanted)


@pytest.mark.parametrize(
    ("behaviour", "accepted", "role"),
    [
        (RolesBehaviour.ANY, None, "slave_public"),
        (RolesBehaviour.UNRESERVED, None, "*"),
        (RolesBehaviour.RESERVED, None, "slave_public"),
        (RolesBehaviour.RESERVED, ["*"], "*"),
    ],
)
def test_what_an_app_takes_that_does_not_say_is_the_flags_choice(
    behaviour: RolesBehaviour, accepted: list[str] | None, role: str
) -> None:
    reserved = [scalar(name, 100, "slave_public") for name in ("cpus", "mem", "gpus")]
    found = Offer.from_json(offer(gpus=1, ports=(), extra=reserved))
    given = {} if accepted is None else {"acceptedResourceRoles": accepted}
    wanted = spec(gpus=1, portDefinitions=[], **given)
    result = match(wanted, found, found.resources, [], behaviour=RESTRICTED, now_s=T0, roles_behaviour=behaviour)
    assert isinstance(result, Match)
    assert {resource.role for resource in result.resources} == {role}


def test_an_app_waits_for_what_is_reserved_where_only_that_may_be_taken() -> None:
    found = Offer.from_json(offer(gpus=1, ports=()))
    wanted = spec(gpus=1, portDefinitions=[])
    reserved = RolesBehaviour.RESERVED
    result = match(wanted, found, found.resources, [], behaviour=RESTRICTED, now_s=T0, roles_behaviour=reserved)
    assert isinstance(result, Refusal)
    assert result.reasons[0] is Reason.UNFULFILLED_ROLE


def test_gpus_may_come_from_several_roles() -> None:
    found = decide(spec(gpus=2), gpus=1, extra=[scalar("gpus", 1, "slave_public")])
    assert isinstance(found, Match)
    taken = [(r.role, r.amount) for r in found.resources if r.name == "gpus"]
    assert taken == [("slave_public", 1000), ("*", 1000)]


def test_volumes_revocable_and_labelled_resources_do_not_count() -> None:
    labels = {"labels": [{"key": "marathon_framework_id", "value": "F"}, {"key": "marathon_task_id", "value": "t"}]}
    extra = [
        {**scalar("cpus", 5), "revocable": {}},
        {**scalar("cpus", 5, "slave_public"), "reservation": {"labels": labels}},
        {**scalar("disk", 500, "slave_public"), "disk": {"persistence": {"id": "p"}, "volume": {}}},
    ]
    assert reasons(spec(cpus=2, disk=400), cpus=1, disk=300, extra=extra) == (
        Reason.INSUFFICIENT_CPUS,
        Reason.INSUFFICIENT_DISK,
    )


@pytest.mark.parametrize(
    ("flag", "label", "gpus", "declined"),
    [
        (RESTRICTED, None, 2, True),
        (RESTRICTED, None, 0, False),
        (UNRESTRICTED, None, 2, False),
        (RESTRICTED, "unrestricted", 2, False),
        (UNRESTRICTED, "restricted", 2, True),
        (RESTRICTED, "foo", 2, True),
        (UNRESTRICTED, "foo", 2, False),
    ],
)
def test_scarce_gpus(flag: GpuBehaviour, label: str | None, gpus: int, declined: bool) -> None:
    labels = {} if label is None else {"GPU_SCHEDULING_BEHAVIOR": label}
    found = reasons(spec(labels=labels), flag, gpus=gpus)
    assert found == ((Reason.DECLINED_SCARCE_RESOURCES,) if declined else ())
    assert isinstance(decide(spec(gpus=1, labels=labels), flag, gpus=2), Match)


def test_gpus_of_other_roles_make_an_agent_scarce_too() -> None:
    extra = [scalar("gpus", 1, "other")]
    assert reasons(spec(), extra=extra) == (Reason.DECLINED_SCARCE_RESOURCES,)


@pytest.mark.parametrize(
    ("window", "declined"),
    [
        ({"start": {"nanoseconds": int((T0 - 10) * 1e9)}}, True),
        ({"start": {"nanoseconds": int((T0 + 10) * 1e9)}}, False),
        ({"start": {"nanoseconds": int((T0 - 10) * 1e9)}, "duration": {"nanoseconds": 5_000_000_000}}, False),
        ({"start": {"nanoseconds": int((T0 - 10) * 1e9)}, "duration": {"nanoseconds": 50_000_000_000}}, True),
    ],
)
def test_agents_in_maintenance_are_left_alone(window: dict[str, Any], declined: bool) -> None:
    assert reasons(spec(), unavailability=window) == ((Reason.AGENT_MAINTENANCE,) if declined else ())


def test_a_match_never_takes_more_than_is_offered() -> None:
    found = Offer.from_json(offer(gpus=4))
    wanted = spec(gpus=3, disk=5, portDefinitions=[{"port": 0}, {"port": 0}])
    taken = match(wanted, found, found.resources, [], behaviour=RESTRICTED, now_s=T0, pick=123456)
    assert isinstance(taken, Match)
    assert found.resources.contains(taken.resources)
    assert taken.resources.gpus == 3
    assert len(taken.ports) == 2


def test_constraints_see_the_instances_of_the_app() -> None:
    task = Task("t", "S9", "h0", (), "v", 1.0)
    placed = [Instance("i", "/a", "v", "*", 1.0, phase=Phase.RUNNING, task=task)]
    wanted, found = spec(constraints=[["hostname", "UNIQUE"]]), Offer.from_json(offer(host="h0"))
    refused = match(wanted, found, found.resources, placed, behaviour=RESTRICTED, now_s=T0)
    assert refused == Refusal((Reason.UNFULFILLED_CONSTRAINT,))


def test_what_comes_again_under_another_id_is_not_read_again() -> None:
    first = Offer.from_json(offer("O1", gpus=2, attributes={"rack": "a"}))
    first.reasons["it"] = ()
    common = first.usable((Role("*"),), first.resources)
    again = first.again(offer("O2", gpus=2, attributes={"rack": "a"}))
    assert again == Offer.from_json(offer("O2", gpus=2, attributes={"rack": "a"}))
    assert again is not None
    assert again.reasons is first.reasons
    assert again.usable((Role("*"),), again.resources) is common
    assert first.again(first.document) is first


@pytest.mark.parametrize(
    "other",
    [{"gpus": 1}, {"attributes": {"rack": "b"}}, {"host": "h2"}, {"cpus": 3}],
    ids=lambda other: next(iter(other)),
)
def test_what_says_anything_else_is_read(other: dict[str, Any]) -> None:
    told: dict[str, Any] = {"gpus": 2, "attributes": {"rack": "a"}}
    assert Offer.from_json(offer("O1", **told)).again(offer("O2", **{**told, **other})) is None


DEMAND = Demand(100, 32, 1)


@pytest.mark.parametrize(
    ("changes", "ends_s"),
    [
        ({}, None),
        ({"labels": {"MESOS_GPU_RUN": "true"}}, inf),
        ({"maxRuntimeSeconds": 60}, 163.0),
        ({"maxRuntimeSeconds": 60, "taskKillGracePeriodSeconds": 10}, 170.0),
        ({"maxRuntimeSeconds": 1}, 120.0),
    ],
)
def test_until_when_a_task_runs(changes: dict[str, object], ends_s: float | None) -> None:
    task = Task("t", "S0", "h0", (), "v", 90.0, started_at_s=100.0)
    instance = Instance("i", "/a", "v", "*", 0.0, task=task)
    found = queue_requests.running(instance, task, spec(**changes), "S0", DEMAND, now_s=120.0, ending=False)
    assert (found.ends_s, found.unit, found.ending) == (ends_s, "i", False)
    gang = replace(task, gang=Membership("g", 0, ("h0", "h1"), 31000))
    found = queue_requests.running(instance, gang, spec(**changes), "S0", DEMAND, now_s=120.0, ending=True)
    assert (found.ends_s, found.unit, found.ending) == (120.0, "g", True)


def test_shares_of_roles_are_of_gpus_and_of_cpus_where_nobody_has_gpus() -> None:
    one, none = Demand(1000, 1, 1), Demand(3000, 1, 0)
    assert queue_requests.role_shares([("a", one), ("b", none)]) == {"a": 1.0, "b": 0.0}
    assert queue_requests.role_shares([("a", none), ("b", Demand(1000, 1))]) == {"a": 0.75, "b": 0.25}
    assert queue_requests.role_shares([]) == {}


def test_members_of_a_gang_on_one_machine_share_its_slots() -> None:
    found = Membership("g", 1, ("h0", "h1", "h1"), 31000, 2).variables()
    assert (found["MPI_HOSTS"], found["MASTER_ADDR"], found["RANK"]) == ("h0:2,h1:4", "h0", "1")
