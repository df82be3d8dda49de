from __future__ import annotations

import base64
import itertools
import json
import re
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import BadFlag, BadInput, ProtocolError
from mesos_gpu.executor.main import new_uuid
from mesos_gpu.master.views.views import master_info
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
from mesos_gpu.mesos.ids import id_problem, role_problem
from mesos_gpu.mesos.leader import HostPort, ZkUrl, leading, parse_master, parse_zk_url, read_node, write_node
from mesos_gpu.mesos.libprocess import Pid
from mesos_gpu.mesos.messages import check, encode
from mesos_gpu.mesos.regex import MAX_REGEX, Pattern
from mesos_gpu.mesos.timers import KEPT, PERCENTILES, Timer
from mesos_gpu.mesos.uuids import is_uuid, random_uuid, uuid_in
from tests.support.golden import Golden


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("task-1", None),
        ("a.b", None),
        ("x" * 255, None),
        ("", "ID must not be empty"),
        ("x" * 256, "ID must not be greater than 255 characters"),
        (".", "'.' is disallowed"),
        ("..", "'..' is disallowed"),
        ("a/b", "'a/b' contains invalid characters"),
        ("a\\b", "'a\\b' contains invalid characters"),
        ("a\nb", "'a\nb' contains invalid characters"),
    ],
)
def test_ids_are_single_path_components(text: str, problem: str | None) -> None:
    assert id_problem(text) == problem


@pytest.mark.parametrize(
    ("role", "problem"),
    [
        ("*", None),
        ("slave_public", None),
        ("a/b/c", None),
        ("", "Role names cannot be the empty string"),
        ("/a", "Role '/a' cannot start with a slash"),
        ("a/", "Role 'a/' cannot end with a slash"),
        ("a//b", "Role 'a//b' cannot contain two adjacent slashes"),
        ("..", "Role '..' cannot include '..' as a component"),
        ("a/*", "Role 'a/*' cannot include '*' as a component"),
        ("-bad", "Role component '-bad' is invalid because it starts with a dash"),
        ("a b", "Role component 'a b' is invalid because it contains backspace or whitespace"),
    ],
)
def test_role_names_follow_mesos_rules(role: str, problem: str | None) -> None:
    assert role_problem(role) == problem


def text(number: bytes) -> str:
    return base64.b64encode(number).decode()


@given(st.binary(min_size=16, max_size=16))
def test_random_bytes_become_a_uuid_of_version_4(random: bytes) -> None:
    made = uuid.UUID(bytes=random_uuid(random))
    assert (made.version, made.variant) == (4, uuid.RFC_4122)
    assert is_uuid(text(made.bytes))


@given(st.binary(min_size=16, max_size=16))
def test_16_bytes_are_one_when_their_version_is_1_to_5(number: bytes) -> None:
    assert is_uuid(text(number)) == (1 <= number[6] >> 4 <= 5)


@pytest.mark.parametrize("wrong", ["", "x", "dQ==", text(b"v" * 16), text(b"0123456789abcdef" + b"0")])
def test_what_is_none_is_refused_by_name(wrong: str) -> None:
    with pytest.raises(ProtocolError, match="an operation"):
        uuid_in(wrong, "an operation")


def test_the_default_executor_makes_valid_ones() -> None:
    assert all(is_uuid(new_uuid()) for _ in range(100))


_atoms = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "[a-c]", r"\d", r"\w", r"\S", "(?:ab)", "(a|b)", "(|a)"])
_repeats = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,2}", "*?"])
_regexes = st.lists(st.tuples(_atoms, _repeats), max_size=4).map(lambda parts: "".join(a + r for a, r in parts))
_nested = st.one_of(
    _regexes,
    st.tuples(_regexes, _repeats).map(lambda pair: f"({pair[0]}){pair[1]}"),
    st.tuples(_regexes, _regexes).map("|".join),
    _regexes.map(lambda regex: f"^{regex}$"),
)


@given(_nested, st.text("ab0 _", max_size=6))
def test_it_agrees_with_pythons_own(regex: str, text: str) -> None:
    assert Pattern(regex).fullmatch(text) == (re.compile(regex, re.ASCII).fullmatch(text) is not None)


@given(_nested, st.text("aAbB0 _", max_size=6))
def test_it_agrees_with_pythons_own_whatever_the_case(regex: str, text: str) -> None:
    found = Pattern(regex, ignore_case=True).fullmatch(text)
    assert found == (re.compile(regex, re.ASCII | re.IGNORECASE).fullmatch(text) is not None)


@pytest.mark.parametrize("regex", ["(a+)+b", "(a|aa)+b", "(.*)*.*(.*)*c", "a{1000}" + "a?" * 300])
def test_what_takes_exponential_time_elsewhere_does_not_here(regex: str) -> None:
    assert not Pattern(regex).fullmatch("a" * 200)


@pytest.mark.parametrize(
    "regex",
    ["(", "a(?=b)", r"(a)\1", "(?i)a", "(?i:a)", r"\bword", "a{1001}", "a" * (MAX_REGEX + 1), "(" * 5000],
    ids=["open", "assertion", "reference", "flags", "flags of a group", "boundary", "repetitions", "length", "depth"],
)
def test_what_is_not_regular_or_too_big_is_refused(regex: str, golden: Golden) -> None:
    with pytest.raises(ValueError) as refused:
        Pattern(regex)
    assert str(refused.value) == golden


def test_nothing_is_shown_before_the_first_run() -> None:
    assert Timer("run").shown() == {}


def test_statistics_are_of_all_runs_in_milliseconds() -> None:
    timer = Timer("run")
    for took_ms in (1, 2, 3, 4, 5):
        timer.add(took_ms / 1000)
    shown = timer.shown()
    assert set(shown) == {"run_ms"} | {f"run_ms/{name}" for name in (*PERCENTILES, "count", "min", "max")}
    assert (shown["run_ms"], shown["run_ms/count"], shown["run_ms/min"], shown["run_ms/max"]) == (5, 5, 1, 5)
    assert (shown["run_ms/p50"], shown["run_ms/p90"]) == (3, pytest.approx(4.6))


@given(st.lists(st.floats(min_value=0, max_value=1e6), min_size=1, max_size=KEPT + 50))
def test_percentiles_lie_in_order_between_the_extremes(runs: list[float]) -> None:
    timer = Timer("run")
    for took_s in runs:
        timer.add(took_s)
    shown = timer.shown()
    ordered = [shown[f"run_ms/{name}"] for name in ("min", *PERCENTILES, "max")]
    assert all(b >= a or b == pytest.approx(a) for a, b in itertools.pairwise(ordered))
    assert shown["run_ms/count"] == min(len(runs), KEPT)


PID = Pid("master", "10.0.0.1", 5050)
# As a 1.12 master writes it: src/master/constants.hpp (MASTER_INFO_JSON_LABEL).
REAL = (
    b'{"address":{"hostname":"m1","ip":"10.0.0.1","port":5050},"capabilities":[{"type":"AGENT_UPDATE"}],'
    b'"hostname":"m1","id":"3c0e","ip":16777226,"pid":"master@10.0.0.1:5050","port":5050,"version":"1.12.0"}'
)


def test_an_address_a_list_and_zookeeper() -> None:
    assert parse_master("master", "m1:5051") == (HostPort("m1", 5051),)
    assert parse_master("master", "master@10.0.0.1:5050") == (HostPort("10.0.0.1", 5050),)
    assert parse_master("master", "m1, m2:5051") == (HostPort("m1", 5050), HostPort("m2", 5051))
    assert parse_master("master", "zk://z1:2181,z2:2181/mesos") == ZkUrl("z1:2181,z2:2181", "/mesos")
    assert parse_zk_url("zk", "zk://me:se@cret@z1:2181/a/b/") == ZkUrl("z1:2181", "/a/b", "me:se@cret")


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "m1:port",
        "m1:70000",
        "http://m1:5050",
        "m1:5050,",
        "zk://z1:2181",
        "zk://z1:2181/",
        "zk://me@z1:2181/mesos",
        "zk:// /mesos",
    ],
)
def test_what_names_no_master_is_refused_with_the_form_it_should_have(text: str | None, golden: Golden) -> None:
    with pytest.raises(BadFlag) as refused:
        parse_master("master", text)
    assert str(refused.value) == golden


def test_a_password_is_neither_shown_nor_told_in_an_error() -> None:
    url = parse_zk_url("zk", "zk://me:secret@z1:2181/mesos")
    assert "secret" not in f"{url} {url!r}"
    with pytest.raises(BadFlag) as refused:
        parse_zk_url("zk", "zk://me:secret@z1:2181")
    assert "secret" not in str(refused.value)


def test_the_lowest_number_leads_whatever_its_label() -> None:
    assert leading(["log_replicas", "json.info_0000000012", "info_0000000007", "0000000009"]) == "info_0000000007"
    assert leading(["json.info_0000000012", "json.info_0000000009"]) == "json.info_0000000009"
    assert leading(["log_replicas", "something", ""]) is None


@given(st.lists(st.integers(0, 10**10 - 1), min_size=1, unique=True), st.sampled_from(["json.info_", "info_", ""]))
def test_any_group_is_led_by_its_first_member(sequences: list[int], label: str) -> None:
    assert leading(f"{label}{number:010d}" for number in sequences) == f"{label}{min(sequences):010d}"


def test_every_form_of_node_tells_the_same_master() -> None:
    leader = read_node("json.info_0000000001", REAL)
    assert (leader.pid, leader.hostname) == (PID, "m1")
    info = {"id": "3c0e", "ip": 16777226, "port": 5050, "hostname": "m1"}
    assert read_node("info_0000000001", encode("mesos.v1.MasterInfo", info)).pid == PID  # `pid` is optional
    bare = read_node("0000000001", b"master@10.0.0.1:5050")
    assert (bare.pid, bare.hostname) == (PID, "10.0.0.1")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("json.info_0000000001", b"{"),
        ("json.info_0000000001", b"[]"),
        ("json.info_0000000001", b'{"id":"x"}'),
        ("json.info_0000000001", b'{"pid":"nonsense"}'),
        ("info_0000000001", b"\xff\xff"),
        ("0000000001", b"\xff"),
        ("text.info_0000000001", b"master@10.0.0.1:5050"),
    ],
)
def test_a_node_that_cannot_be_read_is_an_error_that_names_it(name: str, data: bytes) -> None:
    with pytest.raises(ProtocolError, match=name):
        read_node(name, data)


def test_our_node_has_the_keys_of_a_real_one() -> None:
    info = master_info("3c0e", "m1", "1.12.0", PID)
    ours, real = json.loads(write_node(info)), json.loads(REAL)
    assert {**ours, "capabilities": []} == {**real, "capabilities": []}
    assert check("mesos.v1.MasterInfo", ours) is None
    assert read_node("json.info_0000000000", write_node(info)).pid == PID


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
