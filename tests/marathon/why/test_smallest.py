"""The smallest change that would let an app start."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.marathon.matching.machines import Machine
from mesos_gpu.marathon.matching.matching import RolesBehaviour, Rules
from mesos_gpu.marathon.why.answer import Answer, answer
from mesos_gpu.marathon.why.change import Held
from mesos_gpu.marathon.why.facts import Situation, held_by
from mesos_gpu.marathon.why.request import request_of
from mesos_gpu.marathon.why.smallest import Surroundings, smallest
from mesos_gpu.marathon.why.verdict import verdict_of
from tests.support.golden import Golden
from tests.support.histories import examples
from tests.support.marathon.stuck import smaller_change, stuck_cluster
from tests.support.marathon.why import agent, app


def test_what_is_advised_starts_the_app_and_no_smaller_change_does() -> None:
    seen = set()
    for seed in range(examples(1000)):
        it = stuck_cluster(seed)
        change = smallest(*it.surroundings())
        assert change is not None, seed
        assert it.with_change(change).starts(), (seed, change.text)
        assert smaller_change(it, change) is None, (seed, change.text)
        seen |= {step.kind for step in change.steps}
    assert seen == {"reactivate", "label", "lower", "quota", "drop", "end", "add"}


def asked(
    document: dict[str, Any], agents: list[Machine], held: dict[str, list[Held]] | None = None, **more: Any
) -> Answer:
    request = request_of(document)
    verdicts = [verdict_of(request, one, more.get("rules", Rules())) for one in agents]
    queued = {"count": 1, "delay": {"timeLeftSeconds": 0}}
    return answer(
        Situation(document, request, queued=queued, agents=agents, verdicts=verdicts, held=held or {}, **more)
    )


def texts(found: Answer) -> list[str]:
    assert found.change is not None
    return [step.text for step in found.change.steps]


def test_an_app_is_told_to_ask_for_less_before_others_are_ended_and_never_for_less_than_half(golden: Golden) -> None:
    one = agent(used={"gpus": 3})
    held = {
        one.id: [Held("web.1", "/web", {"gpus": 1000}, "*", True), Held("web.2", "/web", {"gpus": 2000}, "*", True)]
    }
    found = asked(app(gpus=2), [one], held)
    assert texts(found) == golden
    assert texts(asked(app(gpus=3), [one], held)) == golden
    shown = found.document()["change"]
    assert shown["measure"] == {"machines": 0, "steps": 1, "ended": 0, "dropped": 0, "part": 0.5}
    assert shown["steps"][0] | {"text": ""} == {"kind": "lower", "text": "", "target": "gpus", "amounts": {"gpus": 1.0}}
    assert shown["agent"] == "gpu1"


def test_a_constraint_is_dropped_and_the_others_are_kept(golden: Golden) -> None:
    found = asked(app(constraints=[["rack", "IS", "r1"], ["hostname", "UNIQUE"]]), [agent()])
    assert texts(found) == golden


def test_a_machine_is_added_where_nothing_else_would_do_with_what_constraints_ask_for(golden: Golden) -> None:
    found = asked(app(gpus=16, constraints=[["gpu_model", "IS", "H200"], ["hostname", "IS", "big"]]), [agent()])
    assert texts(found) == golden
    assert found.change is not None
    assert found.change.document()["steps"][0]["attributes"] == {"hostname": "big", "gpu_model": "H200"}


def test_a_quota_is_raised_by_what_is_missing(golden: Golden) -> None:
    roles = [{"name": "ml", "quota": {"limit": {"gpus": 4.0}, "consumed": {"gpus": 4.0}}}]
    found = asked(app(), [agent()], roles=roles)
    assert texts(found) == golden


def test_what_others_reserved_does_not_come_free_by_ending_them(golden: Golden) -> None:
    one = agent(
        unreserved_resources={"cpus": 8, "mem": 16384},
        reserved_resources={"web": {"gpus": 4}},
        used_resources_full=[{"name": "gpus", "type": "SCALAR", "scalar": {"value": 4}, "role": "web"}],
    )
    held = {one.id: [Held("web.1", "/web", {"gpus": 4000}, "web", True)]}
    assert texts(asked(app(), [one], held)) == golden


def test_a_pod_is_told_in_words_and_its_instances_end_whole(golden: Golden) -> None:
    tasks = [
        {"id": "web.instance-1.one", "resources": {"gpus": 1}, "role": "ml"},
        {"id": "web.instance-1.two", "resources": {"gpus": 2, "cpus": 0.5}, "role": "ml"},
        {"id": "x", "resources": {"gpus": 1}, "framework_name": "spark"},
    ]
    held = held_by(tasks, {"web.instance-1.one": "/web", "web.instance-1.two": "/web"})
    assert [(one.id, one.owner, one.amounts["gpus"], one.role) for one in held] == [
        ("web.instance-1", "/web", 3000, "ml"),
        ("x", golden, 1000, "*"),
    ]
    pod = {
        "id": "/p",
        "containers": [{"resources": {"cpus": 1, "mem": 32, "gpus": 4}}],
        "scheduling": {"placement": {"constraints": [{"fieldName": "rack", "operator": "IS", "value": "r1"}]}},
    }
    one = agent(used={"gpus": 4})
    assert texts(asked(pod, [one], {one.id: held})) == golden


def kinds(found: Answer) -> list[tuple[str, str]]:
    assert found.change is not None
    return [(step.kind, step.target) for step in found.change.steps]


def test_roles_that_no_agent_offers_are_replaced_by_those_that_agents_offer() -> None:
    found = asked(app(role="slave_public", acceptedResourceRoles=["slave_public"], gpus=0, cpus=2), [agent()])
    assert kinds(found) == [("roles", "*")]
    assert """`mesos-gpu app update /train 'acceptedResourceRoles=["*"]'`""" in texts(found)[0]
    assert [lack.kind for verdict in found.verdicts for lack in verdict.lacks] == ["role"]


def test_a_change_of_an_app_that_is_being_deployed_is_forced() -> None:
    waiting = app(portDefinitions=[{"port": 88}], requirePorts=True, deployments=[{"id": "d"}])
    assert "`mesos-gpu app update --force /train requirePorts=false`" in texts(asked(waiting, [agent()]))[0]


def test_what_no_step_makes_usable_is_left_alone() -> None:
    volume = {"persistence": {"id": "v"}, "volume": {"container_path": "d", "mode": "RW"}}
    disk = {"name": "disk", "type": "SCALAR", "scalar": {"value": 100}, "disk": volume, "role": "ml"}
    one = agent(unreserved_resources_full=[], reserved_resources_full={"ml": [disk]}, reserved_resources={"ml": {}})
    assert kinds(asked(app(), [one])) == [("add", "")]


def test_resources_reserved_for_the_role_are_used_if_the_default_leaves_them_out() -> None:
    one = agent(unreserved_resources={"cpus": 8, "mem": 16384}, reserved_resources={"ml": {"gpus": 4}})
    rules = Rules(roles_behaviour=RolesBehaviour.UNRESERVED)
    assert kinds(asked(app(), [one], rules=rules)) == [("roles", "*,ml")]
    assert asked(app(), [one]).change is None


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ({"portDefinitions": [{"port": 88}], "requirePorts": True}, "requirePorts=false"),
        (
            {
                "networks": [{"mode": "container/bridge"}],
                "container": {"portMappings": [{"containerPort": 80}, {"containerPort": 88, "hostPort": 88}]},
            },
            "container.portMappings[1].hostPort=0",
        ),
    ],
)
def test_ports_that_no_agent_offers_are_left_to_the_agent(more: dict[str, Any], word: str) -> None:
    found = asked(app(**more), [agent()])
    assert (found.state, kinds(found)) == ("impossible", [("ports", "")])
    assert word in texts(found)[0]
    assert "--resources=ports:[88-88]" in found.remedies[0]


def test_an_app_of_more_gpus_than_twice_those_of_a_machine_is_told_one_thing() -> None:
    found = asked(app(gpus=8), [agent(total={"gpus": 3})])
    assert kinds(found) == [("add", "")]
    assert not any("at most" in remedy for remedy in found.remedies)
    found = asked(app(gpus=8), [agent(total={"gpus": 4})])
    assert kinds(found) == [("lower", "gpus")]
    assert "at most 4 GPUs" in found.remedies[0]


@pytest.mark.parametrize(
    "more",
    [{"gpus": 0, "gpuShare": {"memGiB": 4}}, {"container": {"volumes": [{"persistent": {"size": 1}}]}}],
)
def test_parts_of_gpus_and_data_that_is_somewhere_are_left_out(more: dict[str, Any]) -> None:
    request = request_of(app(**more))
    assert smallest(request, Surroundings([agent(used={"cpus": 8})])) is None
