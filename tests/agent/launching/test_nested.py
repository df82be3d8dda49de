"""What an operator's calls about containers become, and how ends are shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesos_gpu.agent.launching.nested import container_config, wait_shown
from mesos_gpu.container.spec.config import Termination
from tests.support.agent.documents import IDENTITY, scalar

MIB = 1 << 20


@pytest.mark.parametrize(("parent", "quota"), [(None, 8 * MIB), ("/sandbox", 0)])
def test_the_disk_of_a_standalone_container_is_its_quota_and_a_nested_one_is_in_its_parents(
    parent: str | None, quota: int
) -> None:
    name = {"value": "c"} if parent is None else {"value": "c", "parent": {"value": "p"}}
    call = {"container_id": name, "command": {"value": "true"}, "resources": [scalar("disk", 8.0)]}
    config = container_config(IDENTITY, call, parent_sandbox=parent, parent_user=None)
    assert config.disk_bytes == quota
    assert config.sandbox == Path(f"{parent or IDENTITY.work_dir}/containers/c")


def test_who_was_ended_for_memory_or_disk_is_shown_with_the_limit() -> None:
    disk = wait_shown(Termination(signal=9, message="too much", disk_limit_bytes=8 * MIB))
    assert disk["reason"] == "REASON_CONTAINER_LIMITATION_DISK"
    assert disk["limitation"]["resources"] == [{"name": "disk", "type": "SCALAR", "scalar": {"value": 8.0}}]
    memory = wait_shown(Termination(signal=9, oom=True, mem_limit_bytes=8 * MIB))
    assert (memory["state"], memory["reason"]) == ("TASK_FAILED", "REASON_CONTAINER_LIMITATION_MEMORY")
    assert wait_shown(Termination(exit_code=3)) == {"exit_status": 3 << 8}
