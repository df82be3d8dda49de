"""The allocator remembers what it has looked at; held to one that computes everything from scratch, on any history."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from benchmarks.full_scan import FullScan
from mesos_gpu.master.allocation.allocator import Allocator
from mesos_gpu.master.allocation.constraints import constraints_of
from mesos_gpu.master.allocation.eligibility import Client, Key, Rules, Supply, quantities
from mesos_gpu.master.model.quota import Quota
from mesos_gpu.master.model.shared_volumes import free_of
from mesos_gpu.mesos.resources import Resources
from tests.support.histories import examples
from tests.support.master.build import RULES, SHARED_VOLUME

R = Resources.parse
NOTHING = Resources()
SIZES = ["cpus:4;mem:256;gpus:4", "cpus:2;mem:128", "cpus:1;mem:64;gpus(ml):2;cpus(ml):1", "gpus:2;ports:[1-9]"]
ROLES = ["*", "ml", "ml/train", "ml/serve", "web"]
NAMES = ["f", "g", "h"]
QUOTAS = [
    {},
    {"web": Quota({"cpus": 2000}, {})},
    {"ml": Quota({}, {"cpus": 1000, "gpus": 2000})},
    {"ml": Quota({"gpus": 3000}, {"gpus": 4000}), "web": Quota({"cpus": 3000, "mem": 64000}, {"cpus": 4000})},
]
ONLY_A = constraints_of(
    {
        "role_constraints": {
            "ml": {
                "groups": [
                    {
                        "attribute_constraints": [
                            {
                                "selector": {"pseudoattribute_type": "HOSTNAME"},
                                "predicate": {"text_equals": {"value": "a0"}},
                            }
                        ]
                    }
                ]
            }
        }
    }
)["ml"]
agents = st.sampled_from(["a0", "a1", "a2"])
picks = st.integers(0, 5)


class Histories(RuleBasedStateMachine):
    """Agents, frameworks, offers and refusals that come and go; two allocators are asked who is next."""

    @initialize()
    def begin(self) -> None:
        self.rules = Rules(True, frozenset({"gpus"}), RULES.min_allocatable)
        self.allocator = Allocator(self.rules)
        self.supplies: dict[str, Supply] = {}
        self.held: dict[str, dict[Key, Resources]] = {}
        self.clients: dict[Key, Client] = {}
        self.muted: set[Key] = set()
        self.refused: dict[tuple[str, Key], Resources] = {}
        self.quotas: dict[str, Quota] = {}
        self.weights: dict[str, float] = {}
        for number, size in enumerate(SIZES[:3]):
            self.put(f"a{number}", R(size))

    def put(self, agent_id: str, total: Resources, active: bool = True) -> None:
        parts = self.held.setdefault(agent_id, {})
        free = free_of(total, *parts.values())
        self.supplies[agent_id] = Supply(agent_id, total, free, active=active, info={"hostname": agent_id})
        self.allocator.put_agent(self.supplies[agent_id], dict(parts))

    @rule(name=agents, size=st.sampled_from(SIZES), active=st.booleans(), shared=st.booleans())
    def agent_changes(self, name: str, size: str, active: bool, shared: bool) -> None:
        self.held[name] = {}
        self.put(name, R(size) + Resources([SHARED_VOLUME] if shared else []), active)

    @rule(name=agents)
    def agent_goes(self, name: str) -> None:
        if self.supplies.pop(name, None) is not None:
            self.held.pop(name)
            self.allocator.drop_agent(name)

    @rule(name=st.sampled_from(NAMES), role=st.sampled_from(ROLES), gpus=st.booleans(), kind=st.integers(0, 3))
    def client_comes(self, name: str, role: str, gpus: bool, kind: int) -> None:
        least: Any = {1: ({"cpus": 10},), 2: ()}.get(kind)
        client = Client(
            name,
            role,
            shared=kind != 2,
            gpu_resources=gpus,
            min_allocatable=least,
            constraints=ONLY_A if kind == 3 else None,
        )
        self.clients[client.key] = client
        self.muted.discard(client.key)
        self.allocator.put_client(client)

    @rule(name=st.sampled_from(NAMES), role=st.sampled_from(ROLES), leaves=st.booleans())
    def client_goes(self, name: str, role: str, leaves: bool) -> None:
        if (role, name) in self.clients:
            del self.clients[(role, name)]
            if leaves:
                self.allocator.drop_client(role, name)
            else:
                self.allocator.mute_client(role, name)

    @rule(name=agents, pick=picks, refuse=st.booleans())
    def comes_back(self, name: str, pick: int, refuse: bool) -> None:
        """A task ends or an offer is declined."""
        parts = self.held.get(name, {})
        if parts:
            key = sorted(parts)[pick % len(parts)]
            resources = parts.pop(key)
            if refuse:
                self.refused[(name, key)] = resources
            self.put(name, self.supplies[name].total, self.supplies[name].active)

    @rule(name=agents, pick=picks)
    def comes_back_in_part(self, name: str, pick: int) -> None:
        parts = self.held.get(name, {})
        if parts:
            key = sorted(parts)[pick % len(parts)]
            part = Resources(list(parts[key])[:1])
            left = parts[key] - part
            if left:
                parts[key] = left
            else:
                del parts[key]
            self.refused[(name, key)] = part
            self.put(name, self.supplies[name].total, self.supplies[name].active)

    @rule(pick=picks)
    def a_refusal_ends(self, pick: int) -> None:
        if self.refused:
            agent_id, key = sorted(self.refused)[pick % len(self.refused)]
            del self.refused[(agent_id, key)]
            self.allocator.retry(agent_id, key)

    @rule(quotas=st.sampled_from(QUOTAS))
    def quota_changes(self, quotas: dict[str, Quota]) -> None:
        self.quotas = quotas
        self.allocator.set_quotas(quotas)

    @rule(role=st.sampled_from(ROLES), weight=st.sampled_from([0.5, 1.0, 3.0]))
    def weight_changes(self, role: str, weight: float) -> None:
        self.weights[role] = weight
        self.allocator.tree.set_weight(role, weight)

    def refuses(self, client: Client, agent_id: str, candidate: Resources) -> bool:
        refused = self.refused.get((agent_id, client.key))
        return refused is not None and refused.contains(candidate)

    @rule()
    def allocate(self) -> None:
        supplies = sorted(self.supplies.values(), key=self.line)
        scratch = FullScan(
            supplies,
            list(self.clients.values()),
            self.held,
            self.rules,
            quotas=self.quotas,
            weights=self.weights,
            turns=self.allocator.tree.turns(),
        )
        assert [client.key for client in scratch.in_order()] == list(self.allocator.tree.clients())
        expected = scratch.cycle(self.refuses)
        given = self.allocator.cycle(self.refuses)
        assert as_dict(given) == as_dict(expected)
        for allocation in given:
            parts, key = self.held[allocation.agent_id], allocation.client.key
            parts[key] = parts.get(key, NOTHING) + allocation.resources
            one = self.supplies[allocation.agent_id]
            assert one.free.contains(allocation.resources)
            assert (agent_shared := allocation.resources.shared()).single() == agent_shared
            left = free_of(one.total, *parts.values())
            self.supplies[one.agent_id] = Supply(one.agent_id, one.total, left, active=one.active, info=one.info)

    def line(self, supply: Supply) -> int:
        return self.allocator._machines[supply.agent_id].number

    @invariant()
    def the_sums_agree(self) -> None:
        if hasattr(self, "allocator"):
            assert self.allocator.total == quantities(r for s in self.supplies.values() for r in s.total)
            for role in ROLES:
                below = [
                    (agent_id, r)
                    for agent_id, parts in self.held.items()
                    for (other, _), resources in parts.items()
                    for r in resources
                    if other == role or other.startswith(f"{role}/")
                ]
                volumes = {(agent_id, r.key): r for agent_id, r in below if r.shared}
                exclusive = [r for _, r in below if not r.shared]
                assert self.allocator.tree.held(role) == quantities([*exclusive, *volumes.values()])


def as_dict(allocations: list[Any]) -> dict[tuple[str, Key], Resources]:
    return {(a.agent_id, a.client.key): a.resources for a in allocations}


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=examples(100), stateful_step_count=40)


@pytest.mark.parametrize("seed", range(8))
def test_long_histories_with_few_changes_between_cycles(seed: int) -> None:
    dice = Random(seed)
    history = Histories()
    history.begin()
    name, agent = (lambda: dice.choice(NAMES)), (lambda: dice.choice(["a0", "a1", "a2"]))
    steps = [
        (40, lambda: history.comes_back(agent(), dice.randint(0, 5), dice.random() < 0.5)),
        (20, lambda: history.comes_back_in_part(agent(), dice.randint(0, 5))),
        (20, lambda: history.a_refusal_ends(dice.randint(0, 5))),
        (15, lambda: history.client_comes(name(), dice.choice(ROLES), dice.random() < 0.7, dice.randint(0, 3))),
        (5, lambda: history.client_goes(name(), dice.choice(ROLES), dice.random() < 0.5)),
        (3, lambda: history.agent_changes(agent(), dice.choice(SIZES), dice.random() < 0.8, dice.random() < 0.5)),
        (1, lambda: history.agent_goes(agent())),
        (2, lambda: history.quota_changes(dice.choice(QUOTAS))),
        (2, lambda: history.weight_changes(dice.choice(ROLES), dice.choice([0.5, 1.0, 3.0]))),
    ]
    for _ in range(400):
        [step] = dice.choices([step for _, step in steps], [weight for weight, _ in steps])
        step()
        history.the_sums_agree()
        history.allocate()
