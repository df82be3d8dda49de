"""Frameworks come, go, come back within their failover timeout, or are removed.

Source: Mesos src/master/master.cpp (subscribe, disconnect, failoverFramework, removeFramework).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from mesos_gpu.errors import BadInput, Forbidden
from mesos_gpu.master.allocation import constraints
from mesos_gpu.master.allocation.allocator_feed import offer_filters_problem
from mesos_gpu.master.decisions.permissions import subscription_refusal
from mesos_gpu.master.model.documents import roles_of
from mesos_gpu.master.model.model import Framework
from mesos_gpu.master.model.statuses import about, record
from mesos_gpu.master.state.actions import (
    Action,
    AwaitFailover,
    CloseStream,
    SendEvent,
    ShutdownFramework,
    UpdateFramework,
)
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.master.validation.calls import framework_problem
from mesos_gpu.mesos.documents import FrameworkInfo, framework_id_of
from mesos_gpu.mesos.ids import FrameworkId, Role, role_problem
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.resource import Document

# What a subscription cannot change; the old value is kept without a word.
_KEPT: Mapping[str, str | bool] = {"user": "", "checkpoint": False}
"""Fields of a FrameworkInfo that cannot be changed, and what they are when they are absent."""


def subscribe(state: MasterState, stream_id: str, subscribe_body: Mapping[str, Any], now: Moment) -> list[Action]:
    """A scheduler subscribes over a new stream; a refusal is an ERROR event and the end of the stream."""
    info: FrameworkInfo = subscribe_body["framework_info"]
    suppressed = tuple(subscribe_body.get("suppressed_roles", ()))
    framework_id = framework_id_of(info)
    known = state.frameworks.get(framework_id)
    wanted = dict(subscribe_body.get("offer_constraints", {}))
    problem = subscription_problem(state, info, suppressed, wanted)
    if problem is None and known is not None:
        # Also of one that only its agents told of: a failover of the master must not hand it to somebody else.
        problem = principal_problem(known, info)
    problem = problem or subscription_refusal(state, info)
    if problem is not None:
        return [SendEvent(stream_id, {"type": "ERROR", "error": {"message": problem}}), CloseStream(stream_id)]
    actions: list[Action] = []
    is_new = known is None
    if known is None:
        known = add_framework(state, info, framework_id, now)
    else:
        actions += _take_over(state, known, info, now)
    known.stream_id, known.pid = stream_id, None
    state.counters["messages_reregister_framework"] += bool(framework_id)
    state.announce("FRAMEWORK_ADDED" if is_new else "FRAMEWORK_UPDATED", known)
    activate(state, known, suppressed, wanted)
    # Agents know only frameworks that were here before, with this master or an earlier one.
    return [*actions, *_welcome(state, known), *(tell_agents(state, known) if framework_id else ())]


def subscription_problem(
    state: MasterState, info: Mapping[str, Any], suppressed: tuple[Role, ...], wanted: Mapping[str, Any]
) -> str | None:
    """Return why nobody may subscribe with this FrameworkInfo, in Mesos' words; None when somebody may.

    `suppressed` are roles that it wants no offers for yet, `wanted` its OfferConstraints.
    """
    problem = framework_problem(info, suppressed) or _offers_problem(state, info, wanted)
    if problem is None and info["user"] == "root" and not state.settings.root_submissions:
        problem = "User 'root' is not allowed to run frameworks without --root_submissions set"
    if problem is None and info.get("id", {}).get("value", "") in state.completed:
        problem = "Framework has been removed"
    return problem


def activate(
    state: MasterState, framework: Framework, suppressed: tuple[Role, ...], offer_constraints: Document
) -> None:
    """Begin to offer to a framework that has just subscribed; timers of before do nothing any more."""
    framework.epoch += 1
    framework.deactivated = False
    framework.suppressed = set(suppressed)
    framework.offer_constraints = offer_constraints
    state.ask_for_offers()


def update_framework(state: MasterState, framework: Framework, body: Mapping[str, Any]) -> list[Action]:
    """UPDATE_FRAMEWORK. Raises BadInput, and Forbidden for roles that the framework may not have."""
    info: FrameworkInfo = body["framework_info"]
    suppressed = tuple(body.get("suppressed_roles", ()))
    wanted = dict(body.get("offer_constraints", {}))
    for what, problem in (
        ("Supplied FrameworkInfo", framework_problem(info) or _offers_problem(state, info, {})),
        ("FrameworkInfo update", principal_problem(framework, info) or _kept_problem(framework, info)),
        ("'UpdateFramework' call", framework_problem(info, suppressed) or _offers_problem(state, info, wanted)),
    ):
        if problem is not None:
            raise BadInput(f"{what} is not valid: {problem}")
    refusal = subscription_refusal(state, info)
    if refusal is not None:
        raise Forbidden(refusal)
    framework.info = info
    state.announce("FRAMEWORK_UPDATED", framework)
    framework.suppressed = set(suppressed)
    framework.offer_constraints = wanted
    state.ask_for_offers()
    gone = [offer for offer in framework.offers.values() if offer.role not in framework.roles]
    actions = [action for offer in gone for action in state.rescind(offer)]
    return [*actions, *tell_agents(state, framework)]


def revive(state: MasterState, framework: Framework, roles: list[Role]) -> list[Action]:
    """REVIVE: offers again, and what was refused too. A wrong role drops the whole call."""
    wanted = _roles(framework, roles)
    if wanted is not None:
        framework.suppressed -= wanted
        state.filters.revive(framework.id, wanted)
        state.ask_for_offers()
    return []


def suppress(state: MasterState, framework: Framework, roles: list[Role]) -> list[Action]:
    """SUPPRESS: no new offers; those that are out stay. A wrong role drops the whole call."""
    wanted = _roles(framework, roles)
    if wanted is not None:
        framework.suppressed |= wanted
    return []


def disconnected(state: MasterState, stream_id: str, now: Moment) -> list[Action]:
    """A stream has ended. Tasks run on; the framework has its failover timeout to come back."""
    framework = state.framework_of(stream_id)
    if framework is None:
        return []
    framework.stream_id = None
    withdraw_offers(state, framework)
    if framework.failover_timeout_s <= 0:
        return remove_framework(state, framework, now)
    return [AwaitFailover(framework.id, framework.epoch, framework.failover_timeout_s)]


def failover_expired(state: MasterState, framework_id: FrameworkId, epoch: int, now: Moment) -> list[Action]:
    """A framework's time to come back is over, unless it did since."""
    framework = state.frameworks.get(framework_id)
    if framework is None or framework.connected or framework.epoch != epoch:
        return []
    return remove_framework(state, framework, now)


def remove_framework(state: MasterState, framework: Framework, now: Moment) -> list[Action]:
    """Remove a framework for good: its executors end, its id cannot come back. Its tasks are told to nobody."""
    actions: list[Action] = [ShutdownFramework(agent.id, framework.id) for agent in state.connected_agents()]
    withdraw_offers(state, framework)
    for task in list(framework.tasks.values()):
        if not task.ended:
            message = f"Framework {framework.id} removed"
            status = about(framework, task, "TASK_KILLED", now, reason="REASON_FRAMEWORK_REMOVED", message=message)
            record(task, status)
            state.release(task)
            task.document["state"] = "TASK_KILLED"
            state.announce_status(task, status)
        state.drop_task(framework, task)
    for agent in state.agents.values():
        for framework_id, executor_id in list(agent.executors):
            if framework_id == framework.id:
                state.drop_executor(agent, framework_id, executor_id)
    if framework.stream_id is not None:
        actions.append(CloseStream(framework.stream_id))
        framework.stream_id = None
    framework.unregistered_s = now.wall_s
    del state.frameworks[framework.id]
    state.filters.forget_framework(framework.id)
    state.remember_framework(framework)
    state.announce("FRAMEWORK_REMOVED", framework)
    return actions


def recover_framework(state: MasterState, info: FrameworkInfo, now: Moment) -> Framework:
    """Enter a framework that only its agent's report tells of; it may subscribe again."""
    framework = Framework(info["id"]["value"], info, now.wall_s, recovered=True)
    state.frameworks[framework.id] = framework
    state.announce("FRAMEWORK_ADDED", framework)
    return framework


def add_framework(state: MasterState, info: FrameworkInfo, framework_id: FrameworkId, now: Moment) -> Framework:
    """Enter a framework, under a new id when it has none."""
    if not framework_id:
        framework_id = state.ids.framework()
    framework = Framework(framework_id, {**info, "id": {"value": framework_id}}, now.wall_s)
    state.frameworks[framework_id] = framework
    return framework


def _take_over(state: MasterState, framework: Framework, info: FrameworkInfo, now: Moment) -> list[Action]:
    actions: list[Action] = []
    if framework.stream_id is not None:
        error = {"type": "ERROR", "error": {"message": "Framework failed over"}}
        actions = [SendEvent(framework.stream_id, error), CloseStream(framework.stream_id)]
    withdraw_offers(state, framework)
    renew(framework, info, now)
    return actions


def renew(framework: Framework, info: FrameworkInfo, now: Moment) -> None:
    """Take over what a framework says of itself when it comes back, but for what cannot change."""
    kept = {field: value for field, value in framework.info.items() if field in _KEPT}
    framework.info = cast(
        FrameworkInfo, {**{field: value for field, value in info.items() if field not in _KEPT}, **kept}
    )
    framework.recovered = False
    framework.reregistered_s = now.wall_s


def withdraw_offers(state: MasterState, framework: Framework) -> None:
    """Take all offers back without a word: there is no stream to say it on, or a new one that never saw them."""
    for offer in list(framework.offers.values()):
        state.drop_offer(offer)
    state.withdraw_inverse_offers(framework)
    state.filters.forget_framework(framework.id)


def _welcome(state: MasterState, framework: Framework) -> list[Action]:
    subscribed = {
        "framework_id": {"value": framework.id},
        "heartbeat_interval_seconds": state.settings.heartbeat_interval_s,
        "master_info": state.master_info,
    }
    return [*state.tell(framework, "SUBSCRIBED", subscribed), *state.tell(framework, "HEARTBEAT")]


def tell_agents(state: MasterState, framework: Framework) -> list[Action]:
    """Return the actions that tell agents what a framework looks like now."""
    return [UpdateFramework(agent.id, framework.info) for agent in state.connected_agents()]


def _kept_problem(framework: Framework, info: Mapping[str, Any]) -> str | None:
    """Return what a framework may not change while it is subscribed."""
    for field, default in _KEPT.items():
        before, after = (one.get(field, default) for one in (framework.info, info))
        if before != after:
            before, after = (str(one).lower() if isinstance(one, bool) else one for one in (before, after))
            return f"Updating 'FrameworkInfo.{field}' is unsupported; attempted to update from '{before}' to '{after}'"
    return None


def _offers_problem(state: MasterState, info: Mapping[str, Any], wanted: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the offers that a framework asks for: its roles, minimums and constraints."""
    roles = roles_of(info)
    strangers = [role for role in roles if not state.is_listed(role)]
    if strangers:
        return f"Roles {{ {', '.join(strangers)} }} are not present in the master's --roles"
    return offer_filters_problem(info.get("offer_filters", {})) or constraints.problem(wanted, roles)


def principal_problem(framework: Framework, info: Mapping[str, Any]) -> str | None:
    """Return why a framework may not come back under this principal; None when it may."""
    same = framework.info.get("principal") == info.get("principal")
    return None if same else "Changing framework's principal is not allowed."


def _roles(framework: Framework, roles: list[Role]) -> set[Role] | None:
    if any(role_problem(role) is not None or role not in framework.roles for role in roles):
        return None
    return set(roles) or set(framework.roles)
