"""What a pod's instance is launched as."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mesos_gpu.mesos.documents import ExecutorInfo, TaskInfo


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """Tasks that start together in one executor: an instance of a pod."""

    executor: ExecutorInfo
    task_infos: Sequence[TaskInfo]
