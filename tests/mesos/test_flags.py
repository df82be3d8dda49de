"""Flags as Mesos reads them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.agent.flags import COMMAND_LINE as AGENT
from mesos_gpu.errors import BadFlag, ProtocolError
from mesos_gpu.mesos import messages
from mesos_gpu.mesos.flags import (
    Bytes,
    CommandLine,
    Duration,
    HelpAsked,
    PathText,
    ProgramFlags,
    flag,
    flags_as_text,
    parse_flags,
)
from mesos_gpu.mesos.units import format_duration, parse_bytes, parse_duration
from tests.support.golden import Golden


class SomeFlags(ProgramFlags):
    port: int = flag(5050, "Port to listen on.", at_least=0, at_most=65535)
    work_dir: PathText | None = flag(None, "Where state is kept.")
    filter_gpu_resources: bool = flag(True, "Offer GPU agents only to GPU frameworks.")
    allocation_interval: Duration = flag(1.0, "Time between allocations.", above=0)
    nvidia_gpu_devices: tuple[str, ...] | None = flag(None, "GPUs to use.")
    memory: Bytes | None = flag(None, "Size.")


def parse(*argv: str, files: dict[str, str] | None = None, **environ: str) -> SomeFlags:
    def read(path: str) -> str:
        try:
            return (files or {})[path]
        except KeyError:
            raise FileNotFoundError(2, "No such file or directory") from None

    return parse_flags(CommandLine("x", "MESOS_", SomeFlags), argv, environ, read_file=read)[0]


def test_defaults_stand_without_flags() -> None:
    assert parse().port == 5050
    assert parse().work_dir is None


@pytest.mark.parametrize("argv", [("--port=1",), ("--port", "1")])
def test_a_value_may_follow_or_stand_apart(argv: tuple[str, ...]) -> None:
    assert parse(*argv).port == 1


def test_no_switches_a_boolean_off_and_its_name_alone_on() -> None:
    assert parse("--no-filter_gpu_resources").filter_gpu_resources is False
    assert parse("--filter_gpu_resources", MESOS_FILTER_GPU_RESOURCES="false").filter_gpu_resources is True


def test_the_command_line_wins_over_the_environment() -> None:
    assert parse(MESOS_PORT="7").port == 7
    assert parse("--port=8", MESOS_PORT="7").port == 8
    assert parse(MESOS_NATIVE_LIBRARY="/x").port == 5050


def test_a_file_url_stands_for_its_content() -> None:
    assert parse("--nvidia_gpu_devices=file:///gpus", files={"/gpus": "0,1\n"}).nvidia_gpu_devices == ("0", "1")


def test_a_file_url_stands_for_its_path_where_a_path_is_asked_for() -> None:
    assert parse("--work_dir=file:///srv/mesos", files={"/srv/mesos": "secret"}).work_dir == "/srv/mesos"


@pytest.mark.parametrize(
    "argument",
    [
        "--prot=1",
        "--port=x",
        "--port",
        "port",
        "--no-filter_gpu_resources=1",
        "--filter_gpu_resources=maybe",
        "--allocation_interval=1s",
        "--allocation_interval=0secs",
        "--port=65536",
        "--memory=1M",
        "--nvidia_gpu_devices=file:///none",
    ],
)
def test_a_bad_flag_says_what_to_do(argument: str, golden: Golden) -> None:
    with pytest.raises(BadFlag) as refused:
        parse(argument)
    assert str(refused.value) == golden


def test_help_lists_every_flag_with_its_default(golden: Golden) -> None:
    with pytest.raises(HelpAsked) as asked:
        parse("--help")
    assert str(asked.value) == golden


@pytest.mark.parametrize(
    ("text", "seconds"), [("15secs", 15.0), ("1.5mins", 90.0), ("500ms", 0.5), ("1weeks", 604800.0)]
)
def test_durations_read_as_in_mesos(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@given(st.integers(1, 10**7))
def test_a_printed_duration_reads_back(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds / 1000)) == pytest.approx(milliseconds / 1000)


def test_sizes_are_powers_of_1024() -> None:
    assert parse_bytes("32MB") == 32 * 1024 * 1024


def test_flags_are_shown_without_the_credentials_of_urls() -> None:
    flags = parse_flags(
        AGENT,
        ["--work_dir=/w", "--master=zk://ann:s3cret@a:1,b:2/x", "--docker_registry=https://ann:s3cret@registry:5000"],
        {},
    )[0]
    shown = flags_as_text(flags)
    assert shown["master"] == "zk://a:1,b:2/x"
    assert shown["docker_registry"] == "https://registry:5000"
    for password in ("p@s3cret", "p s3cret"):
        flags = parse_flags(AGENT, ["--work_dir=/w", f"--master=zk://ann:{password}@a:1/x"], {})[0]
        assert flags_as_text(flags)["master"] == "zk://a:1/x"
    assert not any("s3cret" in text for text in shown.values())


CALL, OPERATOR = "mesos.v1.scheduler.Call", "mesos.v1.master.Call"
ACKNOWLEDGE = {"agent_id": {"value": "S0"}, "task_id": {"value": "t"}}


@pytest.mark.parametrize(
    ("given_", "meant"),
    [
        ({"unknown": {"a": [1]}, "type": "REVIVE"}, {"type": "REVIVE"}),
        ({"framework_id": None, "revive": None, "type": "REVIVE"}, {"type": "REVIVE"}),
        ({"revive": {"roles": "a"}}, {"revive": {"roles": ["a"]}}),
        ({"revive": {"roles": [None, "a"]}}, {"revive": {"roles": ["a"]}}),
        ({"decline": {"offer_ids": {"value": "o"}}}, {"decline": {"offer_ids": [{"value": "o"}]}}),
        ({"decline": {"offer_ids": []}}, {"decline": {}}),
        (
            {"decline": {"offer_ids": [], "filters": {"refuse_seconds": "2.5"}}},
            {"decline": {"filters": {"refuse_seconds": 2.5}}},
        ),
        ({"decline": {"filters": {"refuse_seconds": 2}}}, {"decline": {"filters": {"refuse_seconds": 2.0}}}),
        ({"type": "NO_SUCH_CALL"}, {}),
        ({"frameworkId": {"value": "x"}}, {}),
        ({"acknowledge": {**ACKNOWLEDGE, "uuid": "AAE="}}, {"acknowledge": {**ACKNOWLEDGE, "uuid": "AAE="}}),
        (
            {"kill": {"task_id": {"value": "t"}, "kill_policy": {"grace_period": {"nanoseconds": "5000000000"}}}},
            {"kill": {"task_id": {"value": "t"}, "kill_policy": {"grace_period": {"nanoseconds": 5_000_000_000}}}},
        ),
        (
            {"kill": {"task_id": {"value": "t"}, "kill_policy": {"grace_period": {"nanoseconds": 5.9}}}},
            {"kill": {"task_id": {"value": "t"}, "kill_policy": {"grace_period": {"nanoseconds": 5}}}},
        ),
    ],
)
def test_calls_are_taken_as_they_were_meant(given_: dict[str, Any], meant: dict[str, Any]) -> None:
    assert messages.normalize(CALL, given_) == meant


@pytest.mark.parametrize(
    ("grace", "seconds", "nanos"),
    [({"seconds": 2}, 2, 0), ({"seconds": "2", "nanos": 5}, 2, 5), ("2.5s", 2, 500_000_000), ({}, 0, 0)],
)
def test_a_duration_is_an_object_or_the_librarys_text(grace: Any, seconds: int, nanos: int) -> None:
    document = {"drain_agent": {"agent_id": {"value": "S0"}, "max_grace_period": grace}}
    found = messages.normalize(OPERATOR, document)["drain_agent"]["max_grace_period"]
    assert (found.get("seconds", 0), found.get("nanos", 0)) == (seconds, nanos)


@pytest.mark.parametrize("grace", [{"nanoseconds": 5_000_000_000}, {"nanoseconds": "5", "secs": 1}, {"value": 5}])
def test_a_duration_that_says_nothing_known_is_refused_rather_than_taken_for_none(grace: Any) -> None:
    document = {"type": "DRAIN_AGENT", "drain_agent": {"agent_id": {"value": "S0"}, "max_grace_period": grace}}
    names = ", ".join(f"'{name}'" for name in grace)
    words = f"Expecting 'seconds' or 'nanos' in field 'max_grace_period', and found {names}"
    assert messages.check(OPERATOR, document) == f"{OPERATOR}: {words}"


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"type": 5}, "Not expecting a JSON number for field 'type'"),
        ({"type": True}, "Not expecting a JSON boolean for field 'type'"),
        ({"type": ["REVIVE"]}, "Not expecting a JSON array for field 'type'"),
        ({"type": {}}, "Not expecting a JSON object for field 'type'"),
        ({"revive": "x"}, "Not expecting a JSON string for field 'revive'"),
        ({"revive": [1]}, "Not expecting a JSON array for field 'revive'"),
        ({"revive": {"roles": [1]}}, "Not expecting a JSON number for field 'roles'"),
        ({"framework_id": {"value": 7}}, "Not expecting a JSON number for field 'value'"),
        (
            {"acknowledge": {**ACKNOWLEDGE, "uuid": "A%"}},
            "Failed to base64 decode bytes field 'uuid': Invalid character '%'",
        ),
        ({"acknowledge": {**ACKNOWLEDGE, "uuid": "AAE"}}, "Failed to base64 decode bytes field 'uuid'"),
        (
            {"kill": {"kill_policy": {"grace_period": {"nanoseconds": 2**63}}}},
            "Not expecting the number 9223372036854775808 for field 'nanoseconds': it does not fit int64",
        ),
    ],
)
def test_what_a_field_cannot_hold_is_refused_in_mesos_words(document: dict[str, Any], words: str) -> None:
    assert messages.check(CALL, document) == f"{CALL}: {words}"
    with pytest.raises(ProtocolError, match=r"^mesos"):
        messages.normalize(CALL, document)


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("true", True),
        (" false ", False),
        ("2", "number"),
        ("null", "number"),
        ("yes", "yes"),
        ("trick", "ick"),
        ("", ""),
    ],
)
def test_a_boolean_may_stand_in_a_string(text: str, taken: bool | str) -> None:
    assert_parsed(
        {"subscribe": {"framework_info": {"user": "u", "name": "n", "checkpoint": text}}}, "checkpoint", text, taken
    )


@pytest.mark.parametrize(
    ("text", "taken"),
    [("1e1", 10.0), (" 5", 5.0), ("-2", -2.0), ("true", "boolean"), ("+5", "+5"), ("1-2", "1-2"), ("ten", "en")],
)
def test_a_number_may_stand_in_a_string(text: str, taken: float | str) -> None:
    assert_parsed({"decline": {"filters": {"refuse_seconds": text}}}, "refuse_seconds", text, taken)


def assert_parsed(document: dict[str, Any], field: str, text: str, taken: float | str) -> None:
    """`taken` is the value, the kind of what stands there instead, or where the parser stops."""
    if not isinstance(taken, str):
        assert f"{field!r}: {taken}" in str(messages.normalize(CALL, document))
        return
    why = "Unexpected JSON type parsed" if taken in ("number", "boolean") else f"syntax error at line 1 near: {taken}"
    kind = "boolean" if field == "checkpoint" else "number"
    words = f"Failed to parse '{text}' as a JSON {kind} for field '{field}': {why}"
    assert messages.check(CALL, document) == f"{CALL}: {words}"


def test_the_number_of_a_value_in_a_string_is_no_name_of_it() -> None:
    assert messages.normalize(CALL, {"type": "1"}) == {}


def test_a_document_nested_without_end_is_refused() -> None:
    container: dict[str, Any] = {"value": "c"}
    for _ in range(5000):
        container = {"value": "c", "parent": container}
    assert messages.check("mesos.v1.ContainerID", container) is not None


_SCALARS = st.sampled_from([None, True, 0, -1, 2**63, 1.5, float("inf"), "", "a", "AAE=", "5"])
_NAMES = st.sampled_from(["type", "value", "roles", "offer_ids", "filters", "refuse_seconds", "task_id", "uuid"])
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_NAMES, inner, max_size=3), max_leaves=6
)
_CALLS = st.dictionaries(st.sampled_from(sorted(messages.field_names(CALL))), _VALUES, max_size=3)


@given(document=_CALLS)
def test_any_document_is_either_taken_or_refused_and_what_is_taken_stays_the_same(document: dict[str, Any]) -> None:
    problem = messages.check(CALL, document)
    if problem is None:
        taken = messages.normalize(CALL, document)
        assert messages.normalize(CALL, taken) == taken
        assert messages.decode(CALL, messages.encode(CALL, taken)) == taken
    else:
        assert problem.removeprefix(f"{CALL}: ").startswith(("Not expecting", "Failed to", "Missing required fields"))
