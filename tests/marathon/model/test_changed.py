"""Values with some of their fields changed."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from mesos_gpu.marathon.model.changed import changed
from mesos_gpu.marathon.model.instances import Instance, Phase, Task
from mesos_gpu.marathon.state.queue_entry import QueueEntry
from mesos_gpu.mesos.ids import AgentId, Role, TaskId

TASK = Task(TaskId("t"), AgentId("S0"), "h", (1, 2), "v", 1.0, zone="z", counted_s=3.0)
INSTANCE = Instance("i", "/a", "v", Role("*"), 1.0, task=TASK, incarnation=4)


def test_it_is_what_dataclasses_replace_returns() -> None:
    before = replace(TASK)
    assert changed(TASK, state="TASK_RUNNING", ports=()) == replace(TASK, state="TASK_RUNNING", ports=())
    assert before == TASK
    assert changed(INSTANCE, phase=Phase.RUNNING) == replace(INSTANCE, phase=Phase.RUNNING)
    entry = QueueEntry(1.0, 2, 3)
    assert changed(entry, processed=5) == replace(entry, processed=5)
    with pytest.raises(KeyError):
        changed(TASK, colour="red")


def test_what_it_is_used_for_checks_nothing_when_it_is_made() -> None:
    for kind in (Task, Instance, QueueEntry):
        assert not hasattr(kind, "__post_init__")
        assert all(each.init for each in fields(kind))
