"""Checks: when a probe is due, and what its result means."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import BadInput
from mesos_gpu.mesos.checks import (
    CheckNews,
    Course,
    HealthNews,
    News,
    Result,
    answered,
    asked,
    begin,
    check_plan,
    empty_status,
    health_plan,
    plans_of,
)

WELL, ILL = Result(exit_code=0), Result(exit_code=1)


def health(**more: Any) -> dict[str, Any]:
    return {"type": "COMMAND", "command": {"value": "true"}, **more}


def follow(course: Course, results: list[Result]) -> tuple[Course, list[News | None]]:
    """Probe at once whenever a probe is due."""
    told = []
    for result in results:
        assert course.due_s is not None
        now_s = course.due_s
        assert asked(course).due_s is None
        course, news = answered(asked(course), result, now_s)
        told.append(news)
    return course, told


def test_the_defaults_are_those_of_mesos() -> None:
    plan = health_plan(health())
    assert (plan.delay_s, plan.interval_s, plan.probe.timeout_s) == (15.0, 10.0, 20.0)
    assert plan.health is not None
    assert (plan.health.grace_period_s, plan.health.consecutive_failures) == (10.0, 3)
    assert health_plan(health(timeout_seconds=0)).probe.timeout_s is None


def test_the_first_probe_waits_for_the_delay_and_the_next_for_the_interval_after_its_end() -> None:
    course = begin(health_plan(health(delay_seconds=4, interval_seconds=3)), 100.0)
    assert course.due_s == 104.0
    course, _ = answered(asked(course), WELL, 109.5)
    assert course.due_s == 112.5


def test_a_success_is_told_once_and_again_after_a_failure() -> None:
    course = begin(health_plan(health(delay_seconds=0, grace_period_seconds=0)), 0.0)
    _, told = follow(course, [WELL, WELL, ILL, WELL, WELL])
    assert told == [HealthNews(True), None, HealthNews(False, why="Command returned 1"), HealthNews(True), None]


def test_every_failure_is_told_and_the_last_of_so_many_kills_as_recorded() -> None:
    rules = health(delay_seconds=0, interval_seconds=0.5, grace_period_seconds=0, consecutive_failures=2)
    _, told = follow(begin(health_plan(rules), 0.0), [ILL, ILL])
    assert [(news.healthy, news.kill) for news in told if isinstance(news, HealthNews)] == [
        (False, False),
        (False, True),
    ]


def test_failures_in_the_grace_period_do_not_count_until_the_first_success() -> None:
    rules = health(delay_seconds=0, interval_seconds=1, grace_period_seconds=3)
    _, told = follow(begin(health_plan(rules), 0.0), [ILL, ILL, ILL, ILL])
    assert told[:3] == [None, None, None]
    assert told[3] == HealthNews(False, why="Command returned 1")
    _, told = follow(begin(health_plan(rules), 0.0), [WELL, ILL])
    assert told == [HealthNews(True), HealthNews(False, why="Command returned 1")]


def test_a_check_tells_changes_only_and_begins_with_nothing_found() -> None:
    check = {"type": "COMMAND", "command": {"command": {"value": "exit 5"}}, "delay_seconds": 0}
    assert empty_status(check) == {"type": "COMMAND", "command": {}}
    results = [Result(error="timed out"), Result(exit_code=5), Result(exit_code=5), Result(error="timed out"), WELL]
    _, told = follow(begin(check_plan(check), 0.0), results)
    assert told == [
        None,
        CheckNews({"type": "COMMAND", "command": {"exit_code": 5}}),
        None,
        CheckNews({"type": "COMMAND", "command": {}}),
        CheckNews({"type": "COMMAND", "command": {"exit_code": 0}}),
    ]


@pytest.mark.parametrize(("code", "well"), [(199, False), (200, True), (302, True), (399, True), (400, False)])
def test_http_is_well_from_200_to_399(code: int, well: bool) -> None:
    plan = health_plan({"type": "HTTP", "http": {"port": 80}, "grace_period_seconds": 0})
    _, news = answered(begin(plan, 0.0), Result(status_code=code), 1.0)
    assert isinstance(news, HealthNews)
    assert news.healthy is well


def test_http_is_well_at_the_statuses_that_are_named() -> None:
    plan = health_plan({"type": "HTTP", "http": {"port": 80, "statuses": [418]}, "grace_period_seconds": 0})
    assert answered(begin(plan, 0.0), Result(status_code=418), 1.0)[1] == HealthNews(True)
    _, news = answered(begin(plan, 0.0), Result(status_code=200), 1.0)
    assert news == HealthNews(False, why="Unexpected HTTP response code: 200")


def test_http_and_tcp_go_to_the_loopback() -> None:
    (http,) = plans_of({"health_check": {"http": {"port": 8080, "path": "up?x=1"}}})
    assert http.probe.url == "http://127.0.0.1:8080/up?x=1"
    six = {"type": "HTTP", "http": {"port": 443, "path": "/", "scheme": "https", "protocol": "IPv6"}}
    assert health_plan(six).probe.url == "https://[::1]:443/"
    tcp = check_plan({"type": "TCP", "tcp": {"port": 22}})
    assert (tcp.probe.address, tcp.probe.port) == ("127.0.0.1", 22)
    _, news = answered(begin(tcp, 0.0), Result(connected=True), 1.0)
    assert news == CheckNews({"type": "TCP", "tcp": {"succeeded": True}})


@pytest.mark.parametrize(
    "check",
    [
        {"type": "COMMAND"},
        {"type": "HTTP", "http": {"path": "/"}},
        {"type": "TCP", "tcp": {}},
        {"type": "GRPC"},
        {"type": "HTTP", "http": {"port": 1, "scheme": "ftp"}},
        {},
    ],
)
def test_what_cannot_be_probed_is_refused(check: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        health_plan(check)


def test_after_a_restart_only_what_is_new_is_told_and_the_old_clocks_run_on() -> None:
    plan = health_plan(health(delay_seconds=5, grace_period_seconds=20))
    course = begin(plan, 100.0, since_s=90.0, healthy=True)
    assert course.due_s == 100.0
    assert answered(course, WELL, 101.0)[1] is None
    assert answered(course, ILL, 101.0)[1] == HealthNews(False, why="Command returned 1")
    assert answered(begin(plan, 100.0, since_s=90.0), ILL, 101.0)[1] is None
    assert answered(begin(plan, 100.0, since_s=90.0, healthy=False), WELL, 101.0)[1] == HealthNews(True)


@given(
    st.lists(st.booleans(), max_size=40),
    st.floats(0, 20),
    st.floats(0.1, 5),
    st.floats(0, 30),
    st.integers(1, 5),
)
def test_a_task_is_killed_for_that_many_failures_in_a_row_and_for_nothing_else(
    outcomes: list[bool], delay_s: float, interval_s: float, grace_s: float, limit: int
) -> None:
    rules = health(
        delay_seconds=delay_s, interval_seconds=interval_s, grace_period_seconds=grace_s, consecutive_failures=limit
    )
    course, row, proven = begin(health_plan(rules), 0.0), 0, False
    for well in outcomes:
        assert course.due_s is not None
        now_s = course.due_s
        forgiven = not proven and now_s < grace_s
        course, news = answered(asked(course), WELL if well else ILL, now_s)
        proven = proven or well
        row = 0 if well else row + (not forgiven)
        assert (isinstance(news, HealthNews) and news.kill) is (not well and row >= limit)
        if not well and not forgiven:
            assert isinstance(news, HealthNews)
        assert course.failures == row
