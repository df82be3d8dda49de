"""DC/OS' two switches: what a config.yaml says, and what becomes of the flags of agents and masters."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesos_gpu.agent.flags import COMMAND_LINE, DEFAULT_ISOLATION, AgentFlags
from mesos_gpu.agent.service import with_switches
from mesos_gpu.errors import BadFlag
from mesos_gpu.mesos.dcos.switches import filters_gpus, gpus_enabled, read_config
from mesos_gpu.mesos.flags import parse_flags
from tests.support.golden import Golden


def agent(*words: str) -> AgentFlags:
    return with_switches(parse_flags(COMMAND_LINE, ["--work_dir=/w", *words], {})[0])[0]


def test_a_config_of_dcos_serves_as_it_is() -> None:
    text = "master_discovery: static\nenable_gpu_isolation: 'false'\ngpus_are_scarce: true\nmaster_list: [10.0.0.1]\n"
    assert read_config(text, "config.yaml") == {"enable_gpu_isolation": False, "gpus_are_scarce": True}
    assert read_config("cluster_name: x\n", "config.yaml") == {}


@pytest.mark.parametrize(
    "text",
    [
        "a: [",
        "\x00",
        "- a\n",
        "gpus_are_scarce: perhaps\n",
        "enable_gpu_isolation:\n",
    ],
)
def test_what_is_wrong_with_a_config_is_said(text: str, golden: Golden) -> None:
    with pytest.raises(BadFlag) as refused:
        read_config(text, "c.yaml")
    assert str(refused.value) == golden


def test_without_gpu_isolation_an_agent_has_neither_isolator_nor_driver(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("enable_gpu_isolation: false\n")
    for words in (["--no-enable_gpu_isolation"], [f"--dcos_config={config}"]):
        without = agent("--isolation=cgroups/cpu,cgroups/devices,filesystem/linux,gpu/nvidia", *words)
        assert (without.isolation, without.gpu_driver) == (("cgroups/cpu", "filesystem/linux"), "none")
    for words in ([], ["--enable_gpu_isolation", f"--dcos_config={config}"]):
        assert (agent(*words).isolation, agent(*words).gpu_driver) == (DEFAULT_ISOLATION, "auto")


def test_a_flag_counts_more_than_the_config() -> None:
    assert filters_gpus(True, True, {"gpus_are_scarce": False})
    assert gpus_enabled(True, {"enable_gpu_isolation": False})
    assert not gpus_enabled(None, {"enable_gpu_isolation": False})
    assert gpus_enabled(None, {})


@pytest.mark.parametrize(
    ("scarce", "filtering", "config", "comes_to"),
    [
        (None, True, {}, True),
        (None, False, {}, False),
        (None, True, {"gpus_are_scarce": False}, False),
        (None, False, {"gpus_are_scarce": True}, False),
        (False, True, {"gpus_are_scarce": True}, False),
        (False, False, {}, False),
    ],
)
def test_scarce_gpus_are_the_masters_filter(
    scarce: bool | None, filtering: bool, config: dict[str, bool], comes_to: bool
) -> None:
    assert filters_gpus(scarce, filtering, config) is comes_to


def test_two_flags_that_contradict_each_other_are_refused(golden: Golden) -> None:
    with pytest.raises(BadFlag) as refused:
        filters_gpus(True, False, {})
    assert str(refused.value) == golden
