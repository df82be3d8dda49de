"""Schedulers with libmesos' driver: who may have a framework, in every case that Mesos' master tells apart."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mesos_gpu.master.decisions import driver_subscriptions, offering, subscriptions
from mesos_gpu.master.decisions.handle import decide
from mesos_gpu.master.events.schedulers import DriverSubscribes, Kill, Teardown
from mesos_gpu.master.model.model import Framework
from mesos_gpu.master.state.actions import Action, AwaitFailover, SendEvent, UpdateFramework, Warn
from mesos_gpu.master.state.settings import Settings
from mesos_gpu.master.state.state import MasterState
from mesos_gpu.mesos.resource import Document
from tests.support.histories import examples
from tests.support.master.build import (
    NOW,
    RULES,
    add_agent,
    add_framework,
    check_books,
    framework_info,
    later,
    new_state,
    offers,
    task_info,
)
from tests.support.master.build import launch as launch_tasks

A, B, C = "scheduler-a@127.0.0.1:1001", "scheduler-b@127.0.0.1:1002", "scheduler-c@127.0.0.1:1003"
OVER, REMOVED, GONE = "Framework failed over", "Framework has been removed", "Framework disconnected"


@pytest.fixture
def state() -> MasterState:
    return new_state()


def subscribe(
    state: MasterState, pid: str, framework_id: str = "", *, force: bool = False, **more: Any
) -> list[Action]:
    info = framework_info("v0", **more)
    if framework_id:
        info["id"] = {"value": framework_id}
    return driver_subscriptions.subscribe(state, DriverSubscribes(pid, info, force=force), NOW)


def told(actions: list[Action]) -> list[tuple[str, str]]:
    """To whom something is said, and what: the kind of event, of an error its words."""
    return [
        (action.stream_id, action.event.get("error", {}).get("message") or action.event["type"])
        for action in actions
        if isinstance(action, SendEvent)
    ]


def only(state: MasterState) -> Framework:
    (framework,) = state.frameworks.values()
    return framework


def test_a_new_driver_is_registered_once_however_often_it_asks(state: MasterState) -> None:
    assert told(subscribe(state, A)) == [(A, "SUBSCRIBED")]
    assert told(subscribe(state, A)) == [(A, "SUBSCRIBED")]
    assert (only(state).pid, only(state).connected, only(state).active) == (A, True, True)


def test_the_same_driver_again_loses_its_offers_and_is_told_so(state: MasterState) -> None:
    add_agent(state)
    subscribe(state, A)
    assert len(offers(state)) == 1
    assert told(subscribe(state, A, only(state).id)) == [(A, "RESCIND"), (A, "REREGISTERED")]
    assert only(state).offers == {}


@pytest.mark.parametrize("connected", [True, False])
def test_another_driver_without_force_is_told_that_the_framework_failed_over(
    state: MasterState, *, connected: bool
) -> None:
    subscribe(state, A)
    if not connected:
        driver_subscriptions.exited(state, A, NOW)
    assert told(subscribe(state, B, only(state).id)) == [(B, OVER)]
    assert (only(state).pid, only(state).connected) == (A, connected)


def test_another_driver_with_force_takes_over_and_offers_go_without_a_word(state: MasterState) -> None:
    agent = add_agent(state)
    subscribe(state, A)
    offers(state)
    actions = subscribe(state, B, only(state).id, force=True)
    assert told(actions) == [(A, OVER), (B, "SUBSCRIBED")]
    assert only(state).offers == {}
    assert UpdateFramework(agent.id, only(state).info) in actions
    assert state.framework_of(A) is None


def test_a_failover_that_arrives_twice_is_no_failover_of_itself(state: MasterState) -> None:
    subscribe(state, A)
    subscribe(state, B, only(state).id, force=True)
    assert told(subscribe(state, B, only(state).id, force=True)) == [(B, "SUBSCRIBED")]


def test_a_driver_that_takes_over_from_one_that_is_gone_is_registered(state: MasterState) -> None:
    subscribe(state, A)
    driver_subscriptions.exited(state, A, NOW)
    assert told(subscribe(state, B, only(state).id, force=True)) == [(B, "SUBSCRIBED")]


@pytest.mark.parametrize("force", [True, False])
def test_a_framework_of_an_earlier_master_is_registered_whoever_asks(state: MasterState, *, force: bool) -> None:
    assert told(subscribe(state, A, "earlier-0001", force=force)) == [(A, "SUBSCRIBED")]
    subscriptions.recover_framework(state, {**framework_info("v0"), "id": {"value": "earlier-0002"}}, NOW)
    assert told(subscribe(state, B, "earlier-0002", force=force)) == [(B, "SUBSCRIBED")]
    assert not any(framework.recovered for framework in state.frameworks.values())


def test_a_pid_of_another_framework_gets_no_answer_since_that_one_would_read_it(state: MasterState) -> None:
    subscribe(state, A)
    first = only(state).id
    subscribe(state, B)
    (actions,) = [subscribe(state, B, first, force=True)]
    assert told(actions) == []
    assert [type(action) for action in actions] == [Warn]
    assert state.frameworks[first].pid == A


def test_a_removed_framework_does_not_come_back(state: MasterState) -> None:
    subscribe(state, A)
    framework = only(state)
    subscriptions.remove_framework(state, framework, NOW)
    assert told(subscribe(state, B, framework.id, force=True)) == [(B, REMOVED)]
    assert state.frameworks == {}


def test_a_driver_that_was_aborted_gets_no_offers_and_keeps_its_tasks(state: MasterState) -> None:
    agent = add_agent(state)
    subscribe(state, A)
    framework = only(state)
    launch_tasks(state, offers(state)[0], task_info(agent))
    offering.tick(state, later(60))
    assert len(framework.offers) == 1
    assert told(driver_subscriptions.aborted(state, framework.id)) == [(A, "RESCIND")]
    assert driver_subscriptions.aborted(state, framework.id) == []
    assert offers(state, later(60)) == []
    assert list(framework.tasks) == ["t"]
    assert (framework.connected, framework.active) == (True, False)
    subscribe(state, A, framework.id)
    assert framework.active
    check_books(state)


def test_a_broken_link_is_told_and_begins_the_failover_timeout(state: MasterState) -> None:
    add_agent(state)
    subscribe(state, A)
    framework = only(state)
    offers(state)
    actions = driver_subscriptions.exited(state, A, NOW)
    assert told(actions) == [(A, GONE), (A, "RESCIND")]
    assert AwaitFailover(framework.id, framework.epoch, 30.0) in actions
    assert driver_subscriptions.exited(state, A, NOW) == []
    assert told(subscribe(state, A, framework.id)) == [(A, "REREGISTERED")]
    assert subscriptions.failover_expired(state, framework.id, 1, later(30)) == []


def test_a_driver_takes_a_framework_over_from_http_and_back(state: MasterState) -> None:
    framework = add_framework(state)
    info = {**framework_info("test"), "id": {"value": framework.id}}
    refused = driver_subscriptions.subscribe(state, DriverSubscribes(A, info), NOW)
    assert told(refused) == [(A, OVER)]
    taken = driver_subscriptions.subscribe(state, DriverSubscribes(A, info, force=True), NOW)
    assert told(taken) == [("stream-test", OVER), (A, "SUBSCRIBED")]
    back = subscriptions.subscribe(state, "stream-2", {"framework_info": info}, NOW)
    assert told(back) == [(A, OVER), ("stream-2", "SUBSCRIBED"), ("stream-2", "HEARTBEAT")]
    assert framework.pid is None


@pytest.mark.parametrize(
    ("required", "principal", "given", "problem"),
    [
        (True, None, None, f"Framework at {A} is not authenticated"),
        (False, None, "me", None),
        (True, "me", None, None),
        (True, "me", "me", None),
        (False, "me", "you", "Framework principal 'you' does not match authenticated principal 'me'"),
    ],
)
def test_a_driver_is_who_it_has_shown_to_be(
    state: MasterState, *, required: bool, principal: str | None, given: str | None, problem: str | None
) -> None:
    state.settings = Settings(RULES, authenticate_frameworks=required)
    info = framework_info("v0", **({} if given is None else {"principal": given}))
    actions = driver_subscriptions.subscribe(state, DriverSubscribes(A, info, principal=principal), NOW)
    assert told(actions) == [(A, problem or "SUBSCRIBED")]
    if problem is None:
        assert only(state).info["principal"] == "me"


def test_a_wrong_framework_info_is_refused_in_the_words_of_v1(state: MasterState) -> None:
    assert told(subscribe(state, A, role="/a")) == [
        (A, "'FrameworkInfo.role' is not a valid role: Role '/a' cannot start with a slash")
    ]


# --- any order of these ---------------------------------------------------------------------------------------------

PIDS = (A, B, C)
FAILOVER_S = 30.0


@dataclass(frozen=True, slots=True)
class Seat:
    """A framework as the table sees it: the pid that it belongs to, and whether that is connected and wants offers."""

    pid: str | None
    connected: bool
    active: bool = True


@dataclass(slots=True)
class Table:
    """Mesos' table, written down once more: by framework, by what was removed, and what is said."""

    seats: dict[str, Seat] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)

    def subscribed(self, pid: str, framework_id: str, *, force: bool) -> list[tuple[str, str]]:
        if framework_id in self.removed:
            return [(pid, REMOVED)]
        here = next((known for known, seat in self.seats.items() if seat.pid == pid), None)
        if not framework_id:
            return [(pid, "SUBSCRIBED")]
        if here not in (None, framework_id):
            return []
        seat = self.seats.get(framework_id)
        said = [(pid, "SUBSCRIBED")]
        if seat is not None and seat.pid is not None:  # registered with this master
            if seat.pid != pid and not force:
                return [(pid, OVER)]
            if seat.pid != pid and seat.connected:
                said = [(seat.pid, OVER), *said]
            if not force:
                said = [(pid, "REREGISTERED")]
        self.seats[framework_id] = Seat(pid, connected=True)
        return said


steps = st.one_of(
    st.tuples(st.just("subscribe"), st.sampled_from(PIDS), st.integers(-1, 3), st.booleans()),
    st.tuples(st.sampled_from(["exited", "deactivate", "teardown", "kill"]), st.sampled_from(PIDS), st.integers(0, 3)),
    st.tuples(st.sampled_from(["recovered", "expired"]), st.integers(0, 3)),
)


@settings(max_examples=examples(300))
@given(st.lists(steps, max_size=25))
def test_any_order_of_failovers_goes_by_the_table(history: list[tuple[Any, ...]]) -> None:
    state, table = new_state(), Table()
    add_agent(state)
    ids: list[str] = [f"earlier-{n:04}" for n in range(4)]
    for step in history:
        _take(step, state, table, ids)
        check_books(state)
        assert {
            f.id: Seat(f.pid, f.connected, f.active or not f.connected) for f in state.frameworks.values()
        } == table.seats
        assert set(state.completed) == table.removed
        streams = [f.stream_id for f in state.frameworks.values() if f.stream_id is not None]
        assert len(set(streams)) == len(streams), "one framework at a pid"
        offers(state)
        for framework in state.frameworks.values():
            assert not framework.offers or framework.active


def _take(step: tuple[Any, ...], state: MasterState, table: Table, ids: list[str]) -> None:
    """Have one thing happen to the master and to the table; both say the same."""
    match step:
        case ("subscribe", pid, n, force):
            framework_id = "" if n < 0 else ids[n]
            before = set(state.frameworks)
            actions = subscribe(state, pid, framework_id, force=force)
            assert _without_rescinds(actions) == table.subscribed(pid, framework_id, force=force)
            for new in set(state.frameworks) - before - set(ids):
                table.seats[new] = Seat(pid, connected=True)
                ids[len(table.seats) % len(ids)] = new
        case ("exited", pid, _):
            told_of = [framework_id for framework_id, seat in table.seats.items() if seat.pid == pid and seat.connected]
            actions = driver_subscriptions.exited(state, pid, NOW)
            assert _without_rescinds(actions) == [(pid, GONE) for _ in told_of]
            for framework_id in told_of:
                table.seats[framework_id] = Seat(pid, connected=False)
        case ("expired", n):
            framework = state.frameworks.get(ids[n])
            if framework is not None:
                subscriptions.failover_expired(state, framework.id, framework.epoch, later(FAILOVER_S))
                if not table.seats[framework.id].connected:
                    _remove(table, framework.id)
        case ("recovered", n):
            if ids[n] not in state.frameworks and ids[n] not in state.completed:
                subscriptions.recover_framework(state, {**framework_info("v0"), "id": {"value": ids[n]}}, NOW)
                table.seats[ids[n]] = Seat(None, connected=False)
        case (kind, pid, n):
            _call(kind, pid, ids[n], state, table)


def _call(kind: str, pid: str, framework_id: str, state: MasterState, table: Table) -> None:
    framework, seat = state.frameworks.get(framework_id), table.seats.get(framework_id)
    problem = driver_subscriptions.caller_problem(framework, pid)
    assert (problem is None) == (seat is not None and seat.pid == pid)
    if problem is not None or framework is None or seat is None:
        return  # of a driver that is not the framework's nothing counts: that makes its Deactivate harmless
    if kind == "deactivate":
        assert _without_rescinds(driver_subscriptions.aborted(state, framework.id)) == []
        if seat.connected:
            table.seats[framework_id] = replace(seat, active=False)
    elif kind == "teardown":
        assert told(decide(state, Teardown(framework.id, {}), NOW)) == []
        _remove(table, framework_id)
    else:
        body: Document = {"task_id": {"value": "nobody"}}
        expected = [(pid, "UPDATE")] if seat.connected else []
        assert told(decide(state, Kill(framework.id, body), NOW)) == expected


def _remove(table: Table, framework_id: str) -> None:
    del table.seats[framework_id]
    table.removed.add(framework_id)


def _without_rescinds(actions: list[Action]) -> list[tuple[str, str]]:
    return [one for one in told(actions) if one[1] != "RESCIND"]
