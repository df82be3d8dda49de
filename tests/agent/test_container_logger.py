"""What the flags of Mesos' LogrotateContainerLogger, and the variables of a command, come to."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from mesos_gpu.agent.flags import COMMAND_LINE, LOGGER
from mesos_gpu.agent.launching.launch import refusal, task_container
from mesos_gpu.agent.model.container_logger import ContainerLogger, limits_of, read_logger
from mesos_gpu.container.spec.output import Kept, OutputLimits
from mesos_gpu.errors import BadFlag, BadInput
from mesos_gpu.mesos.flags import parse_flags
from tests.support.agent.documents import IDENTITY, framework, task
from tests.support.golden import Golden

MIB = 1 << 20
ALL = OutputLimits(Kept(10 * MIB), Kept(10 * MIB))


def read(*argv: str) -> ContainerLogger | None:
    return read_logger(parse_flags(COMMAND_LINE, ["--work_dir=/w", *argv], {})[0])


def module(**parameters: str) -> str:
    listed = [{"key": key, "value": value} for key, value in parameters.items()]
    return json.dumps({"libraries": [{"file": "/x.so", "modules": [{"name": LOGGER, "parameters": listed}]}]})


def command(**variables: str) -> dict[str, Any]:
    listed = [{"name": name, "value": value} for name, value in variables.items()]
    return {"value": "true", "environment": {"variables": listed}}


def test_without_a_word_all_is_kept() -> None:
    assert (read(), read("--container_logger=sandbox"), read(f"--modules={module()}")) == (None, None, None)
    assert limits_of(None, command(CONTAINER_LOGGER_NONSENSE="1")) is None


def test_mesos_logger_keeps_ten_mebibytes_and_no_older_file() -> None:
    assert read(f"--container_logger={LOGGER}") == ContainerLogger(ALL)


def test_one_size_is_enough_to_switch_it_on() -> None:
    assert read("--max_stdout_size=1MB") == ContainerLogger(OutputLimits(Kept(MIB), Kept(10 * MIB)))
    options = "rotate 4\n  compress # all\n\ndelaycompress\nmissingok"
    found = read("--max_stderr_size=4KB", f"--logrotate_stderr_options={options}")
    assert found == ContainerLogger(OutputLimits(Kept(10 * MIB), Kept(4096, 4, True, True)))


def test_parameters_of_mesos_module_count_and_flags_go_over_them() -> None:
    text = module(max_stdout_size="2MB", max_stderr_size="3MB", environment_variable_prefix="LOG_", launcher_dir="/x")
    found = read(f"--modules={text}", f"--container_logger={LOGGER}", "--max_stdout_size=1MB")
    assert found == ContainerLogger(OutputLimits(Kept(MIB), Kept(3 * MIB)), "LOG_")


@pytest.mark.parametrize(
    "argv",
    [
        ["--max_stdout_size=4095B"],
        ["--max_stdout_size=1MB", "--container_logger=sandbox"],
        ["--container_logger=other"],
        ["--modules=[]"],
        ["--modules=" + module().replace(LOGGER, "org_other")],
        [f"--container_logger={LOGGER}", "--modules=" + module(max_size="1MB")],
        [f"--container_logger={LOGGER}", "--modules=" + module(max_stdout_size="1")],
        ["--max_stdout_size=1MB", "--logrotate_stdout_options=rotate x"],
        ["--max_stdout_size=1MB", "--logrotate_stdout_options=rotate 1001"],
        ["--max_stdout_size=1MB", "--logrotate_stdout_options=postrotate"],
    ],
)
def test_what_cannot_hold_is_refused(argv: list[str], golden: Golden) -> None:
    with pytest.raises(BadFlag) as refused:
        read(*argv)
    assert str(refused.value) == golden


def test_a_command_says_it_for_itself() -> None:
    logger = ContainerLogger(OutputLimits(Kept(MIB, 2, True), Kept(MIB)))
    own = command(
        CONTAINER_LOGGER_MAX_STDOUT_SIZE="8KB", CONTAINER_LOGGER_LOGROTATE_STDERR_OPTIONS="rotate 9\nnocompress"
    )
    assert limits_of(logger, own) == OutputLimits(Kept(8192, 2, True), Kept(MIB, 9))
    assert limits_of(logger, {"value": "true"}) == logger.limits


def test_a_task_with_settings_that_are_none_is_told_in_mesos_words(golden: Golden) -> None:
    logger = ContainerLogger(ALL)
    unknown, small = command(CONTAINER_LOGGER_MAX_SIZE="1MB"), command(CONTAINER_LOGGER_MAX_STDERR_SIZE="1KB")
    with pytest.raises(BadInput) as refused:
        limits_of(logger, unknown)
    assert str(refused.value) == golden
    assert refusal({"command": unknown}) is None  # nothing is limited, so nobody asks
    assert refusal({"command": small}, logger) == golden


def test_a_container_has_the_limits_of_its_agent() -> None:
    config = task_container(replace(IDENTITY, logger=ContainerLogger(ALL)), framework(), task(), "c1")
    assert config.output == ALL
    assert task_container(IDENTITY, framework(), task(), "c1").output is None
