"""Tasks before they have a place: what no master would take is refused when it is made."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import BadInput
from mesos_gpu.framework import GpuTask, check_whole_gpus, framework_info, volume, whole_gpus
from mesos_gpu.master.validation.calls import framework_problem
from mesos_gpu.mesos.resource import Document
from tests.support.golden import Golden


@given(st.floats())
def test_a_number_of_gpus_is_whole_or_refused_before_it_travels(asked: float) -> None:
    if 0 <= asked <= 2**53 and asked == int(asked):
        assert whole_gpus(asked) == asked
    else:
        with pytest.raises(BadInput):
            GpuTask("t", "true", gpus=asked)


@pytest.mark.parametrize(
    "asked", [0.5, 1.001, 2.9999999, True, "1", None, -1, float("nan"), 2**2000], ids=lambda asked: str(asked)[:9]
)
def test_what_is_no_number_of_whole_gpus_is_refused_with_a_reason(asked: Any, golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        GpuTask("t", "true", gpus=asked)
    assert str(refused.value) == golden


def test_a_task_info_made_elsewhere_can_be_checked(golden: Golden) -> None:
    half = {"name": "gpus", "type": "SCALAR", "scalar": {"value": 0.5}}
    check_whole_gpus({"resources": [{**half, "scalar": {"value": 2.0}}]})
    for info in ({"resources": [half]}, {"resources": [], "executor": {"resources": [half]}}):
        with pytest.raises(BadInput) as refused:
            check_whole_gpus(info)
        assert str(refused.value) == golden


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "a/b"},
        {"cpus": -1},
        {"mem_mib": float("inf")},
        {"ports": -1},
        {"gpus": 0, "cpus": 0, "mem_mib": 0.0001},
        {"command": None},
        {"command": []},
        {"env": {"A": 1}},
        {"kill_grace_s": -1},
        {"max_completion_s": float("nan")},
    ],
)
def test_a_task_that_no_master_would_take_is_refused_when_it_is_made(wrong: Document, golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        GpuTask(**{"id": "t", "command": "true", **wrong})
    assert str(refused.value) == golden


def test_a_volume_has_a_place(golden: Golden) -> None:
    assert volume("/data", "/mnt", read_only=True) == {"container_path": "/data", "host_path": "/mnt", "mode": "RO"}
    assert volume("/a/b")["source"]["sandbox_path"] == {"type": "SELF", "path": "a_b"}
    with pytest.raises(BadInput) as refused:
        volume("")
    assert str(refused.value) == golden
    for host_path in (None, "data"):
        with pytest.raises(BadInput) as refused:
            volume("scratch", host_path)
        assert str(refused.value) == golden


@pytest.mark.parametrize(
    "wrong",
    [
        {"roles": "/a"},
        {"roles": ["a", "a"]},
        {"capabilities": ["GPUS"]},
        {"capabilities": ["MULTI_ROLE"]},
        {"failover_timeout_s": -1},
        {"failover_timeout_s": float("nan")},
    ],
)
def test_a_framework_that_no_master_would_take_is_refused(wrong: Document, golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        framework_info("f", **wrong)
    assert str(refused.value) == golden


def test_a_framework_info_has_what_it_was_given() -> None:
    info = framework_info("f", roles="ml", capabilities=["PARTITION_AWARE"], framework_id="F", labels={"team": "a"})
    assert framework_problem(info) is None
    assert info["capabilities"] == [{"type": t} for t in ("GPU_RESOURCES", "MULTI_ROLE", "PARTITION_AWARE")]
    assert (info["roles"], info["id"], info["failover_timeout"]) == (["ml"], {"value": "F"}, 100.0)
    assert info["labels"] == {"labels": [{"key": "team", "value": "a"}]}
    assert "roles" not in framework_info("f"), "no role: that is `*`"
