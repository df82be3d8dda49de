"""What `kubectl run --limits` asks for, or why not."""

from __future__ import annotations

import pytest

from marathon_cli.convert.gpu_requests import Limits, read_limits
from mesos_gpu.errors import BadInput
from tests.support.golden import Golden


@pytest.mark.parametrize(
    ("texts", "meant"),
    [
        (["nvidia.com/gpu=1"], Limits(gpus=1)),
        (["cpu=200m,memory=512Mi"], Limits(cpus=0.2, mem_mib=512)),
        (["cpu=2", "ephemeral-storage=1Gi, alpha.kubernetes.io/nvidia-gpu=2"], Limits(gpus=2, cpus=2.0, disk_mib=1024)),
        (["aliyun.com/gpu-mem=6"], Limits(gpu_mem_gib=6)),
    ],
)
def test_limits_are_read(texts: list[str], meant: Limits) -> None:
    assert read_limits(texts) == meant


@pytest.mark.parametrize(
    "text",
    [
        "gpu=1",
        "memroy=1Gi",
        "x=1",
        "cpu",
        "nvidia.com/gpu=0.5",
        "cpu=much",
    ],
)
def test_what_is_none_is_refused(text: str, golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        read_limits([text])
    assert str(refused.value) == golden
