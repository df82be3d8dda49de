"""Three agents (no GPUs, some of them taken, all free) and all sorts of frameworks: who is offered what."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mesos_gpu.master.allocation.eligibility import Rules
from mesos_gpu.master.configuration import min_allocatable
from mesos_gpu.master.model.model import Agent
from mesos_gpu.master.model.quota import Quota
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.resources import Resources
from tests.support import places
from tests.support.master.build import RULES, add_agent, add_framework, launch, new_state, offers, task_info

R = Resources.parse
MESOS = Rules(min_allocatable=min_allocatable("cpus:0.01|mem:32"))
"""What a real master does unless told otherwise."""
NO_FILTER = Rules(False, RULES.excluded_names, RULES.min_allocatable)
NONE, SOME, ALL = "cpus:2;mem:2048", "cpus:2;mem:2048;gpus:2;gpus(ml):2;cpus(ml):1", "cpus:2;mem:2048;gpus:4"
GPU, NO_GPU = "GPU_RESOURCES", ""
A_TASK = "cpus:1;mem:1024;gpus:1"

Wanted = dict[str, dict[str, str]]


def cluster(rules: Rules, quotas: dict[str, Quota] | None = None) -> tuple[MasterState, dict[str, Agent]]:
    """The three agents; on `some` a task already holds a GPU, and parts are reserved for `ml`."""
    state = new_state(rules)
    agents = {}
    agents["some"] = add_agent(state, SOME, port=5052)
    tenant = add_framework(state, "tenant", role="tenants")
    [offer] = offers(state)
    launch(state, offer, task_info(agents["some"], "t", A_TASK), refuse_s=3600)
    tenant.suppressed = {"tenants"}
    agents["none"] = add_agent(state, NONE, port=5051)
    agents["all"] = add_agent(state, ALL, port=5053)
    state.allocator_feed.allocator.set_quotas(quotas or {})
    return state, agents


@pytest.mark.parametrize(
    ("frameworks", "rules", "quotas", "expected"),
    [
        # One framework alone.
        ({"f": ("a", GPU)}, RULES, {}, {"f": {"none": NONE, "some": "cpus:1;mem:1024;gpus:1", "all": ALL}}),
        ({"f": ("a", NO_GPU)}, RULES, {}, {"f": {"none": NONE}}),
        ({"f": ("a", NO_GPU)}, NO_FILTER, {}, {"f": {"none": NONE, "some": "cpus:1;mem:1024;gpus:1", "all": ALL}}),
        # Reservations are for their role and those below it, with the capability only.
        (
            {"f": ("ml", GPU)},
            RULES,
            {},
            {"f": {"none": NONE, "some": "cpus:1;cpus(ml):1;mem:1024;gpus:1;gpus(ml):2", "all": ALL}},
        ),
        (
            {"f": ("ml/train", GPU)},
            RULES,
            {},
            {"f": {"none": NONE, "some": "cpus:1;cpus(ml):1;mem:1024;gpus:1;gpus(ml):2", "all": ALL}},
        ),
        ({"f": ("ml", NO_GPU)}, RULES, {}, {"f": {"none": NONE}}),
        # Two at once: who has less comes first, agent by agent.
        (
            {"f": ("a", GPU), "g": ("b", NO_GPU)},
            RULES,
            {},
            {"f": {"some": "cpus:1;mem:1024;gpus:1", "all": ALL}, "g": {"none": NONE}},
        ),
        (
            {"f": ("a", GPU), "g": ("ml", GPU)},
            RULES,
            {},
            {"f": {"some": "cpus:1;mem:1024;gpus:1", "all": ALL}, "g": {"some": "cpus(ml):1;gpus(ml):2", "none": NONE}},
        ),
        # Quota limits cap; what is not limited comes whole. Reservations count, and are not held back.
        (
            {"f": ("a", GPU)},
            RULES,
            {"a": Quota({}, {"gpus": 2000})},
            {"f": {"none": NONE, "some": "cpus:1;mem:1024;gpus:1", "all": "cpus:2;mem:2048;gpus:1"}},
        ),
        (
            {"f": ("ml", GPU)},
            RULES,
            {"ml": Quota({}, {"gpus": 3000})},
            {"f": {"none": NONE, "some": "cpus:1;cpus(ml):1;mem:1024;gpus:1;gpus(ml):2", "all": "cpus:2;mem:2048"}},
        ),
        (
            {"f": ("a/b", GPU), "g": ("a/c", GPU)},
            RULES,
            {"a": Quota({}, {"gpus": 1000, "cpus": 1000, "mem": 1024_000})},
            {"f": {"some": "cpus:1;mem:1024;gpus:1"}},
        ),
        # A guarantee holds GPUs back for a role that is not even there, and is met first for one that is.
        (
            {"f": ("a", GPU)},
            RULES,
            {"b": Quota({"gpus": 3000}, {})},
            {"f": {"none": NONE, "some": "cpus:1;mem:1024;gpus:1", "all": "cpus:2;mem:2048;gpus:1"}},
        ),
        (
            {"f": ("a", GPU), "g": ("b", GPU)},
            RULES,
            {"b": Quota({"gpus": 4000}, {"gpus": 4000})},
            {
                "g": {"some": "cpus:1;mem:1024;gpus:1", "all": "cpus:2;mem:2048;gpus:3"},
                "f": {"none": NONE, "all": "gpus:1"},
            },
        ),
        # A guarantee of CPUs does not open GPU machines to those without the capability.
        ({"f": ("a", NO_GPU)}, RULES, {"a": Quota({"cpus": 4000}, {})}, {"f": {"none": NONE}}),
    ],
)
def test_who_is_offered_what(
    frameworks: dict[str, tuple[str, str]], rules: Rules, quotas: dict[str, Quota], expected: Wanted
) -> None:
    state, agents = cluster(rules, quotas)
    for name, (role, capabilities) in frameworks.items():
        add_framework(state, name, role=role, capabilities=f"{capabilities} RESERVATION_REFINEMENT".strip())
    by_id = {agent.id: name for name, agent in agents.items()}
    names = {framework.id: framework.name for framework in state.frameworks.values()}
    made = {(names[o.framework_id], by_id[o.agent_id]): o.resources.unallocated() for o in offers(state)}
    wanted = {(name, agent): R(text) for name, parts in expected.items() for agent, text in parts.items()}
    assert made == wanted


def recorded() -> Any:
    """What a real master of 1.12.0 offered, with one agent that has 4 GPUs and one that has none."""
    return json.loads((places.RECORDED / "scarce-gpus.json").read_text())


def pair(rules: Rules) -> tuple[MasterState, dict[str, str]]:
    state = new_state(rules)
    plain, gpu = add_agent(state, NONE, port=5051), add_agent(state, ALL, port=5052)
    return state, {plain.id: "plain-agent", gpu.id: "gpu-agent"}


def as_recorded(state: MasterState, names: dict[str, str], framework: str) -> list[Any]:
    framework_id = next(f.id for f in state.frameworks.values() if f.name == framework)
    found = [
        {
            "agent": names[offer.agent_id],
            "resources": {r.name: r.amount / 1000 for r in offer.resources if isinstance(r.amount, int)},
            "role": offer.role,
        }
        for offer in offers(state)
        if offer.framework_id == framework_id
    ]
    return sorted(found, key=lambda offer: offer["agent"], reverse=True)


@pytest.mark.parametrize(
    ("situation", "capabilities", "rules"),
    [
        ("filter on (default): gpu-capable", GPU, MESOS),
        ("filter on (default): not gpu-capable", NO_GPU, MESOS),
        ("filter off: gpu-capable", GPU, Rules(False, frozenset(), MESOS.min_allocatable)),
        ("filter off: not gpu-capable", NO_GPU, Rules(False, frozenset(), MESOS.min_allocatable)),
        ("excluded gpus from fair sharing: gpu-capable", GPU, Rules(True, frozenset({"gpus"}), MESOS.min_allocatable)),
    ],
)
def test_offers_are_those_of_a_real_master(situation: str, capabilities: str, rules: Rules) -> None:
    state, names = pair(rules)
    add_framework(state, "f", role="a", capabilities=capabilities)
    assert as_recorded(state, names, "f") == recorded()[situation]


def test_when_the_capable_one_came_first_it_has_both() -> None:
    state, names = pair(MESOS)
    add_framework(state, "capable", role="a")
    first = as_recorded(state, names, "capable")
    add_framework(state, "other", role="b", capabilities=NO_GPU)
    situation = recorded()["filter on: both at once, capable came first"]
    assert first == situation["capable (role a)"]
    assert as_recorded(state, names, "other") == situation["not capable (role b)"]


@pytest.mark.parametrize(("rules", "left"), [(MESOS, []), (RULES, ["gpus:4"])])
def test_lone_gpus_are_offered_unless_the_flag_is_as_in_mesos(rules: Rules, left: list[str]) -> None:
    state, names = pair(rules)
    add_framework(state, "f", role="a")
    offer = next(o for o in offers(state) if names[o.agent_id] == "gpu-agent")
    launch(state, offer, task_info(state.agents[offer.agent_id], "t", "cpus:2;mem:2048"), refuse_s=0)
    state.filters.expire(1e9)
    again = [o.resources.unallocated() for o in offers(state) if names[o.agent_id] == "gpu-agent"]
    assert again == [R(text) for text in left]
    if rules is MESOS:
        assert again == recorded()["only gpus left on the gpu agent: offers after that"]
