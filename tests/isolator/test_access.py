from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from mesos_gpu.gpu.device import DeviceNode, Gpu
from mesos_gpu.isolator.access import BASE_RULES, gpu_node, rule_for


def test_gpu_is_its_minor_number_and_not_its_index() -> None:
    node = gpu_node(Gpu(minor=3, index=0, uuid="GPU-3", name="Some GPU"))
    assert node == DeviceNode("/dev/nvidia3", 195, 3)
    assert str(rule_for(node)) == "c 195:3 rwm"


def test_rule_has_the_number_of_its_node_and_no_wildcard() -> None:
    assert str(rule_for(DeviceNode("/dev/nvidia-uvm", 510, 0))) == "c 510:0 rwm"


def test_base_rules_are_those_of_mesos_without_the_machines_own_screen() -> None:
    assert [str(rule) for rule in BASE_RULES] == [
        "c *:* m",
        "b *:* m",
        "c 136:* rwm",
        "c 5:2 rwm",
        "c 10:200 rwm",
        "c 1:3 rwm",
        "c 1:5 rwm",
        "c 1:7 rwm",
        "c 5:0 rwm",
        "c 1:9 rwm",
        "c 1:8 rwm",
    ]


def test_base_rules_open_no_gpu() -> None:
    assert not [rule for rule in BASE_RULES if rule.major in (None, 195) and rule.access != "m"]


@pytest.mark.parametrize("path", ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/random", "/dev/urandom"])
def test_base_rules_have_the_numbers_of_this_kernel(path: str) -> None:
    status = Path(path).stat()
    assert stat.S_ISCHR(status.st_mode)
    numbers = [(rule.major, rule.minor) for rule in BASE_RULES]
    assert (os.major(status.st_rdev), os.minor(status.st_rdev)) in numbers
