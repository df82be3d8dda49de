from __future__ import annotations

import pytest

from mesos_gpu.isolator import should_inject

NEEDED = {"com.nvidia.volumes.needed": "nvidia_driver"}


@pytest.mark.parametrize(
    ("environment", "labels", "injected"),
    [
        ({}, {}, False),
        ({}, NEEDED, True),
        ({}, {"com.nvidia.volumes.needed": ""}, True),
        ({}, {"com.ati.volumes.needed": "x"}, False),
        ({"NVIDIA_VISIBLE_DEVICES": "all"}, {}, True),
        ({"NVIDIA_VISIBLE_DEVICES": "none"}, {}, True),
        ({"NVIDIA_VISIBLE_DEVICES": "0,1"}, {}, True),
        ({"NVIDIA_VISIBLE_DEVICES": "void"}, {}, False),
        ({"NVIDIA_VISIBLE_DEVICES": ""}, {}, False),
        ({"NVIDIA_VISIBLE_DEVICES": "void"}, NEEDED, False),
        ({"NVIDIA_VISIBLE_DEVICES": ""}, NEEDED, False),
        ({"CUDA_VISIBLE_DEVICES": "0"}, {}, False),
    ],
)
def test_the_variable_comes_first_then_the_label(
    environment: dict[str, str], labels: dict[str, str], injected: bool
) -> None:
    assert should_inject(environment, labels) is injected
