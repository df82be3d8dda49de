"""Tasks before they have a place: what no master would take is refused when it is made."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos_gpu.errors import BadInput
from mesos_gpu.framework import GpuTask, check_whole_gpus, volume, whole_gpus
from mesos_gpu.mesos.resource import Document


@given(st.floats())
def test_a_number_of_gpus_is_whole_or_refused_before_it_travels(asked: float) -> None:
    if 0 <= asked <= 2**53 and asked == int(asked):
        assert whole_gpus(asked) == asked
    else:
        with pytest.raises(BadInput, match="gpus: "):
            GpuTask("t", "true", gpus=asked)


@pytest.mark.parametrize(
    "asked", [0.5, 1.001, 2.9999999, True, "1", None, -1, float("nan"), 2**2000], ids=lambda asked: str(asked)[:9]
)
def test_what_is_no_number_of_whole_gpus_is_refused_with_a_reason(asked: Any) -> None:
    with pytest.raises(BadInput, match="gpus: "):
        GpuTask("t", "true", gpus=asked)


def test_a_task_info_made_elsewhere_can_be_checked() -> None:
    half = {"name": "gpus", "type": "SCALAR", "scalar": {"value": 0.5}}
    check_whole_gpus({"resources": [{**half, "scalar": {"value": 2.0}}]})
    for info in ({"resources": [half]}, {"resources": [], "executor": {"resources": [half]}}):
        with pytest.raises(BadInput, match=r"0\.5 is not whole; .* TASK_ERROR"):
            check_whole_gpus(info)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"id": "a/b"}, "id: 'a/b' contains invalid characters"),
        ({"cpus": -1}, "cpus: -1"),
        ({"mem_mib": float("inf")}, "mem_mib: inf"),
        ({"ports": -1}, "ports"),
        ({"gpus": 0, "cpus": 0, "mem_mib": 0.0001}, "asks for no resources"),
        ({"command": None}, "neither a command nor an image"),
        ({"command": []}, "without words"),
        ({"env": {"A": 1}}, "a variable's value is a text"),
        ({"kill_grace_s": -1}, "kill_grace_s"),
        ({"max_completion_s": float("nan")}, "max_completion_s"),
    ],
)
def test_a_task_that_no_master_would_take_is_refused_when_it_is_made(wrong: Document, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        GpuTask(**{"id": "t", "command": "true", **wrong})


def test_a_volume_has_a_place() -> None:
    assert volume("/data", "/mnt", read_only=True) == {"container_path": "/data", "host_path": "/mnt", "mode": "RO"}
    assert volume("/a/b")["source"]["sandbox_path"] == {"type": "SELF", "path": "a_b"}
    with pytest.raises(BadInput, match="empty path"):
        volume("")
    for host_path in (None, "data"):
        with pytest.raises(BadInput, match="is in the sandbox already"):
            volume("scratch", host_path)
