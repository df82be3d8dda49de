"""What each refusal states: what was requested, what the offer has, and what an empty machine would have."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.machines import Machine
from mesos_gpu.marathon.matching.matching import (
    Finding,
    GpuBehaviour,
    Match,
    RolesBehaviour,
    Rules,
    capacity,
    explain,
    match_new,
)
from mesos_gpu.marathon.matching.reasons import Reason
from mesos_gpu.marathon.why.verdict import Counted, task_at
from mesos_gpu.mesos.ids import Role
from tests.support.marathon.builders import ROLE, spec
from tests.support.marathon.random_offers import CARDS, PARTS, machine, machines, rules, specs


def lacking(wanted: RunSpec, there: Machine, placed: Any = (), rules: Rules | None = None) -> list[Finding]:
    role = Role(wanted.document["role"])
    here, empty = there.offer_of(there.free, role), there.offer_of(there.total, role)
    return list(explain(wanted, here, empty, placed, rules or Rules()))


Seen = tuple[str, Any, Any, Any, bool]


def seen(findings: list[Finding]) -> list[Seen]:
    return [(one.subject, one.requested, one.found, one.empty, one.lasting) for one in findings]


@pytest.mark.parametrize(
    ("asked", "there", "found"),
    [
        ({"gpus": 2}, {"used_resources": {"gpus": 3}}, [("gpus", 2000, 1000, 4000, False)]),
        ({"gpus": 5}, {}, [("gpus", 5000, 4000, 4000, True)]),
        ({"constraints": [["rack", "IS", "r1"]]}, {}, [("rack IS r1", ("rack", "IS", "r1"), None, None, True)]),
        (
            {"constraints": [["rack", "IS", "r1"]]},
            {"attributes": {"rack": "r2"}},
            [("rack IS r1", ("rack", "IS", "r1"), "r2", "r2", True)],
        ),
        (
            {"portDefinitions": [{"port": 88}], "requirePorts": True},
            {},
            [("ports", (88,), ((31000, 32000),), ((31000, 32000),), True)],
        ),
        (
            {"portDefinitions": [{"port": 31000}], "requirePorts": True},
            {"used_resources": {"ports": "[31000-31001]"}},
            [("ports", (31000,), ((31002, 32000),), ((31000, 32000),), False)],
        ),
        (
            {"portDefinitions": [{"port": 0}, {"port": 0}]},
            {"used_resources": {"ports": "[31000-31999]"}},
            [("port_count", 2, 1, 1001, False)],
        ),
        (
            {"gpuShare": {"memGiB": 6}},
            {"attributes": CARDS, "total": PARTS, "used_resources": {"gpu_mem": "[0-11, 1000-1012]"}},
            [("gpu_mem", (6,), (4, 3), (16, 16), False)],
        ),
        # ALIYUN_COM_GPU_MEM_DEV: no GPU of this size exists, however much of the others is free.
        (
            {"gpuShare": {"memGiB": 6, "cardGiB": 15}},
            {"attributes": CARDS, "total": PARTS},
            [("gpu_mem", (6,), (), (), True)],
        ),
        (
            {"gpuShare": {"memGiB": 40}},
            {"attributes": CARDS, "total": PARTS},
            [("gpu_mem", (40,), (16, 16), (16, 16), True)],
        ),
        (
            {
                "role": ROLE,
                "acceptedResourceRoles": ["*"],
                "container": {
                    "type": "MESOS",
                    "volumes": [{"containerPath": "d", "mode": "RW", "persistent": {"size": 2000}}],
                },
            },
            {},
            [("volume", (2_000_000,), (1_000_000,), (1_000_000,), True)],
        ),
    ],
)
def test_a_finding_states_what_was_requested_found_and_what_an_empty_machine_has(
    asked: dict[str, Any], there: dict[str, Any], found: list[Seen]
) -> None:
    assert seen(lacking(spec(**asked), machine(**there))) == found


def test_roles_that_are_not_accepted_are_stated_with_those_of_the_offer() -> None:
    wanted = spec(acceptedResourceRoles=[ROLE], portDefinitions=[])
    first, *others = lacking(wanted, machine())
    assert seen([first]) == [("role", (ROLE,), ("*",), ("*",), True)]
    assert {one.reason for one in others} == {Reason.INSUFFICIENT_CPUS, Reason.INSUFFICIENT_MEMORY}


@pytest.mark.parametrize(
    ("behaviour", "starts"),
    [(RolesBehaviour.ANY, True), (RolesBehaviour.UNRESERVED, False), (RolesBehaviour.RESERVED, True)],
)
def test_accepted_resource_roles_default_behavior_decides_which_roles_count(
    behaviour: RolesBehaviour, starts: bool
) -> None:
    there = machine(
        unreserved_resources={"cpus": 8, "mem": 16384},
        reserved_resources={ROLE: {"gpus": 4, "cpus": 1, "mem": 512}},
    )
    findings = lacking(spec(gpus=1, portDefinitions=[]), there, rules=Rules(roles_behaviour=behaviour))
    assert seen(findings) == ([] if starts else [("gpus", 1000, 0, 0, True)])


def test_what_is_reserved_for_a_role_above_is_offered_to_it() -> None:
    there = machine(unreserved_resources={}, reserved_resources={"eng": {"cpus": 1}, "web": {"cpus": 2}})
    assert there.offer_of(there.total, Role("eng/dev")).resources.milli("cpus") == 1000
    assert there.offer_of(there.total, Role("engine")).resources.milli("cpus") == 0


def test_an_agent_in_another_region_than_the_masters_is_refused_only_if_that_is_known() -> None:
    there = machine(domain={"fault_domain": {"region": {"name": "north"}, "zone": {"name": "a"}}})
    home = Rules(home_region="south", knows_region=True)
    assert seen(lacking(spec(), there, rules=home)) == [("region", "south", "north", "north", True)]
    assert lacking(spec(constraints=[["@region", "IS", "north"]]), there, rules=home) == []
    assert lacking(spec(), there) == []


def test_instances_that_constraints_count_are_no_lasting_reason() -> None:
    there = machine(attributes={"rack": "r1"})
    placed = [Counted(task_at(there, "gpu1", 0.0))]
    (one,) = lacking(spec(constraints=[["rack", "UNIQUE"]]), there, placed)
    assert (one.requested, one.found, one.lasting) == (("rack", "UNIQUE"), "r1", False)
    (one,) = lacking(spec(constraints=[["rack", "MAX_PER", "0"]]), there)
    assert one.lasting


def test_gpus_that_no_task_uses_keep_others_away() -> None:
    restricted = Rules(GpuBehaviour.RESTRICTED)
    assert seen(lacking(spec(), machine(), rules=restricted)) == [("scarce", 0, 4, 4, True)]
    assert lacking(spec(), machine(used_resources={"gpus": 4}), rules=restricted) == []


@given(specs, machines, rules)
def test_what_is_not_met_are_exactly_the_reasons_that_decide(wanted: RunSpec, there: Machine, by: Rules) -> None:
    offer = there.offer_of(there.free, Role(ROLE))
    findings: list[Finding] = []
    decided = match_new(wanted, offer, (), by, findings)
    assert decided == match_new(wanted, offer, (), by)
    reasons = () if isinstance(decided, Match) else decided.reasons
    assert {one.reason for one in findings if not one.met} == set(reasons)
    assert len({one.subject for one in findings}) == len(findings)


@given(specs, machines)
def test_capacity_is_how_often_an_instance_is_taken(wanted: RunSpec, there: Machine) -> None:
    plain = RunSpec({**wanted.document, "constraints": [], "instances": 50})
    left, count = there.total, 0
    while count < 50:
        decided = match_new(plain, there.offer_of(left, Role(ROLE)), (), Rules())
        if not isinstance(decided, Match):
            break
        left, count = left - decided.whole.unallocated(), count + 1
    assert min(50, capacity(plain, there.offer_of(there.total, Role(ROLE)), Rules())) == count
