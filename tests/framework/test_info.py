"""What framework_info makes, and refuses."""

from __future__ import annotations

import pytest

from mesos_gpu.errors import BadInput
from mesos_gpu.framework import framework_info
from mesos_gpu.master.validation.calls import framework_problem
from mesos_gpu.mesos.resource import Document
from tests.support.golden import Golden


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
