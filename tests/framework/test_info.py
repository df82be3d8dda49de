"""What framework_info makes, and refuses."""

from __future__ import annotations

import pytest

from mesos_gpu.errors import BadInput
from mesos_gpu.framework import framework_info
from mesos_gpu.master.validation.calls import framework_problem
from mesos_gpu.mesos.resource import Document


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"roles": "/a"}, "cannot start with a slash"),
        ({"roles": ["a", "a"]}, "named twice"),
        ({"capabilities": ["GPUS"]}, "Mesos knows no GPUS"),
        ({"capabilities": ["MULTI_ROLE"]}, "never offered anything"),
        ({"failover_timeout_s": -1}, "failover_timeout_s"),
        ({"failover_timeout_s": float("nan")}, "failover_timeout_s"),
    ],
)
def test_a_framework_that_no_master_would_take_is_refused(wrong: Document, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        framework_info("f", **wrong)


def test_a_framework_info_has_what_it_was_given() -> None:
    info = framework_info("f", roles="ml", capabilities=["PARTITION_AWARE"], framework_id="F", labels={"team": "a"})
    assert framework_problem(info) is None
    assert info["capabilities"] == [{"type": t} for t in ("GPU_RESOURCES", "MULTI_ROLE", "PARTITION_AWARE")]
    assert (info["roles"], info["id"], info["failover_timeout"]) == (["ml"], {"value": "F"}, 100.0)
    assert info["labels"] == {"labels": [{"key": "team", "value": "a"}]}
    assert "roles" not in framework_info("f"), "no role: that is `*`"
