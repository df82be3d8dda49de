"""Flags as Mesos reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.agent.flags import COMMAND_LINE as AGENT
from mesos_gpu.errors import BadFlag
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
    assert not any("s3cret" in text for text in shown.values())
