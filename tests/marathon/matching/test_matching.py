"""Does an offer fit an app?"""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.matching import GpuBehaviour, Match, Refusal, RolesBehaviour, match
from mesos_gpu.marathon.matching.offers import Offer
from mesos_gpu.marathon.matching.reasons import Reason
from mesos_gpu.marathon.model.instances import Instance, Phase, Task
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
