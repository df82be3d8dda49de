"""What a pod's instance is launched as."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from mesos_gpu.mesos.documents import ExecutorInfo, TaskInfo


class TaskGroup(Struct, frozen=True):
    """Tasks that start together in one executor: an instance of a pod."""

    executor: ExecutorInfo
    task_infos: Sequence[TaskInfo]
