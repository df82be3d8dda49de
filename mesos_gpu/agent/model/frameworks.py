"""A framework on an agent: what runs for it, and what did."""

from __future__ import annotations

from collections import deque

from msgspec import Struct, field

from mesos_gpu.agent.model.executors import Executor
from mesos_gpu.agent.model.tasks import Task
from mesos_gpu.mesos.documents import FrameworkInfo
from mesos_gpu.mesos.ids import ExecutorId, FrameworkId, TaskId

MAX_COMPLETED_EXECUTORS = 150
"""`--max_completed_executors_per_framework` of Mesos."""


class Framework(Struct):
    """A framework with tasks and executors here, and what ran for it and is over: command tasks, and executors."""

    info: FrameworkInfo
    tasks: dict[TaskId, Task] = field(default_factory=dict)
    executors: dict[ExecutorId, Executor] = field(default_factory=dict)
    completed: deque[Task | Executor] = field(default_factory=lambda: deque(maxlen=MAX_COMPLETED_EXECUTORS))
    silenced: bool = False
    pid: str | None = None
    """Where its scheduler driver is, to which executors' messages go; None: they go through the master."""

    @property
    def id(self) -> FrameworkId:
        """Return the framework's id."""
        return FrameworkId(self.info["id"]["value"])

    @property
    def checkpoint(self) -> bool:
        """Return whether its tasks are to survive this agent's death."""
        return bool(self.info.get("checkpoint"))

    def hosted_by(self, executor: Executor) -> list[Task]:
        """Return the tasks of an executor that are not completely over."""
        run = executor.container_id
        return [task for task in self.tasks.values() if task.hosted and task.container_id == run]

    def can(self, capability: str) -> bool:
        """Return whether it has a capability such as TASK_KILLING_STATE."""
        return any(c.get("type") == capability for c in self.info.get("capabilities", ()))
