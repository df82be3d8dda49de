"""Operators change weights and quota. Source: Mesos src/master/weights_handler.cpp, src/master/quota_handler.cpp."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mesos_gpu.errors import BadInput, Conflict
from mesos_gpu.master.allocation.eligibility import quantities
from mesos_gpu.master.events.stored import QuotasSet, WeightsSet
from mesos_gpu.master.model.quota import (
    Quota,
    missing,
    overcommit_problem,
    quota_of,
    request_problem,
    requested,
    update_problem,
)
from mesos_gpu.master.registry.operations import SetQuotas, SetWeights
from mesos_gpu.master.state.actions import Action, Store
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.ids import Role, role_problem
from mesos_gpu.mesos.resource import Document


def update_weights(state: MasterState, infos: Sequence[Mapping[str, Any]]) -> list[Action]:
    """UPDATE_WEIGHTS, PUT /weights: offers are taken back where a role in use is concerned. Raises BadInput."""
    weights: dict[Role, float] = {}
    for info in infos:
        role, weight = Role(str(info.get("role", "")).strip()), float(info["weight"])
        begin = "Failed to validate update weights request JSON"
        problem = role_problem(role)
        if problem is not None:
            raise BadInput(f"{begin}: Invalid role '{role}': {problem}")
        if not state.is_listed(role):
            raise BadInput(f"{begin}: Unknown role '{role}'")
        if not 0 < weight < float("inf"):
            raise BadInput(f"{begin} for role '{role}': Invalid weight '{weight:g}': Weights must be positive")
        weights[role] = weight
    return [Store(SetWeights(weights), WeightsSet(weights))]


def weights_set(state: MasterState, weights: Mapping[Role, float]) -> list[Action]:
    """Weights are in the registry: shares are counted by them."""
    state.policy.weights.update(weights)
    for role, weight in weights.items():
        state.allocator_feed.allocator.tree.set_weight(role, weight)
    actions: list[Action] = []
    if any(role in framework.roles for framework in state.frameworks.values() for role in weights):
        for agent in state.agents.values():
            actions += state.rescind_offers(agent)
    return actions


def update_quota(state: MasterState, body: Mapping[str, Any]) -> list[Action]:
    """UPDATE_QUOTA: all of the roles or none. Raises BadInput."""
    configs = body.get("quota_configs", ())
    force = bool(body.get("force", False))
    listed = state.settings.roles
    problem = update_problem(configs, state.policy.quotas, capacity(state), force=force, whitelist=listed)
    if problem is not None:
        raise BadInput(problem)
    return _set(state, {config["role"]: quota_of(config) for config in configs})


def set_quota(state: MasterState, request: Mapping[str, Any]) -> list[Action]:
    """SET_QUOTA, POST /quota: a guarantee that is the limit, too. Raises BadInput, and Conflict when it overcommits."""
    problem = request_problem(request, state.policy.quotas, state.settings.roles)
    if problem is not None:
        raise BadInput(problem)
    quota = requested(request)
    if not request.get("force", False):
        problem = overcommit_problem({**state.policy.quotas, request["role"]: quota}, capacity(state))
        if problem is not None:
            raise Conflict(problem)
    return _set(state, {request["role"]: quota})


def remove_quota(state: MasterState, role: Role, asked: str = "") -> list[Action]:
    """REMOVE_QUOTA, DELETE /quota/ROLE; `asked` begins the answer of the latter. Raises BadInput."""
    if not state.is_listed(role):
        raise BadInput(f"Failed to validate remove quota request{asked}: Unknown role '{role}'")
    if role not in state.policy.quotas:
        raise BadInput(f"Failed to remove quota{asked}: Role '{role}' has no quota set")
    return _set(state, {role: Quota()})


def capacity(state: MasterState) -> dict[str, int]:
    """Return what all registered agents have, in thousandths by name."""
    return quantities(r for agent in state.agents.values() for r in agent.total if not r.revocable)


def _set(state: MasterState, quotas: Mapping[Role, Quota]) -> list[Action]:
    return [Store(SetQuotas(quotas), QuotasSet(quotas))]


def quotas_set(state: MasterState, quotas: Mapping[Role, Quota]) -> list[Action]:
    """Quotas are in the registry: offers are made by them, and taken back where a guarantee needs them."""
    state.policy.set_quotas(quotas)
    state.allocator_feed.allocator.set_quotas(state.policy.quotas)
    state.ask_for_offers()
    actions: list[Action] = []
    for role, quota in quotas.items():
        actions += _rescind(state, role, quota)
    return actions


def _rescind(state: MasterState, role: Role, quota: Quota) -> list[Action]:
    """Take offers back, agent by agent, until a guarantee can be met and each framework of the role may get some."""
    actions: list[Action] = []
    if not quota.guarantees:
        return actions
    frameworks = sum(f.connected and role in f.roles for f in state.frameworks.values())
    rescinded: dict[str, int] = {}
    visited = 0
    for agent in state.agents.values():
        if not missing(quota.guarantees, rescinded) and visited >= frameworks:
            break
        if agent.active and agent.offers:
            for name, amount in quantities(agent.offered).items():
                rescinded[name] = rescinded.get(name, 0) + amount
            actions += state.rescind_offers(agent)
            visited += 1
    return actions


def weight_infos(state: MasterState) -> list[Document]:
    """Return all WeightInfos."""
    return [{"weight": weight, "role": role} for role, weight in state.policy.weights.items()]
