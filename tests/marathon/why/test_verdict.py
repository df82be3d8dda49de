"""What one agent lacks, forever and now."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mesos_gpu.marathon.definitions.runspec import RunSpec
from mesos_gpu.marathon.matching.machines import Machine
from mesos_gpu.marathon.matching.matching import GpuBehaviour, RolesBehaviour, Rules
from mesos_gpu.marathon.state.actions import Launch
from mesos_gpu.marathon.state.events import Offered
from mesos_gpu.marathon.state.settings import Settings
from mesos_gpu.marathon.why.request import Request, request_of
from mesos_gpu.marathon.why.verdict import Holder, Verdict, room, task_at, verdict_of
from mesos_gpu.mesos.ids import OfferId, Role
from tests.support.golden import Golden
from tests.support.marathon.builders import ROLE, RULES, Run
from tests.support.marathon.random_offers import machines, rules, specs
from tests.support.marathon.why import agent, app

HERE = agent(attributes={"gpu_model": "NVIDIA-H200", "rack": "r1"})


def lacks(document: dict[str, Any], one: Any = HERE, **more: Any) -> list[tuple[str, bool]]:
    return [(lack.kind, lack.for_ever) for lack in judge(document, one, **more).lacks]


def judge(document: dict[str, Any], one: Any, *, keeps_gpus: bool = False, **more: Any) -> Verdict:
    behaviour = GpuBehaviour.RESTRICTED if keeps_gpus else GpuBehaviour.UNRESTRICTED
    return verdict_of(request_of(document), one, Rules(behaviour), **more)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (app(), []),
        (app(gpus=4), []),
        (app(gpus=5), [("gpus", True)]),
        (app(cpus=9, mem=20000), [("cpus", True), ("mem", True)]),
        (app(constraints=[["gpu_model", "IS", "NVIDIA-H200"]]), []),
        (app(constraints=[["gpu_model", "LIKE", "A100.*"]]), [("constraint", True)]),
        (app(constraints=[["zone", "UNIQUE"]]), [("constraint", True)]),
        (app(constraints=[["zone", "UNLIKE", "x"]]), []),
        (app(constraints=[["hostname", "CLUSTER", "gpu1"]]), []),
        (app(portDefinitions=[{"port": 8080}], requirePorts=True), [("ports", True)]),
        (app(portDefinitions=[{"port": 31005}], requirePorts=True), []),
        (app(portDefinitions=[{"port": 8080}]), []),
        (app(gpus=0, labels={"GPU_SCHEDULING_BEHAVIOR": "restricted"}), [("scarce", True)]),
        (app(gpus=0), []),
        (app(executor="/own", executorResources={"cpus": 8}), [("cpus", True)]),
    ],
)
def test_what_an_empty_agent_lacks(asked: dict[str, Any], found: list[tuple[str, bool]]) -> None:
    assert lacks(asked) == found


CARDS = {"gpu_shared_cards": "2=GPU-a/15,3=GPU-b/40"}


def shared(attributes: dict[str, str]) -> dict[str, Any]:
    """What an agent with these shared GPUs has of them."""
    if not attributes:
        return {}
    return {"total": {"gpu_mem": "[2000-2014, 3000-3039]", "gpu_slices": "[2000-2024, 3000-3024]"}}


PART = {"ALIYUN_COM_GPU_MEM_CONTAINER": "6"}


@pytest.mark.parametrize(
    ("asked", "attributes", "ever"),
    [
        (app(gpus=0, gpuShare={"memGiB": 6}), CARDS, True),
        (app(gpus=0, gpuShare={"memGiB": 6}), {}, False),
        (app(gpus=0, env=PART), {}, False),
        (app(gpus=0, gpuShare={"memGiB": 41}), CARDS, False),
        (
            {"id": "/p", "containers": [{"name": "c", "gpuShare": {"memGiB": 41}}]},
            CARDS,
            False,
        ),
    ],
)
def test_a_part_of_a_gpu_is_lacked_where_no_card_is_shared_or_large_enough(
    asked: dict[str, Any], attributes: dict[str, str], ever: bool, golden: Golden
) -> None:
    verdict = judge(asked, agent(attributes=attributes, **shared(attributes)), keeps_gpus=True)
    assert verdict.ever is ever
    assert [lack.text for lack in verdict.lacks] == ([] if ever else golden)


def test_what_is_taken_is_lacked_now_only_and_told_with_who_has_it(golden: Golden) -> None:
    one = agent(used={"gpus": 3}, offered={})
    holders = [Holder("/other", {"gpus": 3000}, is_app=True)]
    verdict = judge(app(), one, holders=holders)
    assert (verdict.now, verdict.ever, verdict.slots) == (False, True, 2)
    assert verdict.lacks[0].text == golden
    assert verdict.lacks[0].missing == 1000


def test_what_is_offered_to_somebody_is_no_lack_of_its_own() -> None:
    assert lacks(app(), agent(offered={"gpus": 4, "cpus": 8, "mem": 16384})) == [("offered", False)]


def test_gpus_reserved_for_others_are_lacked_for_ever(golden: Golden) -> None:
    one = agent(reserved_resources={"web": {"gpus": 4}}, unreserved_resources={"cpus": 8, "mem": 16384})
    (lack,) = judge(app(), one).lacks
    assert (lack.kind, lack.for_ever) == ("role", True)
    assert lack.text == golden
    assert lacks(app(role="web"), one) == []
    assert lacks(app(acceptedResourceRoles=["web"]), one) == [("role", True)]


def test_an_agent_that_is_being_drained_lacks_it_for_now() -> None:
    assert lacks(app(), agent(deactivated=True)) == [("agent", False)]


def test_constraints_count_where_instances_are() -> None:
    placed = [task_at(HERE, "gpu1", 0.0)]
    assert lacks(app(constraints=[["rack", "UNIQUE"]]), placed=placed) == [("constraint", False)]
    assert lacks(app(constraints=[["rack", "MAX_PER", "2"]]), placed=placed) == []
    elsewhere = [task_at(agent("gpu2", attributes={"rack": "r2"}), "gpu2", 0.0)]
    assert lacks(app(constraints=[["rack", "CLUSTER"]]), placed=elsewhere) == [("constraint", False)]


def test_a_marathon_that_keeps_gpus_does_so_unless_the_label_says_otherwise() -> None:
    assert lacks(app(gpus=0), keeps_gpus=True) == [("scarce", True)]
    assert lacks(app(gpus=0, labels={"GPU_SCHEDULING_BEHAVIOR": "unrestricted"}), keeps_gpus=True) == []
    assert lacks(app(gpus=0), agent(used={"gpus": 4}), keeps_gpus=True) == []
    reserved = agent(unreserved_resources={"cpus": 8, "mem": 16384}, reserved_resources={"web": {"gpus": 4}})
    assert lacks(app(gpus=0), reserved, keeps_gpus=True) == []


@pytest.mark.parametrize(
    ("constraints", "instances"),
    [([], 6), ([["hostname", "UNIQUE"]], 3), ([["rack", "UNIQUE"]], 2), ([["rack", "MAX_PER", "2"]], 4)],
)
def test_room_is_what_empty_agents_would_take_by_the_constraints(constraints: list[list[str]], instances: int) -> None:
    agents = [agent(name, attributes={"rack": rack}) for name, rack in (("a", "r1"), ("b", "r1"), ("c", "r2"))]
    document = app(constraints=constraints, instances=6)
    assert room(request_of(document), agents, [judge(document, one) for one in agents]) == instances


def test_members_of_a_gang_go_to_an_agent_each_whatever_their_hosts_are_called() -> None:
    agents = [agent("a", id=f"A-{at}") for at in range(3)]
    document = app(instances=3, gang={"size": 3})
    assert room(request_of(document), agents, [judge(document, one) for one in agents]) == 3


SHARED = {"gpu_shared_cards": "0=GPU-a/16,1=GPU-b/16"}
UNITS = {"gpus": 0, "gpu_mem": "[0-15, 1000-1015]", "gpu_slices": "[0-24, 1000-1024]"}


@pytest.mark.parametrize(
    ("share", "used", "lasting"),
    [
        ({"memGiB": 6, "cardGiB": 15}, {"gpu_mem": "[0-2]"}, [True]),
        ({"memGiB": 40}, {}, [True]),
        ({"memGiB": 6, "devices": ["GPU-c"]}, {}, [True]),
        ({"memGiB": [6, 6], "cards": 2}, {}, []),
        ({"memGiB": [6, 6, 6], "cards": 3}, {}, [True]),
        ({"memGiB": 13}, {"gpu_mem": "[0-3, 1000-1003]"}, [False]),
        ({"memGiB": 13}, {"gpu_mem": "[0-3]"}, []),
        ({"memGiB": 1, "weight": 20}, {"gpu_slices": "[0-9, 1000-1009]"}, [False]),
    ],
)
def test_parts_of_gpus_are_counted_by_gpu(share: dict[str, Any], used: dict[str, str], lasting: list[bool]) -> None:
    one = agent(attributes=SHARED, total=UNITS, used=used)
    assert lacks(app(gpus=0, gpuShare=share), one) == [("gpus", each) for each in lasting]


def test_a_role_that_the_marathon_does_not_accept_by_default_is_named() -> None:
    one = agent(unreserved_resources={"cpus": 8, "mem": 16384}, reserved_resources={"ml": {"gpus": 4}})
    assert lacks(app(), one) == []
    verdict = verdict_of(request_of(app()), one, Rules(roles_behaviour=RolesBehaviour.UNRESERVED))
    assert [(lack.kind, lack.for_ever) for lack in verdict.lacks] == [("role", True)]
    assert "the role ml" in verdict.lacks[0].text


def test_ports_in_use_are_lacked_for_now() -> None:
    wanted = app(portDefinitions=[{"port": 31000}], requirePorts=True)
    assert lacks(wanted, agent(used={"ports": "[31000-31000]"})) == [("ports", False)]


def test_an_app_with_persistent_volumes_takes_unreserved_resources_and_a_disk_only() -> None:
    data = {"type": "MESOS", "volumes": [{"containerPath": "d", "mode": "RW", "persistent": {"size": 600}}]}
    assert lacks(app(container=data), agent()) == []
    assert lacks(app(container=data, disk=500), agent()) == [("volume", True)]
    assert lacks(app(container=data), agent(used={"disk": 500})) == [("volume", False)]
    reserved = agent(
        unreserved_resources={"cpus": 8, "mem": 16384, "disk": 1000}, reserved_resources={"ml": {"gpus": 4}}
    )
    assert lacks(app(container=data), reserved) == [("role", True)]


def test_an_agent_outside_the_masters_region_is_lacked_for_ever() -> None:
    one = agent(domain={"fault_domain": {"region": {"name": "north"}, "zone": {"name": "a"}}})
    rules = Rules(home_region="south", knows_region=True)
    verdict = verdict_of(request_of(app()), one, rules)
    assert [(lack.kind, lack.for_ever) for lack in verdict.lacks] == [("constraint", True)]
    assert verdict_of(request_of(app()), one, Rules()).now


def test_what_is_being_offered_is_free_soon_and_no_lack_beside_others() -> None:
    one = agent(used={"gpus": 3}, offered={"cpus": 7.5, "mem": 16384})
    assert lacks(app(), one) == [("gpus", False)]


amounts = st.integers(min_value=0, max_value=8)


@given(gpus=amounts, total=amounts, used=amounts)
def test_an_agent_takes_an_instance_exactly_when_it_has_the_gpus_free(gpus: int, total: int, used: int) -> None:
    used = min(used, total)
    verdict = judge(app(gpus=gpus), agent(total={"gpus": total}, used={"gpus": used}))
    assert verdict.now == (gpus <= total - used)
    assert verdict.ever == (gpus <= total)
    assert (verdict.slots > 0) == verdict.ever


@given(specs, machines, rules)
def test_a_verdict_is_what_the_scheduler_does(wanted: RunSpec, there: Machine, by: Rules) -> None:
    known = replace(by, home_region=None, knows_region=True)
    settings = Settings(rules=RULES, gpu_behaviour=by.behaviour, roles_behaviour=by.roles_behaviour)

    def starts(one: Machine) -> bool:
        run = Run(settings=settings)
        run.subscribe()
        run.put(wanted.definition)
        document = one.offer(OfferId("O"), Role(ROLE), {})
        actions = [] if document is None else run.do(Offered([document]))
        return any(isinstance(action, Launch) for action in actions)

    verdict = verdict_of(Request(wanted, wanted.id), there, known)
    assert verdict.now == starts(there)
    if not verdict.now:
        assert verdict.ever == starts(there.with_back(there.used))
