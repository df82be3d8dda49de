"""What one agent lacks, forever and now."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.marathon.why.judge import Holder, judge, room, task_at
from mesos_gpu.marathon.why.wish import wish_of
from tests.support.golden import Golden
from tests.support.marathon.why import agent, app

HERE = agent(attributes={"gpu_model": "NVIDIA-H200", "rack": "r1"})


def lacks(document: dict[str, Any], one: Any = HERE, **more: Any) -> list[tuple[str, bool]]:
    return [(lack.kind, lack.for_ever) for lack in judge(wish_of(document), one, "gpu1", **more).lacks]


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
        (app(executor="/own", executorResources={"gpus": 3}), [("gpus", True)]),
    ],
)
def test_what_an_empty_agent_lacks(asked: dict[str, Any], found: list[tuple[str, bool]]) -> None:
    assert lacks(asked) == found


CARDS = {"gpu_shared_cards": "2=GPU-a/15,3=GPU-b/40"}
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
    verdict = judge(wish_of(asked), agent(attributes=attributes), "gpu1", keeps_gpus=True)
    assert verdict.ever is ever
    assert [lack.text for lack in verdict.lacks] == ([] if ever else golden)


def test_what_is_taken_is_lacked_now_only_and_told_with_who_has_it(golden: Golden) -> None:
    one = agent(used={"gpus": 3}, offered={})
    holders = [Holder("/other", {"gpus": 3.0}, is_app=True)]
    verdict = judge(wish_of(app()), one, "gpu1", holders=holders)
    assert (verdict.now, verdict.ever, verdict.slots) == (False, True, 2)
    assert verdict.lacks[0].text == golden
    assert verdict.lacks[0].missing == 1


def test_what_is_offered_to_somebody_is_no_lack_of_its_own() -> None:
    assert lacks(app(), agent(offered={"gpus": 4, "cpus": 8, "mem": 16384})) == [("offered", False)]


def test_gpus_reserved_for_others_are_lacked_for_ever(golden: Golden) -> None:
    one = agent(reserved_resources={"web": {"gpus": 4}}, unreserved_resources={"cpus": 8, "mem": 16384})
    (lack,) = judge(wish_of(app()), one, "gpu1").lacks
    assert (lack.kind, lack.for_ever) == ("role", True)
    assert lack.text == golden
    assert lacks(app(role="web"), one) == []
    assert lacks(app(acceptedResourceRoles=["web"]), one) == [("role", True), ("role", True)]


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


@pytest.mark.parametrize(
    ("constraints", "instances"),
    [([], 6), ([["hostname", "UNIQUE"]], 3), ([["rack", "UNIQUE"]], 2), ([["rack", "MAX_PER", "2"]], 4)],
)
def test_room_is_what_empty_agents_would_take_by_the_constraints(constraints: list[list[str]], instances: int) -> None:
    agents = [agent(name, attributes={"rack": rack}) for name, rack in (("a", "r1"), ("b", "r1"), ("c", "r2"))]
    wish = wish_of(app(constraints=constraints))
    assert room(wish, agents, [judge(wish, one, one.hostname) for one in agents]) == instances


def test_members_of_a_gang_go_to_an_agent_each_whatever_their_hosts_are_called() -> None:
    agents = [agent("a", id=f"A-{at}") for at in range(3)]
    wish = wish_of(app(instances=3, gang={"size": 3}))
    assert room(wish, agents, [judge(wish, one, one.hostname) for one in agents]) == 3


def test_a_pod_asks_for_the_sum_of_its_containers() -> None:
    wish = wish_of(
        {
            "id": "/pod",
            "containers": [
                {"name": "a", "resources": {"cpus": 1, "gpus": 1, "mem": 32}, "endpoints": [{"hostPort": 80}]},
                {"name": "b", "resources": {"cpus": 0.5, "gpus": 2, "mem": 32}},
            ],
            "executorResources": {"cpus": 0.1, "mem": 32},
            "scaling": {"kind": "fixed", "instances": 3},
            "scheduling": {
                "placement": {"constraints": [{"fieldName": "rack", "operator": "UNIQUE"}]},
            },
        }
    )
    assert (wish.gpus, wish.amounts["cpus"], wish.amounts["mem"], wish.instances) == (3, 1.6, 96, 3)
    assert (wish.constraints, wish.ports, wish.is_pod) == ((("rack", "UNIQUE"),), (80,), True)


amounts = st.integers(min_value=0, max_value=8)


@given(gpus=amounts, total=amounts, used=amounts)
def test_an_agent_takes_an_instance_exactly_when_it_has_the_gpus_free(gpus: int, total: int, used: int) -> None:
    used = min(used, total)
    verdict = judge(wish_of(app(gpus=gpus)), agent(total={"gpus": total}, used={"gpus": used}), "gpu1")
    assert verdict.now == (gpus <= total - used)
    assert verdict.ever == (gpus <= total)
    assert (verdict.slots > 0) == verdict.ever
