"""DC/OS' two switches: what a config.yaml says, and what becomes of the flags of agents and masters."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.errors import BadFlag
from mesos_gpu.mesos.dcos.switches import agent_flags, master_flags, read_config
from tests.support.golden import Golden

ISOLATION = ("cgroups/cpu", "cgroups/devices", "filesystem/linux", "gpu/nvidia")


def agent(said: bool | None) -> dict[str, Any]:
    return {"enable_gpu_isolation": said, "isolation": ISOLATION, "gpu_driver": "auto"}


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


def test_without_gpu_isolation_an_agent_has_neither_isolator_nor_driver() -> None:
    without = {"isolation": ("cgroups/cpu", "filesystem/linux"), "gpu_driver": "none"}
    assert agent_flags(agent(False), {}) == {**agent(False), **without}
    assert agent_flags(agent(None), {"enable_gpu_isolation": False}) == {**agent(None), **without}


def test_a_flag_counts_more_than_the_config() -> None:
    assert agent_flags(agent(True), {"enable_gpu_isolation": False}) == agent(True)
    flags = {"gpus_are_scarce": True, "filter_gpu_resources": True}
    assert master_flags(flags, {"gpus_are_scarce": False})["filter_gpu_resources"] is True
    assert agent_flags(agent(None), {}) == agent(None)


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
    flags = {"gpus_are_scarce": scarce, "filter_gpu_resources": filtering}
    assert master_flags(flags, config)["filter_gpu_resources"] is comes_to


def test_two_flags_that_contradict_each_other_are_refused(golden: Golden) -> None:
    with pytest.raises(BadFlag) as refused:
        master_flags({"gpus_are_scarce": True, "filter_gpu_resources": False}, {})
    assert str(refused.value) == golden
