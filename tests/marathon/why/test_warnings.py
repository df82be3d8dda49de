"""What is said before an app is sent, and which commands end by themselves."""

from __future__ import annotations

from typing import Any

import pytest

from mesos_gpu.marathon.matching.matching import Rules
from mesos_gpu.marathon.why.ending_commands import ends_at_once
from mesos_gpu.marathon.why.warnings import warnings
from tests.support.golden import Golden
from tests.support.marathon.why import agent, app


@pytest.mark.parametrize(
    "cmd",
    [
        "nvidia-smi",
        "/usr/bin/nvidia-smi -q -d MEMORY",
        "nvidia-smi && echo done",
        "echo start; sleep 5; nvidia-smi | cat",
        "A=1 nvidia-smi",
        "nvidia-smi\nls /dev",
        "sh -c 'nvidia-smi; date'",
        "sleep 5m",
    ],
)
def test_these_commands_end(cmd: str) -> None:
    assert ends_at_once({"cmd": cmd})


@pytest.mark.parametrize(
    "cmd",
    [
        "while [ true ] ; do nvidia-smi; sleep 5; done",
        "nvidia-smi -l 5",
        "nvidia-smi --loop=5",
        "nvidia-smi dmon",
        "nvidia-smi; sleep infinity",
        "sleep 1d",
        "./train",
        "python train.py",
        "nvidia-smi; exec ./serve",
        "server & nvidia-smi",
        "bash -c 'while true; do date; done'",
        "echo 'unfinished",
        "",
    ],
)
def test_these_commands_may_go_on(cmd: str) -> None:
    assert not ends_at_once({"cmd": cmd})


def test_arguments_are_looked_at_where_no_image_has_a_program_of_its_own() -> None:
    assert ends_at_once({"args": ["nvidia-smi"]})
    assert not ends_at_once({"args": ["nvidia-smi"], "container": {"docker": {"image": "serve"}}})
    assert not ends_at_once({})


def said(document: dict[str, Any], agents: Any) -> str:
    return "\n".join(warnings(document, agents, Rules()))


def test_a_smoke_test_is_told_that_it_never_ends(golden: Golden) -> None:
    assert said(app(cmd="nvidia-smi"), None) == golden
    assert said(app(cmd="nvidia-smi", instances=0), None) == ""


@pytest.mark.parametrize(
    ("image", "labels", "gpus", "told"),
    [
        ("ubuntu:22.04", {}, 1, True),
        ("ubuntu:22.04", {}, 0, False),
        ("ubuntu:22.04", {"com.nvidia.volumes.needed": "nvidia_driver"}, 1, False),
        ("nvidia/cuda:12.4.1-base", {}, 1, False),
        ("nvcr.io/hpc/namd:3", {}, 1, False),
        ("tensorflow/tensorflow:2.15.0-gpu", {}, 1, False),
    ],
)
def test_gpus_in_an_image_that_may_lack_the_driver_are_told_with_the_line_that_helps(
    image: str, labels: dict[str, str], gpus: int, told: bool
) -> None:
    app = {"id": "/a", "cmd": "sleep 9", "gpus": gpus, "labels": labels, "container": {"docker": {"image": image}}}
    found = [text for text in warnings(app, None, Rules()) if '"labels": {"com.nvidia.volumes.needed"' in text]
    assert len(found) == told


@pytest.mark.parametrize("brings", [True, False, None])
def test_what_an_agent_says_of_an_image_counts_more_than_its_name(brings: bool | None) -> None:
    app = {"id": "/a", "cmd": "sleep 9", "gpus": 1, "container": {"docker": {"image": "gpu-tools:1"}}}
    found = [text for text in warnings(app, None, Rules(), brings_driver=brings) if "com.nvidia.volumes.needed" in text]
    assert len(found) == (brings is False)
    plain = {**app, "container": {"docker": {"image": "ubuntu"}}}
    told = [
        text for text in warnings(plain, None, Rules(), brings_driver=brings) if "com.nvidia.volumes.needed" in text
    ]
    assert len(told) == (brings is not True)


def test_an_app_that_fits_nowhere_is_told_with_what_would_do(golden: Golden) -> None:
    assert said(app(gpus=9), [agent()]) == golden


def test_a_gang_that_needs_more_machines_is_told_before_it_is_sent(golden: Golden) -> None:
    (told,) = warnings(app(instances=2, gang={"size": 2}), [agent()], Rules())
    assert told == golden


def test_an_app_of_which_only_some_instances_fit_is_told(golden: Golden) -> None:
    assert said(app(instances=3), [agent()]) == golden


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (app(instances=2), True),
        (app(instances=1), False),
        (app(instances=2, upgradeStrategy={"minimumHealthCapacity": 0.5, "maximumOverCapacity": 0}), False),
        (app(instances=2, upgradeStrategy={"minimumHealthCapacity": 0, "maximumOverCapacity": 1}), False),
        (app(instances=9, gpus=0), False),
    ],
)
def test_an_update_that_could_not_finish_is_told(document: dict[str, Any], told: bool) -> None:
    assert ('"minimumHealthCapacity": 0.5' in said(document, [agent()])) == told


@pytest.mark.parametrize(
    ("changes", "agents"),
    [
        ({}, [agent()]),
        ({"gpus": 1, "cpus": 4}, [agent()]),
        ({"gpus": 1, "mem": 8192}, [agent()]),
        ({"cpus": 4}, [agent()]),
        ({"gpus": 1, "constraints": [["hostname", "MAX_PER", "2"]]}, [agent()]),
    ],
)
def test_what_an_update_would_lack_is_told_by_its_name(
    changes: dict[str, Any], agents: list[Any], golden: Golden
) -> None:
    assert said(app(instances=2, **changes), agents) == golden


def test_what_cannot_be_known_is_not_warned_of() -> None:
    assert warnings(app(gpus=99), None, Rules()) == []
