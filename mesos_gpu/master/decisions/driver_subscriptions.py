"""Frameworks whose scheduler is libmesos' driver: they subscribe by message, and are who and where their pid says.

A framework over HTTP is whoever has its stream; here the sender's pid takes the place of the stream, and it stays the
framework's when the link to it breaks: only that driver, or one that says `force`, may come back under its id.
Source: Mesos src/master/master.cpp (subscribe, _subscribe and failoverFramework with a UPID; exited,
deactivateFramework, receive).
"""

from __future__ import annotations

from mesos_gpu.master.decisions import subscriptions
from mesos_gpu.master.decisions.permissions import subscription_refusal
from mesos_gpu.master.events.schedulers import DriverSubscribes
from mesos_gpu.master.model.model import Framework
from mesos_gpu.master.state.actions import Action, CloseStream, SendEvent, Warn
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.documents import FrameworkInfo, framework_id_of
from mesos_gpu.mesos.ids import FrameworkId
from mesos_gpu.mesos.moment import Moment
from mesos_gpu.mesos.resource import Document

REGISTERED, REREGISTERED = "SUBSCRIBED", "REREGISTERED"
"""Both say that a framework is subscribed; the second to a driver that the master knew. v1 has the first alone."""
FAILED_OVER = "Framework failed over"
DISCONNECTED = "Framework disconnected"


def subscribe(state: MasterState, asked: DriverSubscribes, now: Moment) -> list[Action]:
    """A driver subscribes, for the first time or again; a refusal is an ERROR, upon which drivers give up."""
    info = asked.info.copy()
    framework_id = framework_id_of(info)
    state.counters["calls_subscribe"] += 1
    state.counters["messages_reregister_framework"] += bool(framework_id)
    problem = subscriptions.subscription_problem(state, info, asked.suppressed, asked.offer_constraints)
    problem = problem or _authentication_problem(state, asked)
    if asked.principal is not None:
        info.setdefault("principal", asked.principal)
    problem = problem or subscription_refusal(state, info)
    if problem is not None:
        return _refuse(state, asked.pid, problem)
    here = framework_at(state, asked.pid)
    if not framework_id:
        if here is not None:
            return [_welcome(state, here, asked.pid, REGISTERED)]  # it asks until it is answered
        return _first_time(state, asked, info, now)
    if here is not None and here.id != framework_id:
        # No answer: it would reach the framework that is there.
        return [Warn(f"ignoring the subscription of framework {framework_id} at {asked.pid}: {here.id} is there")]
    known = state.frameworks.get(framework_id)
    if known is None:
        return [
            *_first_time(state, asked, info, now),
            *subscriptions.tell_agents(state, state.frameworks[framework_id]),
        ]
    problem = subscriptions.principal_problem(known, info)
    if problem is None and not known.recovered and known.pid != asked.pid and not asked.force:
        problem = FAILED_OVER
    if problem is not None:
        return _refuse(state, asked.pid, problem)
    return _again(state, known, asked, info, now)


def aborted(state: MasterState, framework_id: FrameworkId) -> list[Action]:
    """A driver was aborted: its framework wants no offers, keeps its tasks, and is removed when its time is over."""
    state.counters["messages_deactivate_framework"] += 1
    framework = state.frameworks.get(framework_id)
    if framework is None or not framework.active:
        return []
    framework.deactivated = True
    actions = _rescind_all(state, framework)
    state.filters.forget_framework(framework.id)
    return actions


def exited(state: MasterState, pid: str, now: Moment) -> list[Action]:
    """The link to a driver broke. One that lives is told, since it cannot know; it has its failover timeout."""
    framework = state.framework_of(pid)
    if framework is None:
        return []
    actions: list[Action] = [SendEvent(pid, _error(DISCONNECTED)), *_rescind_all(state, framework), CloseStream(pid)]
    return [*actions, *subscriptions.disconnected(state, pid, now)]


def caller_problem(framework: Framework | None, pid: str) -> str | None:
    """Return why a message is dropped that names this framework and comes from `pid`; None when it counts."""
    if framework is None:
        return "Framework cannot be found"
    if framework.pid != pid:
        return "Call is not from registered framework"
    return None


def framework_at(state: MasterState, pid: str) -> Framework | None:
    """Return the framework whose driver is, or was when the link to it broke, at `pid`."""
    return next((framework for framework in state.frameworks.values() if framework.pid == pid), None)


def _authentication_problem(state: MasterState, asked: DriverSubscribes) -> str | None:
    if asked.principal is None:
        return f"Framework at {asked.pid} is not authenticated" if state.settings.authenticate_frameworks else None
    given = asked.info.get("principal", asked.principal)
    if given == asked.principal:
        return None
    return f"Framework principal '{given}' does not match authenticated principal '{asked.principal}'"


def _first_time(state: MasterState, asked: DriverSubscribes, info: FrameworkInfo, now: Moment) -> list[Action]:
    """Enter a framework that is new, or that this master, elected since, has not heard of."""
    framework = subscriptions.add_framework(state, info, framework_id_of(info), now)
    state.announce("FRAMEWORK_ADDED", framework)
    return [_connect(state, framework, asked, REGISTERED)]


def _again(
    state: MasterState, framework: Framework, asked: DriverSubscribes, info: FrameworkInfo, now: Moment
) -> list[Action]:
    """Let the driver that is expected, or one that takes its place, have a framework."""
    actions: list[Action] = []
    kind = REGISTERED
    if asked.force or framework.recovered:
        if framework.stream_id not in (None, asked.pid):
            actions = [SendEvent(framework.stream_id, _error(FAILED_OVER)), CloseStream(framework.stream_id)]
        # Without a word, since the new driver never saw these offers. What the old one refused stays refused.
        for offer in list(framework.offers.values()):
            state.drop_offer(offer)
        state.withdraw_inverse_offers(framework)
    else:
        kind = REREGISTERED
        actions = _rescind_all(state, framework)
    subscriptions.renew(framework, info, now)
    state.announce("FRAMEWORK_UPDATED", framework)
    return [*actions, _connect(state, framework, asked, kind), *subscriptions.tell_agents(state, framework)]


def _connect(state: MasterState, framework: Framework, asked: DriverSubscribes, kind: str) -> Action:
    framework.stream_id = framework.pid = asked.pid
    subscriptions.activate(state, framework, asked.suppressed, asked.offer_constraints)
    return _welcome(state, framework, asked.pid, kind)


def _welcome(state: MasterState, framework: Framework, pid: str, kind: str) -> Action:
    for name in ("calls", "calls/subscribe"):
        framework.counters[name] += 1
    for name in ("events", "events/subscribed"):
        framework.counters[name] += 1
    body = {"framework_id": {"value": framework.id}, "master_info": state.master_info}
    return SendEvent(pid, {"type": kind, kind.lower(): body})


def _rescind_all(state: MasterState, framework: Framework) -> list[Action]:
    """Take back every offer of a framework, and every inverse one, and say so."""
    actions = [action for offer in list(framework.offers.values()) for action in state.rescind(offer)]
    for offer_id in framework.inverse_offers:
        actions += state.tell(framework, "RESCIND_INVERSE_OFFER", {"inverse_offer_id": {"value": offer_id}})
    state.withdraw_inverse_offers(framework)
    return actions


def _refuse(state: MasterState, pid: str, problem: str) -> list[Action]:
    actions: list[Action] = [SendEvent(pid, _error(problem))]
    return actions if state.framework_of(pid) is not None else [*actions, CloseStream(pid)]


def _error(message: str) -> Document:
    return {"type": "ERROR", "error": {"message": message}}
