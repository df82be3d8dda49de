"""The books of the default executor: what its decisions read and write. Holds no socket, file, thread or clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, unique
from typing import Any

from mesos_gpu.executor.decisions.events import Document
from mesos_gpu.mesos.checks import Course
from mesos_gpu.mesos.documents import TaskInfo
from mesos_gpu.mesos.ids import ContainerId, TaskId
from mesos_gpu.mesos.moment import Moment


@unique
class Why(Enum):
    """Why a task was made to end; it decides the terminal state."""

    KILLED = "someone asked for it, or a sibling ended badly"
    UNHEALTHY = "its health check failed too often"
    TIMED_OUT = "it ran for its max_completion_time"


@dataclass
class Container:
    """One task and its nested container."""

    container_id: ContainerId
    task: TaskInfo
    group: int
    state: str = "TASK_STARTING"
    launched: bool = False
    why: Why | None = None
    kill_at_s: float | None = None
    """When SIGKILL follows."""
    deadline_s: float | None = None
    courses: list[Course] = field(default_factory=list)
    healthy: bool | None = None
    check_status: dict[str, Any] | None = None

    @property
    def task_id(self) -> TaskId:
        """Return the task's id."""
        return self.task["task_id"]["value"]


@dataclass(frozen=True)
class Setting:
    """What the environment says. `recovery_s`: how long to go on without an agent, None: not at all."""

    sandbox: str = ""
    recovery_s: float | None = None
    backoff_s: float = 2.0
    shutdown_grace_s: float = 5.0


@dataclass
class Subscription:
    """How this executor stands with its agent. `info` is the body of the last SUBSCRIBED event."""

    info: Document = field(default_factory=dict)
    connected: bool = False
    lost_at_s: float | None = None
    tries: int = 0


@dataclass
class Unacknowledged:
    """What the agent has not acknowledged: tasks by id, updates (bodies of UPDATE) by uuid."""

    tasks: dict[TaskId, TaskInfo] = field(default_factory=dict)
    updates: dict[str, Document] = field(default_factory=dict)


@dataclass
class Ending:
    """How far this program is from its own end. `exit_by_s`: when it ends without the last acknowledgements."""

    ever_launched: bool = False
    shutting_down: bool = False
    exit_by_s: float | None = None


@dataclass
class ExecutorState:
    """The books of one executor; `handle.handle` takes an event into them.

    `new_uuid` gives base64 of 16 bytes, `new_id` a fresh container id. `groups` counts those that were launched.
    """

    setting: Setting
    new_uuid: Callable[[], str]
    new_id: Callable[[], ContainerId]
    containers: dict[ContainerId, Container] = field(default_factory=dict)
    groups: int = 0
    agent: Subscription = field(default_factory=Subscription)
    unacknowledged: Unacknowledged = field(default_factory=Unacknowledged)
    ending: Ending = field(default_factory=Ending)

    @property
    def next_due_s(self) -> float | None:
        """Return when a Tick is wanted, in monotonic seconds; after one it is later, or None."""
        times = [self.ending.exit_by_s]
        if not self.agent.connected and self.agent.lost_at_s is not None and self.setting.recovery_s is not None:
            times.append(self.agent.lost_at_s + self.setting.recovery_s)
        for container in self.containers.values():
            if container.launched:  # what is being launched is signalled as soon as it runs
                times.append(container.kill_at_s)
            times += [container.deadline_s, *(course.due_s for course in container.courses)]
        return min((due_s for due_s in times if due_s is not None), default=None)

    def gives_agent_up(self, at: Moment) -> bool:
        """Return whether the agent has been gone for as long as it may be."""
        if self.agent.connected or self.agent.lost_at_s is None or self.setting.recovery_s is None:
            return False
        return at.mono_s >= self.agent.lost_at_s + self.setting.recovery_s

    def nested_id(self, container_id: ContainerId) -> Mapping[str, Any]:
        """Return the ContainerID of a nested container of this executor."""
        return {"value": container_id, "parent": self.agent.info["container_id"]}
